"""Restoring as docs/serve.md has it, and Connect: MirrorMaker 2, the script and a sink read from `kdump serve`.

What they bring into a real broker is compared with the records that a broker gave which was started on the same
directories.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from base64 import b64decode
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import zip_longest
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from tests.kafka.broker import LOG4J2, Broker, java
from tests.kafka.directories import MADE, Rich, State, rich
from tests.kafka.jars import MIRROR, class_path
from tests.kafka.kit import Kit
from tests.kafka.tally import Column, Comparison, Tally

DOCS = Path(__file__).resolve().parent.parent.parent / "docs" / "serve.md"

RELEASE = MIRROR.removeprefix("mirror-")

PATIENCE_SECONDS = 300

Rows = dict[str, list[dict[str, Any]]]
"""Partition → its records by offset. See Truth.java."""

_LEFT_OUT = ("message.timestamp.", "min.insync.", "unclean.", "leader.", "follower.")
"""The settings of topics that are not copied (Kafka: DefaultConfigPropertyFilter)."""


def _block(language: str, beginning: str) -> str:
    """The block of the docs in a language that begins so."""
    blocks = re.findall(rf"```{language}\n(.*?)```", DOCS.read_text(), re.DOTALL)
    (found,) = (block for block in blocks if block.startswith(beginning))
    return str(found)


@contextmanager
def _serving(directory: Rich) -> Iterator[str]:
    """`kdump serve`, as a process of its own; gives the address that it prints."""
    program = Path(sys.executable).parent / "kdump"
    command = [str(program), "serve", *map(str, directory.log_dirs), "--listen", "127.0.0.1:0", "--format", "jsonl"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        rows = (json.loads(line) for line in process.stdout)
        try:
            yield next(row["bootstrapServers"] for row in rows if row["type"] == "listening")
        finally:
            process.terminate()
            _, said = process.communicate(timeout=60)
    assert (process.returncode, said) == (0, "")


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    """The new cluster, which neither cleans nor deletes what it has just been given."""
    waits = {"log.cleaner.backoff.ms": "3600000", "log.retention.check.interval.ms": "3600000"}
    started = Broker(RELEASE, tmp_path / "broker", [tmp_path / "data"], **waits)
    started.format()
    try:
        started.start()
        yield started
    finally:
        started.kill()


@contextmanager
def _running(folder: Path, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """A class of MirrorMaker or Connect, which ends in order when the `with` does; what it says is kept in a folder."""
    log4j = folder / "log4j2.properties"
    log4j.write_text(LOG4J2)
    command = java(RELEASE, f"-Dlog4j2.configurationFile={log4j}", *arguments, extra=class_path(MIRROR))
    with (folder / "connect.log").open("wb") as log:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
    try:
        yield process
        assert process.poll() is None, (folder / "connect.log").read_text()[-4000:]
        process.terminate()
        process.wait(120)
    finally:
        process.kill()
        process.wait()


def _by_partition(rows: Iterator[dict[str, Any]]) -> Rows:
    found: Rows = defaultdict(list)
    for row in rows:
        if not row["partition"].startswith("__"):
            found[row["partition"]].append(row)
    for each in found.values():
        each.sort(key=lambda row: row["offset"])
    return found


def _committed(directory: Rich) -> Rows:
    """What read_committed consumers get of the directories before a broker starts on them.

    It is what they got afterwards, but for what retention and the cleaner took then, and the transactions that end.
    """
    rows = _by_partition(row for row in directory.records() if row["committed"])
    changed = directory.cleaned | {name for name in rows if name.startswith("busy-")}
    return {name: found for name, found in rows.items() if name not in changed}


def _facts(row: Mapping[str, Any] | None) -> object:
    """All but the offset, and what is the new broker's own."""
    return row and {name: row[name] for name in ("timestamp", "key", "value", "headers")}


def _what_came(compare: Comparison, broker: Broker, wanted: Rows, folder: Path) -> dict[str, Any]:
    """Compare the records that the new broker has; returns what it says."""
    path = folder / "records.jsonl"
    with Kit(RELEASE, MADE, folder / "kit.log") as kit:
        said: dict[str, Any] = kit.ask("truth", servers=broker.servers, records=str(path))
    with path.open() as file:
        came = _by_partition(map(json.loads, file))
    for name, rows in wanted.items():
        for number, (mine, theirs) in enumerate(zip_longest(came.get(name, ()), rows)):
            compare.same(f"{name}: record {number}", _facts(mine), _facts(theirs))
    compare.holds("records that were aborted, or are open, stayed away", not came.get("txn-open-0"))
    return said


def _topics(compare: Comparison, said: dict[str, Any], directory: Rich) -> None:
    for name, topic in directory.truth["topics"].items():
        if topic["internal"]:
            continue
        came = said["topics"].get(name, {"partitions": (), "configs": {}})
        compare.same(f"{name}: partitions", len(came["partitions"]), len(topic["partitions"]))
        own = {key: value for key, value in topic["configs"].items() if not key.startswith(_LEFT_OUT)}
        # MirrorMaker gives topics, too, what the dead cluster had set for all of them.
        shared = {key: value for key, value in came["configs"].items() if key not in own and key != "retention.bytes"}
        mine = {key: came["configs"].get(key) for key in own} | shared
        compare.same(f"{name}: settings", mine, own)


def _places(directory: Rich, wanted: Rows) -> Iterator[tuple[str, str, int, str]]:
    """(Group, partition, offset in a copy without gaps, metadata) of what groups have committed."""
    for group, told in directory.truth["groups"].items():
        for name, (offset, metadata, _) in told["commits"].items():
            if name in wanted:
                yield group, name, sum(row["offset"] < offset for row in wanted[name]), metadata


@pytest.mark.parametrize("state", State)
def test_mirror_maker_restores(state: State, broker: Broker, tally: Tally, tmp_path: Path) -> None:
    directory = rich(RELEASE, state)
    wanted = _committed(directory)
    settings = tmp_path / "mm2.properties"
    with _serving(directory) as servers, tally.of(RELEASE, Column.READ) as compare:
        text = _block("properties", "# mm2.properties")
        settings.write_text(text.replace("127.0.0.1:9092", servers).replace("new-kafka:9092", broker.servers))
        with _running(tmp_path, "org.apache.kafka.connect.mirror.MirrorMaker", str(settings)) as process:
            _wait_until_copied(process, broker, {name: len(rows) for name, rows in wanted.items()})
        said = _what_came(compare, broker, wanted, tmp_path)
        _topics(compare, said, directory)
        for group, name, exact, metadata in _places(directory, wanted):
            commits = said["groups"].get(group, {"commits": {}})["commits"]
            offset, text, _ = commits.get(name, (None, metadata, None))
            compare.same(f"{group}: {name}: metadata", text, metadata)
            compare.holds(f"{group}: {name}: {offset} is not beyond {exact}", offset is None or offset <= exact)
            if not name.startswith("txn-"):
                compare.holds(f"{group}: {name} is there", offset is not None)


def _wait_until_copied(process: subprocess.Popen[bytes], broker: Broker, wanted: dict[str, int]) -> None:
    """Until every partition has its records, and the groups are what they were ten seconds before."""
    admin = AdminClient({"bootstrap.servers": broker.servers})
    until = time.monotonic() + PATIENCE_SECONDS
    before: object = None
    while process.poll() is None and time.monotonic() < until:
        time.sleep(10)
        groups = sorted(each.group_id for each in admin.list_consumer_groups().result().valid)
        ends = _ends(admin)
        if groups and groups == before and all(ends.get(name, 0) >= count for name, count in wanted.items()):
            return
        before = groups


def _ends(admin: AdminClient) -> dict[str, int]:
    topics = admin.list_topics(timeout=60).topics
    places = [TopicPartition(name, number) for name, topic in topics.items() for number in topic.partitions]
    latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
    specs = dict.fromkeys(places, latest)
    try:
        return {
            f"{place.topic}-{place.partition}": asked.result().offset
            for place, asked in (admin.list_offsets(specs).items() if specs else ())
        }
    except KafkaException:  # a topic that is being made
        return {}


@pytest.mark.parametrize("state", State)
def test_the_script_restores(state: State, broker: Broker, tally: Tally, tmp_path: Path) -> None:
    directory = rich(RELEASE, state)
    wanted = _committed(directory)
    script = tmp_path / "restore.py"
    script.write_text(_block("python", '"""restore.py'))
    with _serving(directory) as servers, tally.of(RELEASE, Column.READ) as compare:
        command = [sys.executable, str(script), servers, broker.servers]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        said = _what_came(compare, broker, wanted, tmp_path)
        _topics(compare, said, directory)
        for group, name, exact, _ in _places(directory, wanted):
            commits = said["groups"].get(group, {"commits": {}})["commits"]
            compare.same(f"{group}: {name}", commits.get(name, ())[:1], [exact])


def test_connect_reads(tally: Tally, tmp_path: Path) -> None:
    """A sink connector in a standalone worker, which keeps everything of its own in files."""
    directory = rich(RELEASE, State.STOPPED)
    topics = ("plain", "codec-lz4", "codec-zstd", "txn")
    converter = "org.apache.kafka.connect.storage.StringConverter"
    out = tmp_path / "out"
    rows = (row for row in directory.records() if row["partition"].rpartition("-")[0] in topics and row["committed"])
    wanted = sorted(b64decode(row["value"]) for row in rows)
    with _serving(directory) as servers, tally.of(RELEASE, Column.READ) as compare:
        worker = {"bootstrap.servers": servers, "offset.storage.file.filename": tmp_path / "offsets"}
        worker |= {"key.converter": converter, "value.converter": converter, "listeners": "HTTP://127.0.0.1:0"}
        worker |= {"consumer.auto.offset.reset": "earliest", "consumer.isolation.level": "read_committed"}
        sink = {"name": "sink", "connector.class": "org.apache.kafka.connect.file.FileStreamSinkConnector"}
        sink |= {"topics": ",".join(topics), "file": str(out)}
        for name, settings in (("worker", worker), ("sink", sink)):
            (tmp_path / name).write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        places = [str(tmp_path / name) for name in ("worker", "sink")]
        with _running(tmp_path, "org.apache.kafka.connect.cli.ConnectStandalone", *places) as process:
            until = time.monotonic() + PATIENCE_SECONDS
            while process.poll() is None and time.monotonic() < until:
                if out.exists() and out.read_bytes().count(b"\n") >= len(wanted):
                    break
                time.sleep(1)
        compare.same("values", sorted(out.read_bytes().splitlines()), wanted)

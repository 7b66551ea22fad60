"""The reproductions of docs/kafka-bugs.md: that each release still does what the page says of it."""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Producer
from kafka import KafkaConsumer, TopicPartition

from kdump.formats import names
from kdump.formats.batch import CONTROL
from kdump.formats.kraft_snapshot import kraft_batch
from kdump.formats.schemas.cluster_metadata import decode_value, encode_value
from kdump.query.contents import contents_in, runs
from kdump.storage.partition import PartitionLog
from tests.kafka.answers import check_nothing_found
from tests.kafka.broker import Broker, minor
from tests.kafka.command import jsonl
from tests.kafka.directories import MADE, Rich, State, copy_tree, rich
from tests.kafka.kit import Kit
from tests.kafka.tally import Column, Tally
from tests.topics.building import unexpected

_TOPIC = "orders"
_METADATA = "__cluster_metadata-0"
PREVIEW = Path(__file__).resolve().parents[2] / "fixtures" / "corpus" / "f-share-group-state" / "__share_group_state-2"
"""Share groups were a preview in 4.0, which wrote this."""
_CLEANS_WITHOUT_END = ("3.9", "4.0")
_THREAD_ENDS = "java.lang.IllegalStateException: Duplicate key"


def _partition(directory: Rich, name: str, target: Path) -> Path:
    source = next(path for path in directory.partitions if path.name == name)
    shutil.copytree(source, target)
    return target


def test_the_dump_tool_and_files(release: str, tally: Tally, tmp_path: Path) -> None:
    """It cuts an index, makes a missing one, and takes -1 for the offset before the first."""
    is_java = minor(release) not in ("3.9", "4.0", "4.1", "4.2")
    folder = _partition(rich(release, State.STOPPED), "create-time-0", tmp_path / "create-time-0")
    first, second, *_ = sorted(folder.glob("*.log"))
    with tally.of(release, Column.DUMP) as compare, Kit(release, MADE, tmp_path / "kit.log") as kit:
        index = first.with_suffix(".index")
        torn = (index.read_bytes() + bytes(11))[:11]
        index.write_bytes(torn)
        kit.dump_log("--index-sanity-check", "--files", str(index))
        compare.same("bytes of a torn index after its check", index.stat().st_size, 8 if is_java else 11)
        index.unlink()
        kit.dump_log("--files", str(first.with_suffix(".timeindex")))
        compare.same("bytes of an index that was missing", index.exists() and index.stat().st_size, 0)
        said = kit.dump_log("--deep-iteration", "--files", str(second)).err.decode()
        compare.same("-1 is followed", "  -1 is followed by " in said, is_java)


def test_the_dump_of_a_time_index_reads_to_the_end(release: str, tally: Tally, tmp_path: Path) -> None:
    """For each entry, from 4.3 on: a bad batch at the end of the log ends it before the first one is printed."""
    folder = _partition(rich(release, State.STOPPED), "big-0", tmp_path / "big-0")
    log = min(folder.glob("*.log"))
    entries = log.with_suffix(".timeindex").stat().st_size // 12
    content = bytearray(log.read_bytes())
    *_, last = PartitionLog(str(folder)).segments[0].batches()
    content[last.position + 8 : last.position + 12] = (5).to_bytes(4, "big")  # a size that no batch has
    log.write_bytes(content)
    with tally.of(release, Column.DUMP) as compare, Kit(release, MADE, tmp_path / "kit.log") as kit:
        printed = kit.dump_log("--files", str(log.with_suffix(".timeindex"))).out.decode().count("timestamp: ")
        compare.holds(f"there are {entries} entries", entries > 2)
        compare.same("entries are printed", printed > 0, minor(release) != "4.3")


def test_the_state_of_share_groups_by_4_0(release: str, tally: Tally, tmp_path: Path) -> None:
    """Later tools cannot read it: the fields are others under the same version. 3.9 has no such decoder."""
    log = PREVIEW / f"{0:020d}.log"
    with tally.of(release, Column.DUMP) as compare, Kit(release, MADE, tmp_path / "kit.log") as kit:
        done = kit.dump_log("--share-group-state-decoder", "--files", str(log))
        unread = b"Could not read record with version 0" in done.out + done.err
        compare.same("exit code", done.exit_code, 1 if minor(release) == "3.9" else 0)
        compare.same("records that cannot be read", unread, minor(release) not in ("3.9", "4.0"))


def test_a_partition_in_two_cleaner_checkpoints(release: str, tally: Tally, tmp_path: Path) -> None:
    """The thread of the cleaner ends, or cleans the same without end. `verify` finds it."""
    first, second = log_dirs = rich(release, State.STOPPED).copy(tmp_path)
    topic, partition, _ = (first / names.CLEANER_CHECKPOINT).read_text().splitlines()[2].split()
    lines = (second / names.CLEANER_CHECKPOINT).read_text().splitlines()
    lines[1] = str(int(lines[1]) + 1)
    (second / names.CLEANER_CHECKPOINT).write_text("\n".join([*lines, f"{topic} {partition} 0", ""]))
    found = {row["code"] for row in jsonl("verify", *log_dirs).of_type("finding")}
    broker = Broker(release, tmp_path, log_dirs)
    with tally.of(release, Column.VERIFY) as compare:
        compare.holds("KD-CKPT-CLEANER-TWICE", "KD-CKPT-CLEANER-TWICE" in found)
        try:
            broker.start()
            _wait_for(lambda: _THREAD_ENDS in broker.log or broker.log.count(_cleaning(topic, partition)) > 3)
        finally:
            broker.kill()
        compare.same("the thread ends", _THREAD_ENDS in broker.log, minor(release) not in _CLEANS_WITHOUT_END)


def _wait_for(truth: Callable[[], bool]) -> None:
    for _ in range(600):
        if truth():
            return
        time.sleep(0.2)
    pytest.fail("it did not come within two minutes")


def _cleaning(topic: str, partition: str) -> str:
    return f"Beginning cleaning of log {topic}-{partition}"


def test_a_producer_id_that_is_handed_out_again(release: str, tally: Tally, tmp_path: Path) -> None:
    """The cluster forgets that it gave an id out; the next producer gets it, and its first record is not written."""
    broker = Broker(release, tmp_path, [tmp_path / "data"])
    broker.format()
    metadata = tmp_path / "data" / _METADATA
    try:
        _ask(broker, "create", topic=_TOPIC)
        copy_tree(metadata, tmp_path / "before")
        _ask(broker, "produce", topic=_TOPIC, values=["first 0"])
        shutil.rmtree(metadata)
        copy_tree(tmp_path / "before", metadata)
        _ask(broker, "produce", topic=_TOPIC, values=["second 0", "second 1"])
    finally:
        broker.kill()
    with tally.of(release, Column.READ) as compare:
        rows = jsonl("dump", "--raw", tmp_path / "data" / f"{_TOPIC}-0").of_type("record")
        compare.same("records", [row["value"] for row in rows], ["first 0", "second 1"])
        batches = jsonl("dump", "--batches-only", tmp_path / "data" / f"{_TOPIC}-0").of_type("batch")
        compare.same("producer ids", len({row["producerId"] for row in batches}), 1)


def test_a_torn_partition_metadata(release: str, tally: Tally, tmp_path: Path) -> None:
    """The log directory is noted as offline, and met again: the process ends. `startup` knows."""
    first, second = rich(release, State.STOPPED).copy(tmp_path)
    assert (first / names.CLUSTER_METADATA_DIR).is_dir()
    # of a partition that is not the last to be loaded
    name = next(name for name in os.listdir(second) if (second / name / names.PARTITION_METADATA).is_file())
    torn = second / name / names.PARTITION_METADATA
    torn.write_bytes(torn.read_bytes()[:20])
    broker = Broker(release, tmp_path, [first, second])
    foretold = jsonl("startup", "--config", broker.config, first, second).of_type("broker")[0]["isStartable"]
    with tally.of(release, Column.FORECAST) as compare:
        serves, log = broker.tried()
        compare.same("a broker serves beside a torn partition.metadata", serves, False)
        compare.same("what startup says of it", foretold, serves)
        compare.holds("is already offline", "is already offline due to a previous IO exception" in log)


def test_a_topic_without_its_first_partition(release: str, tally: Tally, tmp_path: Path) -> None:
    """The controller fails at what brokers register and report, and renounces its leadership each time."""
    log_dirs = rich(release, State.STOPPED).copy(tmp_path)
    _append_a_topic(PartitionLog(str(log_dirs[0] / names.CLUSTER_METADATA_DIR)))
    limit = {"initial.broker.registration.timeout.ms": "8000"}
    broker = Broker(release, tmp_path, log_dirs, **limit)
    with tally.of(release, Column.FORECAST) as compare:
        _, log = broker.tried()
        fails = re.search(r"quorum controller fault: .* NullPointerException .* Renouncing leadership", log)
        compare.holds("the controller's NullPointerException", fails is not None)


def test_aborted_records_of_a_partition_that_was_copied(release: str, tally: Tally, tmp_path: Path) -> None:
    """What is fetched at once is appended at once: an aborted transaction's last stable offset is too high then, and
    the search for aborted transactions ends before it comes to the next one. No file is damaged by that.
    """
    log_dirs = [tmp_path / "disk1", tmp_path / "disk2"]
    broker = Broker(release, tmp_path, log_dirs)
    broker.format()
    try:
        with Kit(release, MADE, tmp_path / "kit.log") as kit:
            broker.start()
            kit.ask("admin", servers=broker.servers, step="create", topic=_TOPIC, configs={"index.interval.bytes": "0"})
            _transactions(broker.servers)
            before = _committed(broker.servers)
            source, target = sorted(log_dirs, key=lambda path: not (path / f"{_TOPIC}-0").is_dir())
            kit.ask("admin", servers=broker.servers, step="move", topic=_TOPIC, to=str(target))
            while (source / f"{_TOPIC}-0").exists() or not (target / f"{_TOPIC}-0").exists():
                assert broker.runs
                time.sleep(0.1)
            after = _committed(broker.servers)
        broker.stop()
    finally:
        broker.kill()
    with tally.of(release, Column.VERIFY) as compare:
        compare.same("offsets of what a read_committed consumer gets before the copy", before, [4])
        compare.same("and after it", after, [2, 4])
        done = jsonl("verify", "--deep", "--fail-on", "warning", *log_dirs)
        check_nothing_found(compare, done)


def _transactions(servers: str) -> None:
    """Two transactions of a producer, both aborted, and one of another one: a record and a marker each."""
    for name, ends in (("first", ("abort", "abort")), ("second", ("commit",))):
        producer = Producer({"bootstrap.servers": servers, "transactional.id": name})
        producer.init_transactions(60)
        for end in ends:
            producer.begin_transaction()
            producer.produce(_TOPIC, b"a value", partition=0)
            producer.flush()
            producer.abort_transaction(60) if end == "abort" else producer.commit_transaction(60)


def _committed(servers: str) -> list[int]:
    """The offsets that a read_committed consumer gets, a batch at a time."""
    consumer = KafkaConsumer(
        bootstrap_servers=servers, isolation_level="read_committed", max_partition_fetch_bytes=1, fetch_max_bytes=1
    )
    partition = TopicPartition(_TOPIC, 0)
    consumer.assign([partition])
    consumer.seek_to_beginning(partition)
    end, found = consumer.end_offsets([partition])[partition], []
    while consumer.position(partition) < end:
        for records in consumer.poll(200).values():
            found += [record.offset for record in records]
    consumer.close()
    return found


def _append_a_topic(log: PartitionLog) -> None:
    """A topic with the partition 1 alone, behind the end of a cluster's metadata log."""
    last = {}
    for segment, run in runs(log.segments, unexpected):
        for content in contents_in(segment, run, unexpected):
            end, epoch, time = content.offset + 1, run.block.leader_epoch[content.row], content.timestamp
            if not run.block.attributes[content.row] & CONTROL:
                record = decode_value(content.value or b"")
                last[record.name] = record
    made = {"name": "without-first", "topicId": bytes(range(16)), "partitionId": 1}
    values = []
    for name in ("TopicRecord", "PartitionRecord"):
        fields = {field: made.get(field, value) for field, value in last[name].fields.items()}
        values.append(encode_value(last[name].type, last[name].version, fields))
    with open(log.segments[-1].log_path, "ab") as file:
        file.write(kraft_batch([(None, value) for value in values], end, epoch, time, is_control=False))


def _ask(broker: Broker, step: str, **request: object) -> None:
    """Start the broker, let it do a step, and stop it in order. All that is sent is acknowledged."""
    broker.start()
    with Kit(broker.release, MADE, broker.folder / "kit.log") as kit:
        kit.ask("admin", servers=broker.servers, step=step, **request)
    broker.stop()

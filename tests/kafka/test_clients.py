"""What Python's Kafka clients write and read: kdump reads the one, and they read what kdump writes."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from random import Random
from typing import Any, NamedTuple

import pytest

from tests.kafka.broker import Broker
from tests.kafka.clients import CLIENTS, Client, Record
from tests.kafka.command import jsonl, kdump
from tests.kafka.directories import MADE
from tests.kafka.kit import Kit
from tests.kafka.tally import Column, Tally

COUNT = 200


class Written(NamedTuple):
    """A stopped broker's log directory: what each client sent, and got, of its topics."""

    broker: Broker
    got: dict[str, list[Record]]


def _topics(client: str) -> list[tuple[str, str]]:
    """The topics of a client, with the codec of each."""
    return [(f"{client}-{codec}", codec) for codec in CLIENTS[client].codecs]


def _records(random: Random) -> list[Record]:
    return [
        Record(
            None if number % 5 == 0 else random.randbytes(random.randint(0, 20)),
            # Some clients refuse a record with neither.
            None if number % 5 == 2 else random.randbytes(random.randint(0, 300)),
            tuple((f"h{n}", random.randbytes(n)) for n in range(random.randint(0, 3))),
        )
        for number in range(COUNT)
    ]


@pytest.fixture(scope="module")
def written(release: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Written]:
    folder = tmp_path_factory.mktemp(f"clients-{release}")
    broker = Broker(release, folder, [folder / "data"])
    broker.format()
    got: dict[str, list[Record]] = {}
    present = {name: client for name, client in CLIENTS.items() if client.is_installed}
    try:
        broker.start()
        with Kit(release, MADE, folder / "kit.log") as kit:
            for name in present:
                for topic, _ in _topics(name):
                    kit.ask("admin", servers=broker.servers, step="create", topic=topic)
        for name, client in present.items():
            for topic, codec in _topics(name):
                client.send(broker.servers, topic, _records(Random(topic)), codec)
                got[topic] = client.read(broker.servers, topic, COUNT)
        broker.stop()
        yield Written(broker, got)
    finally:
        broker.kill()


def _seen(rows: Sequence[dict[str, Any]]) -> list[Record]:
    return [
        Record(
            _bytes(row, "key"),
            _bytes(row, "value"),
            tuple((header["key"], _bytes(header, "value")) for header in row["headers"]),
            row["offset"],
            row["timestamp"],
        )
        for row in rows
    ]


def _bytes(row: dict[str, Any], name: str) -> bytes | None:
    twin = row.get(f"{name}Base64")
    if twin is not None:
        return base64.b64decode(twin)
    text: str | None = row[name]
    return None if text is None else text.encode()


def test_dump_reads_what_clients_write(written: Written, tally: Tally) -> None:
    (log_dir,) = written.broker.log_dirs
    with tally.of(written.broker.release, Column.READ) as compare:
        for topic, got in written.got.items():
            ours = _seen(jsonl("dump", "--raw", log_dir / f"{topic}-0").of_type("record"))
            compare.same(f"dump: number of records of {topic}", len(ours), len(got))
            for mine, theirs in zip(ours, got, strict=False):
                compare.same(f"dump: {topic} at {theirs.offset}", mine, theirs)
        done = jsonl("verify", "--deep", "--fail-on", "warning", log_dir)
        compare.same("verify: exit code", done.exit_code, 0)


def test_clients_read_what_kdump_appends(written: Written, tally: Tally) -> None:
    """Every topic's records, appended by kdump to another topic in the other order of codecs."""
    broker = written.broker
    (log_dir,) = broker.log_dirs
    with tally.of(broker.release, Column.WRITE) as compare:
        for name in (name for name, client in CLIENTS.items() if client.is_installed):
            topics = _topics(name)
            for (topic, _), (_, codec) in zip(topics, reversed(topics), strict=True):
                rows = jsonl("dump", "--raw", log_dir / f"{topic}-0").of_type("record")
                done = kdump("append", "--repack", "--codec", codec, log_dir / f"{topic}-0", requests=rows)
                compare.same(f"append to {topic}: exit code", (done.exit_code, done.err), (0, ""))
        try:
            broker.start()
            for name, client in CLIENTS.items():
                if client.is_installed:
                    _check_twice_as_many(compare, broker.servers, name, client, written.got)
        finally:
            broker.kill()


def _check_twice_as_many(
    compare: Any, servers: str, name: str, client: Client, before: dict[str, list[Record]]
) -> None:
    for topic, _ in _topics(name):
        got = client.read(servers, topic, 2 * COUNT)
        wanted = before[topic] + [record._replace(offset=record.offset + COUNT) for record in before[topic]]
        compare.same(f"{name}: number of records of {topic}", len(got), len(wanted))
        for one, other in zip(got, wanted, strict=False):
            compare.same(f"{name}: {topic} at {other.offset}", one, other)

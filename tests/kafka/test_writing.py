"""What `append`, `roll` and `rebuild-index` leave, a broker starts on, clients read, and the broker would write too."""

from __future__ import annotations

import base64
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from random import Random
from typing import Any

from tests.kafka.broker import Broker
from tests.kafka.clients import CLIENTS
from tests.kafka.command import jsonl, kdump
from tests.kafka.directories import MADE, State, copy_tree, rich
from tests.kafka.kit import Kit
from tests.kafka.tally import Column, Comparison, Tally

APPENDED = {"headers-0": "none", "defaults-0": "zstd", "defaults-1": "gzip", "create-time-0": "lz4", "txn-1": "snappy"}
"""Partitions that kdump appends to, with the codec."""

ROLLED = ("plain-0", "defaults-0", "create-time-0")
REBUILT = ("plain-1", "plain-2", "create-time-1", "append-time-0", "big-0", "codec-gzip-0", "trimmed-0", *APPENDED)
"""Partitions of which the broker has to build the indexes again, and of which kdump did before."""

_INDEXES = (".index", ".timeindex")


def _lines(partition: str) -> Iterator[dict[str, Any]]:
    random = Random(partition)
    for number in range(400):
        yield {
            "key": f"key {number}" if number % 3 else None,
            "valueBase64": base64.b64encode(random.randbytes(random.randrange(300))).decode(),
            "headers": [{"key": "h", "value": str(number)}] if number % 7 == 0 else [],
        }


def _partitions(log_dirs: Iterable[Path], names: Iterable[str]) -> dict[str, Path]:
    found = {path.name: path for log_dir in log_dirs for path in log_dir.iterdir() if path.is_dir()}
    return {name: found[name] for name in names}


def _indexes(partition: Path) -> dict[str, bytes]:
    """The entries of all indexes of a log. Those of an empty segment may be there or not."""
    return {
        path.name: path.read_bytes()
        for path in sorted(partition.iterdir())
        if path.suffix in _INDEXES and path.with_suffix(".log").stat().st_size
    }


def _change(compare: Comparison, log_dirs: list[Path]) -> None:
    for name, path in _partitions(log_dirs, APPENDED).items():
        done = kdump("append", "--format", "jsonl", "--codec", APPENDED[name], path, requests=_lines(name))
        compare.same(f"append to {name}: exit code", (done.exit_code, done.err), (0, ""))
    done = kdump("roll", *_partitions(log_dirs, ROLLED).values())
    compare.same("roll: exit code", (done.exit_code, done.err), (0, ""))


def _rebuild(compare: Comparison, log_dirs: list[Path]) -> dict[str, dict[str, bytes]]:
    """Remove indexes and let kdump build them again; what it builds."""
    paths = _partitions(log_dirs, REBUILT)
    _remove_indexes(paths.values())
    done = jsonl("rebuild-index", "--apply", *paths.values())
    compare.same("rebuild-index: exit code", (done.exit_code, done.err), (0, ""))
    return {name: _indexes(path) for name, path in paths.items()}


def _remove_indexes(partitions: Iterable[Path]) -> None:
    for path in partitions:
        for name in _indexes(path):
            (path / name).unlink()


def _read(broker: Broker) -> dict[str, dict[int, dict[str, Any]]]:
    """Start the broker, read everything with its release's consumer, and stop it in order."""
    file = broker.folder / "records.jsonl"
    try:
        broker.start()
        with Kit(broker.release, MADE, broker.folder / "kit.log") as kit:
            kit.ask("truth", servers=broker.servers, records=str(file))
        _check_librdkafka(broker)
        broker.stop()
    finally:
        broker.kill()
    records: dict[str, dict[int, dict[str, Any]]] = defaultdict(dict)
    with file.open() as lines:
        for row in map(json.loads, lines):
            records[row["partition"]][row["offset"]] = row
    return records


def _check_librdkafka(broker: Broker) -> None:
    client = CLIENTS["librdkafka"]
    if client.is_installed:
        got = client.read(broker.servers, "headers", 400)
        assert len(got) >= 400


def test_brokers_take_and_would_write_what_kdump_writes(release: str, tally: Tally, tmp_path: Path) -> None:
    stopped = rich(release, State.STOPPED)
    log_dirs = stopped.copy(tmp_path / "kdump")
    with tally.of(release, Column.WRITE) as compare:
        _change(compare, log_dirs)
        ours = _rebuild(compare, log_dirs)
        folder = tmp_path / "kafka"
        copies = [folder / log_dir.name for log_dir in log_dirs]
        for log_dir, copy in zip(log_dirs, copies, strict=True):
            copy_tree(log_dir, copy)
        _remove_indexes(_partitions(copies, REBUILT).values())
        before: dict[str, dict[int, dict[str, Any]]] = defaultdict(dict)
        for row in stopped.records():
            before[row["partition"]][row["offset"]] = row
        after = _read(Broker(release, folder, copies))
        for name, path in _partitions(copies, REBUILT).items():
            theirs = _indexes(path)
            compare.same(f"{name}: index files", sorted(ours[name]), sorted(theirs))
            for file in ours[name].keys() & theirs.keys():
                compare.same(f"{name}/{file}", ours[name][file].hex(), theirs[file].hex())
        for name in (*ROLLED, *REBUILT):
            _check_records(compare, name, before[name], after[name])


def _check_records(compare: Comparison, name: str, before: dict[int, Any], after: dict[int, Any]) -> None:
    for offset, row in before.items():
        compare.same(f"{name}: record {offset}", after.get(offset), row)
    added = [row for offset, row in sorted(after.items()) if offset not in before]
    wanted = list(_lines(name)) if name in APPENDED else []
    compare.same(f"{name}: records appended", len(added), len(wanted))
    for row, line in zip(added, wanted, strict=False):
        key = None if line["key"] is None else base64.b64encode(line["key"].encode()).decode()
        headers = [[header["key"], base64.b64encode(header["value"].encode()).decode()] for header in line["headers"]]
        got = (row["key"], row["value"], row["headers"])
        compare.same(f"{name}: appended at {row['offset']}", got, (key, line["valueBase64"], headers))

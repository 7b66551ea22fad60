"""Take logs that Kafka wrote apart into their appends, and append the same again."""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from kdump.formats.batch import CODEC_MASK, LOG_APPEND_TIME
from kdump.formats.checksums import crc32, crc32c
from kdump.settings.sources import TopicSettings
from kdump.settings.writing import WritingSettings
from kdump.storage.open import open_log
from kdump.storage.records import Batch, batch_at, records_of
from kdump.write.incoming import AppendOrigin, BatchReader
from kdump.write.log_dir import LogDirWriter
from kdump.write.log_writer import LogWriter

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures" / "corpus"
NOW = 1_700_000_000_000
BROKER_EPOCH = 42
UNTOUCHED = {"meta.properties", "partition.metadata", "quorum-state"}
LAST_TIME = str((1 << 63) - 1)

_SMALL = {"index.interval.bytes": "512", "segment.bytes": "8192"}
_MIDDLE = {"index.interval.bytes": "512", "segment.bytes": "16384"}
_INTERNAL = {"cleanup.policy": "compact", "index.interval.bytes": "1024", "segment.bytes": "65536"}
_V0 = {"message.format.version": "0.9.0"}
_V1 = {"message.format.version": "0.10.2"}
CONFIGS = {
    "b-v0-lz4-gaps": {"segment.bytes": "40000", **_V0},
    "c-extreme-ts": {"index.interval.bytes": "256", "segment.bytes": "30000"},
    "d-only-control": {"index.interval.bytes": "128", "segment.bytes": "2048"},
    "e-base-max": _MIDDLE,
    "e-leader-epochs": {"index.interval.bytes": "1024", "segment.bytes": "32768"},
    "e-sparse-edge": {"index.interval.bytes": "1", "segment.bytes": "65536"},
    "f-cluster-metadata": {"index.interval.bytes": "1024", "segment.bytes": "32768"},
    "f-consumer-offsets": _INTERNAL,
    "f-consumer-offsets-bad": _INTERNAL,
    "f-remote-log-metadata": {"index.interval.bytes": "1024", "segment.bytes": "65536"},
    "f-share-group-state": _INTERNAL,
    "f-transaction-state": _INTERNAL,
    "h-empty": {},
    "h-empty-active": {"segment.bytes": "98304"},
    "h-prealloc-log": {"preallocate": "true", "segment.bytes": "131072", "segment.index.bytes": "4096"},
    "s-src-gzip": _SMALL,
    "s-src-lz4": _SMALL,
    "s-src-none": _MIDDLE,
    "s-src-snappy": _SMALL,
    "s-src-txn": _MIDDLE,
    "s-src-v0-lz4": {**_SMALL, **_V0},
    "s-src-v1-gzip": {**_SMALL, **_V1},
    "s-src-v1-snappy": {**_SMALL, **_V1},
    "s-src-zstd": _SMALL,
}
"""What the topics of the cases in fixtures/ were configured with."""


class Case(NamedTuple):
    """A log that Kafka wrote: its partition directory, its topic's configuration, and how many batches went at once."""

    name: str
    path: Path
    config: dict[str, str]
    log_start_offset: int = 0
    appends: tuple[int, ...] = ()

    @property
    def was_killed(self) -> bool:
        """Whether the broker was not stopped in order."""
        return self.name.startswith("h-prealloc")


def fixture_case(name: str) -> Case:
    """One of the cases in fixtures/."""
    (path,) = (each for each in (FIXTURES / name).iterdir() if each.is_dir())
    return Case(name, path, CONFIGS[name], (1 << 63) - 100_001 if name == "e-base-max" else 0)


def corpus_cases(corpus: Path) -> Iterator[Case]:
    """All sound cases that can be replayed: not those that were cleaned, or of which nothing tells the appends."""
    appends = {row["case"]: tuple(row["appends"]) for row in _rows(corpus / "appends.jsonl")}
    for row in _rows(corpus / "cases.jsonl"):
        name = row["case"]
        if "source" in row or name.startswith("k-") or (name.startswith("g-") and not name.endswith("-0-before")):
            continue
        path = corpus / "corpus" / row["dir"]
        yield Case(name, path, row["config"], row["logStartOffset"], appends.get(name, ()))


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    with open(path, encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def batches(case: Case) -> list[bytes]:
    """The bytes of every batch of a log."""
    found = []
    for segment in open_log(str(case.path)).segments:
        with segment.open_log() as file:
            for block in file.blocks():
                for row in range(block.length):
                    at = block.position[row] - block.data_position
                    found.append(bytes(block.data[at : at + block.size[row]]))
    return found


def appends(case: Case) -> Iterator[list[bytes]]:
    """The batches of every append."""
    rest, sizes = iter(batches(case)), iter(case.appends)
    while group := list(islice(rest, next(sizes, 1))):
        yield group


def as_follower(case: Case, folder: Path) -> Path:
    """Append the batches as they are; the new partition directory."""
    with _log_dir(folder) as log_dir:
        log = _new_log(case, log_dir)
        for group in appends(case):
            log.append_as_follower(b"".join(group))
        _close(case, log, log_dir)
    return Path(log.path)


def as_leader(case: Case, folder: Path) -> Path:
    """Take from the batches what the leader gave them, and append them as a producer's; the new partition directory."""
    clock = [NOW]
    with _log_dir(folder, clock) as log_dir:
        log = _new_log(case, log_dir)
        reader = BatchReader("topic-0")
        for group in appends(case):
            sent = [unassigned(reader, data) for data in group]
            batch = sent[-1][1]
            if batch.magic and batch.attributes & LOG_APPEND_TIME:
                clock[0] = batch.max_timestamp
            origin = AppendOrigin.COORDINATOR if batch.is_control else AppendOrigin.CLIENT
            log.append_as_leader(b"".join(data for data, _ in sent), max(0, batch.leader_epoch), origin)
        _close(case, log, log_dir)
    return Path(log.path)


def _log_dir(folder: Path, clock: list[int] | None = None) -> LogDirWriter:
    now = clock or [NOW]
    return LogDirWriter(str(folder), broker_epoch=BROKER_EPOCH, clock=lambda: now[0], durable=False)


def _new_log(case: Case, log_dir: LogDirWriter) -> LogWriter:
    topic, _, partition = case.path.name.rpartition("-")
    properties = {"message.timestamp.after.max.ms": LAST_TIME, **case.config}
    config = WritingSettings.of(TopicSettings.of(properties), index_per_batch=False)
    return log_dir.create_log(topic, int(partition), config, start_offset=_first_base(case))


def _close(case: Case, log: LogWriter, log_dir: LogDirWriter) -> None:
    last = open_log(str(case.path)).segments[-1]
    if os.path.getsize(last.log_path) == 0 and last.base_offset > log.active.base_offset:
        log.roll()
    log.advance_log_start(case.log_start_offset)
    log_dir.close(clean=not case.was_killed)


def unassigned(reader: BatchReader, data: bytes) -> tuple[bytes, Batch]:
    """A batch as its producer sent it, and as the log has it."""
    stored = batch_at(reader.read(data), 0)
    sent = bytearray(data)
    if stored.magic == 2:
        struct.pack_into(">q", sent, 0, 0)
        struct.pack_into(">i", sent, 12, -1)
    elif stored.is_wrapper:
        struct.pack_into(">q", sent, 0, sum(1 for _ in records_of(reader.read(data))) - 1)
    if stored.magic and stored.attributes & LOG_APPEND_TIME:
        _take_append_time(reader, sent, stored)
    return bytes(sent), stored


def _take_append_time(reader: BatchReader, sent: bytearray, stored: Batch) -> None:
    """Make a batch one of CreateTime, with the largest timestamp of its producer's records."""
    attributes_at, timestamp_at = (22, 35) if stored.magic == 2 else (17, 18)
    sent[attributes_at] &= ~LOG_APPEND_TIME
    if stored.magic == 2 or stored.attributes & CODEC_MASK:
        stamped = records_of(reader.read(bytes(sent)))
        latest = max(record.timestamp for record in stamped)  # type: ignore[union-attr]  # damage fails the test
        struct.pack_into(">q", sent, timestamp_at, latest)
    if stored.magic == 2:
        struct.pack_into(">I", sent, 17, crc32c(bytes(sent[21:])))
    else:
        struct.pack_into(">I", sent, 12, crc32(bytes(sent[16:])))


def differences(case: Case, made: Path) -> list[str]:
    """The files of a partition, and of its log directory, that are not Kafka's to the byte."""
    found = _different(contents(case.path), contents(made))
    beside = _different(contents(case.path.parent), contents(made.parent)) - UNTOUCHED
    if case.was_killed:  # of these the checkpoints were written afterwards, and no lock file kept
        beside -= {".lock", "recovery-point-offset-checkpoint"}
    if 0 < case.log_start_offset == _first_base(case):  # this too
        beside -= {"log-start-offset-checkpoint"}
    return sorted(found | beside)


def _different(want: dict[str, bytes], got: dict[str, bytes]) -> set[str]:
    return {name for name in want.keys() | got.keys() if want.get(name) != got.get(name)} - UNTOUCHED


def _first_base(case: Case) -> int:
    return open_log(str(case.path)).segments[0].base_offset


def contents(folder: Path) -> dict[str, bytes]:
    """The files in a directory, KRaft snapshots apart."""
    files = (path for path in folder.iterdir() if path.is_file() and path.suffix != ".checkpoint")
    return {path.name: path.read_bytes() for path in files}

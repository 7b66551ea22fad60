"""Turn over every bit of small segments and their index files, cut them at every byte, and see what verify says.

    python -m tests.verify.flips [--missed]

runs all of it (some minutes) and prints the tables that docs/verify.md has; the tests run a part of it.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import kdump
from kdump.errors import KdumpError
from kdump.formats.codecs import NAMES
from kdump.formats.index_entries import AbortedTxn, encode_aborted_txns
from kdump.formats.producer_snapshot import ProducerEntry, encode_producer_snapshot
from kdump.query.lookup import LogLookup
from kdump.storage.partition import PartitionLog
from kdump.storage.records import Batch, Record
from tests.verify.building import TIME, Log, batch, build, entry, file, marker, produced

FORMATS = [(magic, codec) for magic in range(3) for codec in range(5 if magic == 2 else 4)]
PRODUCER = 7


class Sample(NamedTuple):
    """A sound log, and the file of it that is damaged."""

    name: str
    log: Log
    file: str


class Setting(NamedTuple):
    """How logs were left, and how they are verified."""

    name: str
    closed: bool
    deep: bool


SETTINGS = (
    Setting("closed in order, --deep", True, True),
    Setting("after a crash before any checkpoint, --deep", False, True),
    Setting("closed in order, without --deep", True, False),
)


class Outcome(NamedTuple):
    """What became of damage: `codes` found that the sound log does not have, `changed` what a reader sees otherwise.

    `at` is the byte, `bit` the bit turned over there, -1 where the file was cut at the byte.
    """

    at: int
    bit: int
    codes: frozenset[str]
    changed: str


def log_sample(folder: Path, magic: int, codec: int, *, closed: bool = True) -> Sample:
    """Three entries of a format."""
    batches = [entry(magic, codec, offset) for offset in (0, 2, 4)]
    log = build(folder, {0: batches}, closed=closed, epochs="0 0\n" if magic == 2 else "")
    return Sample(f"v{magic} {NAMES[codec]}", log, file(0, "log"))


def samples(folder: Path, *, closed: bool = True) -> Iterator[Sample]:
    """Logs of every format and codec, and index files, of segments that are rolled and of the last one."""
    for magic, codec in FORMATS:
        yield log_sample(folder / f"v{magic}-{codec}", magic, codec, closed=closed)
    yield from transaction_samples(folder / "transactions", closed=closed)
    yield from index_samples(folder / "indexes", closed=closed)


def transaction_samples(folder: Path, *, closed: bool = True) -> Iterator[Sample]:
    """A log with transactions, its .txnindex, and the snapshots before and behind it."""
    batches = [produced(0, PRODUCER, 0), marker(2, PRODUCER)]
    batches += [produced(3, PRODUCER, 2), marker(5, PRODUCER, commit=True)]
    aborted = encode_aborted_txns([AbortedTxn(0, PRODUCER, 0, 2, 3)])
    state = encode_producer_snapshot([ProducerEntry(PRODUCER, 0, 3, 4, 1, TIME + 5, 3, -1)])
    beside = {file(0, "txnindex"): aborted, file(6, "snapshot"): state}
    log = build(folder, {0: batches, 6: [batch(6)]}, closed=closed, beside=beside)
    for name in (file(0, "log"), *beside):
        yield Sample(f"transactions: {name.partition('.')[2]}", log, name)


def index_samples(folder: Path, *, closed: bool = True) -> Iterator[Sample]:
    """The .index and .timeindex of a rolled segment and of the last one."""
    segments = {base: [batch(base + n) for n in range(0, 12, 2)] for base in (0, 12)}
    log = build(folder, segments, closed=closed)
    for base, place in ((0, "rolled segment"), (12, "last segment")):
        for kind in ("index", "timeindex"):
            yield Sample(f"{kind} of a {place}", log, file(base, kind))


def damages(data: bytes, step: int = 1) -> Iterator[tuple[int, int, bytes]]:
    """Every `step`th bit turned over (byte, bit, content), and the file cut at every `step`th byte (byte, -1)."""
    for number in range(0, 8 * len(data), step):
        at, bit = divmod(number, 8)
        yield at, bit, data[:at] + bytes((data[at] ^ 1 << bit,)) + data[at + 1 :]
    for at in range(0, len(data), step):
        yield at, -1, data[:at]


def outcomes(sample: Sample, step: int = 1, *, deep: bool = True) -> Iterator[Outcome]:
    """What verify says of each damage, and where it says nothing what a reader sees otherwise."""
    path = sample.log.partition / sample.file
    sound = path.read_bytes()
    known = _said(sample.log, deep=deep)
    view = reader_view(sample.log)
    try:
        for at, bit, content in damages(sound, step):
            path.write_bytes(content)
            new = _said(sample.log, deep=deep) - known
            changed = "" if new else _difference(view, reader_view(sample.log))
            yield Outcome(at, bit, frozenset(code for code, _ in new), changed)
    finally:
        path.write_bytes(sound)


def _said(log: Log, *, deep: bool) -> set[tuple[str, str]]:
    return {(finding.code, finding.path) for finding in log.findings(deep=deep) if finding.severity != "note"}


def reader_view(log: Log) -> dict[str, object]:
    """All that clients of the partition can get to see: batches, records, and what searches lead to."""
    partition = kdump.open_log(str(log.partition))
    view: dict[str, object] = {}
    for item in partition.batches():
        if not isinstance(item, Batch):
            continue
        key = f"batch at {item.position} of {item.base_offset if item.magic >= 2 else item.last_offset}"
        view[f"{key}: offsets"] = item.base_offset, item.last_offset
        view[f"{key}: attributes"] = item.timestamp_type, item.is_control, item.is_transactional
        view[f"{key}: producer"] = item.producer_id, item.producer_epoch, item.base_sequence
        view[f"{key}: leader epoch"] = item.leader_epoch
        view[f"{key}: max timestamp"] = item.max_timestamp
    view["records"] = [item[:6] if isinstance(item, Record) else type(item) for item in partition.records()]
    view["offset lookups"] = [_looked_up(partition, offset) for offset in range(24)]
    view["time lookups"] = [_looked_up(partition, TIME + offset, by_time=True) for offset in range(24)]
    for kind in ("txnindex", "snapshot"):
        view[kind] = {path.name: path.read_bytes() for path in log.partition.glob(f"*.{kind}")}
    return view


def _looked_up(log: PartitionLog, wanted: int, *, by_time: bool = False) -> object:
    try:
        with LogLookup(log, clean=log.closed_cleanly) as lookup:
            if by_time:
                return lookup.find_timestamp(wanted)
            place = lookup.find_offset(wanted)
        return place.segment, place.found, place.batch_last_offset, place.position
    except KdumpError as error:
        return type(error)


def _difference(before: dict[str, object], after: dict[str, object]) -> str:
    """The first thing that is not the same."""
    for key in (*before, *after):
        if before.get(key) != after.get(key):
            return key
    return ""


def figures(folder: Path, setting: Setting) -> Iterator[tuple[str, Counter[str], list[Outcome]]]:
    """Of each sample: how many damages are reported, harmless and missed, and the missed ones."""
    for sample in samples(folder, closed=setting.closed):
        counts: Counter[str] = Counter()
        missed = []
        for outcome in outcomes(sample, deep=setting.deep):
            kind = "cuts" if outcome.bit < 0 else "flips"
            state = "reported" if outcome.codes else "missed" if outcome.changed else "harmless"
            counts[f"{kind} {state}"] += 1
            if state == "missed":
                missed.append(outcome)
        yield sample.name, counts, missed


def main(arguments: Sequence[str]) -> int:
    """Print a table for each setting, and with --missed every damage that was missed."""
    for setting in SETTINGS:
        print(f"\n{setting.name}\n", flush=True)
        folder = Path(tempfile.mkdtemp())
        total: Counter[str] = Counter()
        print(_line("damaged file", HEADS))
        print(_line("---", ["---:"] * len(HEADS)))
        try:
            for name, counts, missed in figures(folder, setting):
                total += counts
                print(_row(name, counts), flush=True)
                for outcome in missed if "--missed" in arguments else ():
                    print("   ", outcome)
        finally:
            shutil.rmtree(folder)
        print(_row("all", total))
    return 0


HEADS = [f"{kind} {state}" for kind in ("flips", "cuts") for state in ("reported", "harmless", "missed")]


def _row(name: str, counts: Counter[str]) -> str:
    return _line(name, [str(counts[head]) for head in HEADS])


def _line(name: str, cells: Sequence[str]) -> str:
    return f"| {name} | {' | '.join(cells)} |"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

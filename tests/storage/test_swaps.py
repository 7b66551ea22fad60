"""What waits to replace segments: the readers take the segments that a broker has when it has finished that."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from kdump.formats import names
from kdump.query.inventory import partition_info
from kdump.recovery.loader import load_log
from kdump.storage.partition import PartitionLog
from kdump.storage.records import Record
from tests.recovery.building import batch, file, load, make_log
from tests.repair import damaged
from tests.unpacking import unpack

FIXTURES = Path(__file__).parents[2] / "fixtures"

OLD = b"".join(batch(n) for n in range(10))
NEW = b"".join(batch(n) for n in (0, 4, 9))
NEXT = b"".join(batch(n) for n in range(10, 14))


def logs_of(log: PartitionLog) -> list[str]:
    return [os.path.basename(segment.log_path) for segment in log.segments]


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        (
            {file(0, "log.swap"): NEW, file(0, "log"): OLD, file(10, "log"): NEXT},
            [file(0, "log.swap"), file(10, "log")],
        ),
        ({file(0, "log.swap"): NEW, file(10, "log"): NEXT}, [file(0, "log.swap"), file(10, "log")]),
        ({file(0, "log.swap"): NEW, file(0, "log"): OLD[:40], file(5, "log"): OLD}, [file(0, "log.swap")]),
        ({file(0, "log"): OLD, file(0, "log.swap"): NEW, file(0, "log.cleaned"): NEW}, [file(0, "log")]),
        (
            {file(0, "log"): OLD, file(0, "log.swap"): NEW, file(10, "log"): NEXT, file(10, "log.cleaned"): b""},
            [file(0, "log.swap"), file(10, "log")],
        ),
        ({file(0, "log"): OLD, "x.log.swap": NEW, file(0, "log.cleaned"): NEW}, [file(0, "log")]),
        ({file(0, "log"): OLD, file(0, "log.deleted"): OLD}, [file(0, "log")]),
    ],
)
def test_the_segments_are_those_after_the_start(tmp_path: Path, files: dict[str, bytes], expected: list[str]) -> None:
    log = make_log(tmp_path, files)
    log = PartitionLog(log.path)
    assert logs_of(log) == expected
    outcome = load(log)
    if outcome.ok:
        kept = sorted(name for name in outcome.files or () if name.endswith(".log"))
        assert kept == [name.removesuffix(".swap") for name in expected]
    live = sorted(name for name in files if name.endswith(".log"))
    assert logs_of(PartitionLog(log.path, as_named=True)) == live
    assert set(log.replaced) == {name for name in live if name not in expected}


def test_an_index_alone_is_taken_for_its_log(tmp_path: Path) -> None:
    log = make_log(tmp_path, {file(0, "log"): OLD, file(0, "index"): b"", file(0, "index.swap"): bytes(8)})
    (segment,) = PartitionLog(log.path).segments
    assert segment.path(names.OFFSET_INDEX).endswith(".index.swap")
    assert segment.path(names.TIME_INDEX).endswith(".timeindex")
    with segment.offset_index() as index:
        assert index.size == 8


def test_what_kafka_made_of_a_swap_is_what_is_read() -> None:
    """Of a case that Kafka's own log loader has loaded."""
    rows = map(json.loads, (FIXTURES / "startup.jsonl").read_text().splitlines())
    said = next(row for row in rows if row["case"] == "z-3-93")
    info = partition_info(PartitionLog(str(FIXTURES / "corpus" / "z-3-93" / "topic-0")))
    assert (info.log_start_offset, info.end_offset) == (said["logStartOffset"], said["logEndOffset"])
    sizes = {f"{segment.base_offset:020d}.log": segment.size for segment in info.segments}
    assert sizes == {name: size for name, (size, _) in said["files"].items() if name.endswith(".log")}


def test_what_a_broker_left_that_was_killed_while_it_cleaned(tmp_path: Path) -> None:
    """The broker that started on a copy deleted these files, and served offsets 0 to 5015 (fixtures/README.md)."""
    unpack(FIXTURES / "brokers" / "killed-in-cleaning-4.3.1.tar.xz", tmp_path)
    log = PartitionLog(str(tmp_path / "killed-in-cleaning" / "busy-compacted-1"))
    assert log.replaced == tuple(file(3016, kind) for kind in ("index", "log", "snapshot", "timeindex"))
    info = partition_info(log)
    assert (info.log_start_offset, info.end_offset) == (0, 5016)
    assert [segment.base_offset for segment in info.segments] == [0, 3770, 4851]
    offsets = [record.offset for record in log.records(errors="raise") if isinstance(record, Record)]
    assert (offsets[0], offsets[-1], len(offsets)) == (3239, 5015, 1346)


@pytest.mark.parametrize("name", ["swap complete", "swap half renamed", "swap and cleaned", "deleted files"])
def test_the_bounds_are_those_of_the_log_when_it_is_loaded(tmp_path: Path, name: str) -> None:
    path = damaged.build(tmp_path)
    damaged.DAMAGES[name](path)
    info = partition_info(PartitionLog(str(path)))
    outcome = load_log(PartitionLog(str(path)), damaged.STARTUP)
    assert (info.log_start_offset, info.end_offset) == (outcome.log_start_offset, outcome.log_end_offset)
    bases = [int(file.partition(".")[0]) for file in sorted(outcome.files or ()) if file.endswith(".log")]
    assert [segment.base_offset for segment in info.segments] == bases

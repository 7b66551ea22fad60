"""Index files against their log: what followers, the cleaner and running brokers leave is legal."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from kdump.formats.encode import NewBatch, encode_batch
from kdump.formats.index_entries import (
    OffsetIndexEntry,
    TimeIndexEntry,
    encode_offset_entries,
    encode_time_entries,
)
from tests.verify.building import TIME, Log, batch, build, file, flip, records

INDEX, TIME_INDEX, LOG = file(0, "index"), file(0, "timeindex"), file(0, "log")
BATCHES = [batch(n) for n in range(0, 40, 2)]
SIZE = len(BATCHES[0])


@pytest.fixture
def log(tmp_path: Path) -> Log:
    """A rolled segment of 20 batches of two records, and another one."""
    return build(tmp_path / "data", {0: BATCHES, 40: [batch(40)]})


def index(log: Log, *entries: tuple[int, int]) -> list[tuple[str, int | None]]:
    """What is found when the .index has these entries: (offset, number of the batch)."""
    content = encode_offset_entries((OffsetIndexEntry(offset, SIZE * number) for offset, number in entries), 0)
    (log.partition / INDEX).write_bytes(content)
    return said(log, INDEX)


def time_index(log: Log, *entries: tuple[int, int]) -> list[tuple[str, int | None]]:
    """What is found when the .timeindex has these entries: (timestamp - TIME, offset)."""
    content = encode_time_entries((TimeIndexEntry(TIME + ms, offset) for ms, offset in entries), 0)
    (log.partition / TIME_INDEX).write_bytes(content)
    return said(log, TIME_INDEX)


def said(log: Log, name: str) -> list[tuple[str, int | None]]:
    return [(found.code, found.position) for found in log.findings() if Path(found.path).name == name]


def test_an_entry_may_name_a_later_batch_up_to_the_next_entry(log: Log) -> None:
    assert index(log, (5, 1), (9, 3)) == []
    assert index(log, (7, 1), (39, 5)) == []
    assert index(log, (9, 1), (11, 4)) == [("KD-IDX-OFFSET", 0)]
    assert index(log, (6, 1), (39, 5)) == [("KD-IDX-OFFSET", 0)]
    assert index(log, (41, 19)) == [("KD-IDX-OFFSET", 0)]


def test_an_entry_of_a_cleaned_batch_may_name_the_last_record_left(tmp_path: Path) -> None:
    cleaned = encode_batch(records(2, 1), NewBatch(leader_epoch=0, last_offset=7))
    log = build(tmp_path / "data", {0: [batch(0), cleaned, batch(8)], 10: [batch(10)]})
    for offset, found in ((2, []), (7, []), (1, [("KD-IDX-OFFSET", 0)])):
        (log.partition / INDEX).write_bytes(encode_offset_entries([OffsetIndexEntry(offset, SIZE)], 0))
        assert said(log, INDEX) == found


def test_entries_beyond_the_log(log: Log) -> None:
    assert index(log, (39, 19), (41, 20), (43, 21)) == [("KD-IDX-POSITION", 8), ("KD-IDX-POSITION", 16)]


def test_one_wrong_entry_is_one_finding(log: Log) -> None:
    entries = [(2 * n + 1, n) for n in range(1, 19, 2)]
    assert index(log, *entries) == []
    for wrong in ((500, 1), (0, 1), (11, 0), (11, 400)):
        changed = [*entries[:4], wrong, *entries[5:]]
        assert len(index(log, *changed)) == 1, wrong
        assert index(log, *changed)[0][1] == 4 * 8


def test_an_entry_that_a_broker_dies_of_when_it_opens_a_closed_log(log: Log) -> None:
    """It reads on from the last entry, CRCs not looked at: what is no batch ends the process, nothing ends the log."""
    content = (log.partition / f"{40:020}.index").read_bytes()
    # inside the batch: its last offset delta is taken for a size
    wrong = encode_offset_entries([OffsetIndexEntry(41, 15)], 40)
    beyond = encode_offset_entries([OffsetIndexEntry(41, SIZE)], 40)
    for name, data, broker in (
        (f"{40:020}.index", wrong, "does not start"),
        (f"{40:020}.index", beyond, "opens the log as if it were empty"),
        (f"{40:020}.index", content, None),
        (INDEX, wrong, "serves wrong data silently"),  # a rolled segment is not looked at
    ):
        (log.partition / name).write_bytes(data)
        effects = {finding.broker for finding in log.findings() if Path(finding.path).name == name}
        assert effects == ({broker} if broker else set())
    (log.directory / ".kafka_cleanshutdown").unlink()
    (log.partition / f"{40:020}.index").write_bytes(wrong)
    assert "does not start" not in {finding.broker for finding in log.findings()}  # it recovers the segment


def test_many_entries_are_read_in_stretches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = build(tmp_path / "data", {0: BATCHES, 40: [batch(40)]})
    expected = (said(log, INDEX), said(log, TIME_INDEX))
    assert expected == ([], [])
    for chunk in (1, 2, 3):
        monkeypatch.setattr(sys.modules["kdump.check.entries"], "CHUNK_ENTRIES", chunk)
        assert (said(log, INDEX), said(log, TIME_INDEX)) == expected
        log.edit(INDEX, flip(4 * 8 + 7))
        assert said(log, INDEX) == [("KD-IDX-POSITION", 4 * 8)]
        log.edit(INDEX, flip(4 * 8 + 7))
        log.edit(TIME_INDEX, flip(4 * 12 + 6))
        assert 1 <= len(said(log, TIME_INDEX)) <= 2
        log.edit(TIME_INDEX, flip(4 * 12 + 6))


def test_entries_that_name_offsets_beyond_the_largest(tmp_path: Path) -> None:
    base = 2**63 - 100
    log = build(tmp_path / "data", {base: [batch(base, timestamp=TIME), batch(base + 2, timestamp=TIME)]})
    entry = (2**31 - 1).to_bytes(4)
    for name, content in ((f"{base:020d}.index", entry + bytes(4)), (f"{base:020d}.timeindex", bytes(8) + entry)):
        (log.partition / name).write_bytes(content)
        assert {code[:7] for code, _ in said(log, name)} & {"KD-IDX-", "KD-TIDX"}


def test_time_entries(log: Log) -> None:
    assert time_index(log, (5, 5), (39, 39)) == []
    assert time_index(log, (39, 39)) == []
    assert time_index(log, (4, 5), (39, 39)) == [("KD-TIDX-TIMESTAMP", 0)]
    assert time_index(log, (7, 5), (39, 39)) == [("KD-TIDX-TIMESTAMP", 0)]
    assert time_index(log, (5, 5)) == [("KD-TIDX-LAST", None)]
    assert time_index(log) == [("KD-TIDX-LAST", None)]
    assert time_index(log, (39, 39), (41, 41)) == [("KD-TIDX-OFFSET", 12)]


def test_a_time_entry_is_the_largest_so_far(tmp_path: Path) -> None:
    batches = [batch(0, timestamp=TIME), batch(2, timestamp=TIME + 90), batch(4, timestamp=TIME + 50), batch(6)]
    log = build(tmp_path / "data", {0: batches, 8: [batch(8)]})
    assert said(log, TIME_INDEX) == []
    assert time_index(log, (51, 5), (91, 7)) == [("KD-TIDX-TIMESTAMP", 0), ("KD-TIDX-TIMESTAMP", 12)]
    assert time_index(log, (51, 5)) == [("KD-TIDX-TIMESTAMP", 0), ("KD-TIDX-LAST", None)]
    assert time_index(log, (91, 3)) == []


def test_the_last_time_entry_of_an_open_segment_is_not_written_yet(tmp_path: Path) -> None:
    log = build(tmp_path / "data", {0: BATCHES}, closed=False)
    assert said(log, TIME_INDEX) == []
    data = (log.partition / TIME_INDEX).read_bytes()
    log.edit(TIME_INDEX, lambda data: data[:-12])
    assert said(log, TIME_INDEX) == []
    (log.directory / ".kafka_cleanshutdown").write_text("")
    assert said(log, TIME_INDEX) == [("KD-TIDX-LAST", None)]
    log.edit(TIME_INDEX, lambda _: data)
    assert said(log, TIME_INDEX) == []


def test_empty_indexes_of_an_empty_segment(tmp_path: Path) -> None:
    log = build(tmp_path / "data", {0: [batch(0)], 2: []})
    assert {found.code for found in log.findings()} == {"KD-TIME-HELD"}


def test_entries_that_lead_into_damage_are_not_the_index_s_fault(log: Log) -> None:
    log.edit(LOG, flip(5 * SIZE + 70))
    assert {found.code for found in log.findings() if found.severity != "note"} == {"KD-LOG-CRC", "KD-LOG-BEYOND"}


def preallocated(size: int) -> Callable[[bytes], bytes]:
    return lambda data: data.ljust(size, b"\0")


def test_preallocated_sizes(tmp_path: Path) -> None:
    """Zeros at the end of both files are excused where both have the length of one setting."""
    for sizes, excused in (((240, 240), True), ((800, 792), True), ((800, 780), False), ((240, 480), False)):
        log = build(tmp_path / str(sizes), {0: BATCHES[:3]}, closed=False)
        for name, size in zip((INDEX, TIME_INDEX), sizes, strict=True):
            log.edit(name, preallocated(size))
        codes = {found.code for found in log.findings()} - {"KD-TIME-HELD"}
        what = "PREALLOCATED" if excused else "ZEROS"
        assert codes == {f"KD-IDX-{what}", f"KD-TIDX-{what}"}

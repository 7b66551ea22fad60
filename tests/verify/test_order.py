"""Offsets that are out of order: the batch that is wrong is named, once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kdump.findings.finding import Finding
from kdump.formats.encode import NewBatch, encode_batch
from tests.verify.building import TIME, batch, build, entry, file, put, records

SIZE = len(batch(0))


def order_findings(folder: Path, segments: dict[int, list[bytes]], **building: Any) -> list[Finding]:
    log = build(folder / "data", segments, interval=1 << 30, **building)
    return [finding for finding in log.findings() if finding.code.startswith("KD-LOG")]


def moved(data: bytes, offset: int) -> bytes:
    """The batch with another base offset, which its CRC does not cover."""
    return put(0, offset.to_bytes(8, "big", signed=True))(data)


def places(findings: list[Finding]) -> list[tuple[str, int | None, int | None]]:
    return [(finding.code, finding.position, finding.offset) for finding in findings]


def test_an_offset_that_is_too_large_is_one_finding(tmp_path: Path) -> None:
    batches = [batch(n) for n in range(0, 40, 2)]
    batches[5] = moved(batches[5], 500)
    (finding,) = order_findings(tmp_path, {0: batches})
    assert places([finding]) == [("KD-LOG-ORDER", 5 * SIZE, 501)]
    assert finding.message == "offset 501 comes before offset 12"


def test_an_offset_that_is_too_small_is_one_finding(tmp_path: Path) -> None:
    batches = [batch(n) for n in range(0, 40, 2)]
    batches[5] = moved(batches[5], 4)
    (finding,) = order_findings(tmp_path, {0: batches})
    assert places([finding]) == [("KD-LOG-ORDER", 5 * SIZE, 5)]
    assert finding.message == "offset 4 comes after offset 9"


def test_a_last_offset_that_is_too_large_is_one_finding(tmp_path: Path) -> None:
    wide = encode_batch(records(2, 2), NewBatch(leader_epoch=0, last_offset=30))
    findings = order_findings(tmp_path, {0: [batch(0), wide, *(batch(n) for n in range(4, 20, 2))]})
    assert places(findings) == [("KD-LOG-ORDER", SIZE, 30)]


def test_two_batches_that_changed_places(tmp_path: Path) -> None:
    batches = [batch(n) for n in range(0, 40, 2)]
    batches[3], batches[8] = batches[8], batches[3]
    findings = order_findings(tmp_path, {0: batches})
    assert places(findings) == [("KD-LOG-ORDER", 3 * SIZE, 17), ("KD-LOG-ORDER", 8 * SIZE, 7)]


def test_a_batch_that_is_there_twice(tmp_path: Path) -> None:
    findings = order_findings(tmp_path, {0: [batch(0), batch(2), batch(2), batch(4)]})
    assert places(findings) == [("KD-LOG-ORDER", 2 * SIZE, 3)]


def test_gaps_are_no_fault(tmp_path: Path) -> None:
    sparse = encode_batch([*records(10, 1), *records(19, 1)], NewBatch(leader_epoch=0, last_offset=20))
    assert order_findings(tmp_path, {0: [batch(3), sparse, batch(50)], 99: [batch(200)]}) == []


def test_one_offset_far_away_and_all_offsets_far_away(tmp_path: Path) -> None:
    far = 1 << 31
    batches = [batch(0), moved(batch(2), far), batch(4)]
    findings = order_findings(tmp_path / "one", {0: batches})
    assert places(findings) == [("KD-LOG-OFFSET", SIZE, far + 1)]
    offsets = (far, far + 2, far + 1)
    overflown = [batch(0), *(moved(batch(2, timestamp=TIME - 50), offset) for offset in offsets)]
    findings = order_findings(tmp_path / "all", {0: overflown})
    assert places(findings) == [("KD-LOG-ORDER", 3 * SIZE, far + 2), ("KD-LOG-OVERFLOW", SIZE, far + 1)]


def test_the_largest_offset_that_a_segment_may_have(tmp_path: Path) -> None:
    assert order_findings(tmp_path, {0: [batch(0), moved(batch(2, 1), (1 << 31) - 1)]}) == []


def test_across_segments(tmp_path: Path) -> None:
    findings = order_findings(tmp_path, {0: [batch(0), batch(5), batch(7)], 6: [batch(6)]})
    assert places(findings) == [("KD-LOG-OVERLAP", SIZE, 6)]
    assert findings[0].message == "offset 6 belongs to the next segment, whose base offset is 6"


@pytest.mark.parametrize(("magic", "codec"), [(0, 0), (0, 1), (1, 0), (1, 1)])
def test_old_formats(tmp_path: Path, magic: int, codec: int) -> None:
    entries = [entry(magic, codec, n) for n in range(0, 20, 2)]
    assert order_findings(tmp_path / "sound", {0: entries}, epochs="") == []
    entries[4], entries[5] = entries[5], entries[4]
    findings = order_findings(tmp_path / "swapped", {0: entries}, epochs="")
    assert {finding.code for finding in findings} == {"KD-LOG-ORDER"}
    assert min(finding.position or 0 for finding in findings) >= sum(map(len, entries[:4]))


def test_a_wrapper_whose_offset_moves_it_into_the_one_before(tmp_path: Path) -> None:
    entries = [entry(1, 1, 0), moved(entry(1, 1, 2), 2), entry(1, 1, 4)]
    log = build(tmp_path / "data", {0: entries}, interval=1 << 30, epochs="")
    log.edit(file(0, "timeindex"), lambda _: b"")
    codes = {finding.code for finding in log.findings()}
    assert "KD-LOG-ORDER" in codes
    assert "KD-LOG-ORDER" not in {finding.code for finding in log.findings(deep=False)}


def test_the_largest_offset_is_one_finding(tmp_path: Path) -> None:
    """It leaves no offset for the next record; what comes after the batch is looked at."""
    batches = [entry(1, 0, n, 1) for n in range(6)]
    size = len(batches[0])
    batches[3] = moved(batches[3], (1 << 63) - 1)
    findings = order_findings(tmp_path, {0: batches})
    assert places(findings) == [("KD-LOG-OFFSET", 3 * size, (1 << 63) - 1)]

"""Where logs are cut to be read in several places at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from kdump.errors import CorruptIndexError
from kdump.query.split_points import parts
from kdump.storage.indexes import OffsetIndex
from tests.commands.logs import batch, write_segment


def test_an_index_that_becomes_shorter_is_no_reason_to_fail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_segment(tmp_path / "t-0", 0, [batch(10 * number, 10) for number in range(60)], indexes=True)
    path = tmp_path / "t-0" / f"{0:020}.log"
    size = path.stat().st_size

    def shrunk(index: OffsetIndex) -> None:
        raise CorruptIndexError(f"{index.path} became shorter while it was read")

    monkeypatch.setattr(OffsetIndex, "drop_zero_tail", shrunk)
    ranges = list(parts(str(path), size, size // 4))
    assert len(ranges) > 2
    assert [0, *(stop for _, stop in ranges)] == [*(start for start, _ in ranges), size]

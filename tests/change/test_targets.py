"""Where a file that is asked for may be written, before anything is done."""

from __future__ import annotations

from pathlib import Path

import pytest

from kdump.change.checks import check_target
from kdump.errors import KdumpError, RefusedError
from tests.commands.logs import write_partition


def test_a_file_anywhere_else(tmp_path: Path) -> None:
    check_target(str(tmp_path / "plan.json"))
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    path = str(tmp_path / "none" / "plan.json")
    with pytest.raises(KdumpError, match=r"plan\.json cannot be written: No such file or directory\."):
        check_target(path)


@pytest.mark.parametrize("place", ["", "t-0"])
def test_among_kafkas_own(place: str, tmp_path: Path) -> None:
    write_partition(tmp_path / "t-0", segments=1, batches=1)
    (tmp_path / "meta.properties").write_text("version=1\n")
    with pytest.raises(RefusedError, match="is in Kafka's own"):
        check_target(str(tmp_path / place / "plan.json"))

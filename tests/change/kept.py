"""What changes keep beside partitions, as tests look for it."""

from __future__ import annotations

from pathlib import Path

from kdump.change import place
from kdump.change.journal import Change, changes_of


def change_files(folder: Path, role: str = "") -> list[Path]:
    """The files of changes anywhere below a folder, those with one role or, without it, all."""
    return sorted(path for path in folder.rglob(f"{place.PREFIX}*") if not role or f"+{role}" in path.name)


def only_change(partition: Path) -> Change:
    """The change that a partition has had."""
    (change,) = changes_of(str(partition))
    return change


def is_kept(path: Path) -> bool:
    """Whether a path is that of a file of a change."""
    return path.name.startswith(place.PREFIX)

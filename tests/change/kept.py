"""What changes keep beside partitions, as tests look for it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from kdump.change import apply, place
from kdump.change.change import Change
from kdump.change.journal import changes_of


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


class Killed(BaseException):
    """What stands for the end of the process."""


@contextmanager
def killed_after(steps: int) -> Iterator[None]:
    """End what is done in here after so many steps of a change, as a kill would."""
    real = apply._carry_out
    left = steps

    def step(*args: Any) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise Killed
        real(*args)

    with pytest.MonkeyPatch.context() as patch, suppress(Killed):
        patch.setattr(apply, "_carry_out", step)
        yield
    assert left < 0, "there were not as many steps"

"""A repair of many partitions reads what is around them a fixed number of times, however many they are."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from kdump.disk import reading
from tests.agreement.running import kdump
from tests.commands.logs import batch, write_segment

COMMANDS = {
    "repair": ("repair",),
    "salvage": ("repair", "--strategy", "salvage"),
    "truncate": ("repair", "--strategy", "truncate"),
    "trim": ("trim",), "rebuild-index": ("rebuild-index",), "verify": ("verify",), "startup": ("startup",),
}  # fmt: skip


def looks_at_what_is_around(root: Path, partitions: int, command: tuple[str, ...], patch: pytest.MonkeyPatch) -> int:
    """How often the log directory is listed and its files are opened for a plan."""
    data = root / f"data{partitions}"
    for number in range(partitions):
        write_segment(data / f"orders-{number}", 0, [batch(0, 1)])
    (data / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=rcgwS63sW_WjGHkJwoys6Q\n")
    (data / "replication-offset-checkpoint").write_text("0\n1\norders 0 1\n")
    seen: Counter[str] = Counter()

    def counted(call: Any) -> Any:
        def wrapper(path: Any = ".", *arguments: Any, **options: Any) -> Any:
            if isinstance(path, str | os.PathLike):
                folder = os.path.abspath(os.fspath(path))
                seen[os.path.dirname(folder) if os.path.isfile(folder) else folder] += 1
            return call(path, *arguments, **options)

        return wrapper

    with patch.context() as inside:
        inside.setattr(os, "listdir", counted(os.listdir))
        inside.setattr(os, "scandir", counted(os.scandir))
        inside.setattr(reading, "open_for_reading", counted(reading.open_for_reading))
        assert kdump(root, *command, data.name).code in (0, 1)
    return seen[str(data)]


@pytest.mark.parametrize("command", COMMANDS)
def test_what_is_around_partitions_is_read_once(
    tmp_path: Path, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    few, many = (looks_at_what_is_around(tmp_path, count, COMMANDS[command], monkeypatch) for count in (2, 12))
    assert few == many
    assert few > 0

"""A broker under load stopped at any moment: what lies there then is what a kill would leave, and verify says so.

The process is held, its log directories are copied, and it goes on: that takes a fraction of a start.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from kdump.library.verifying import verify
from tests.kafka.broker import Broker
from tests.kafka.directories import MADE, State, copy_tree, rich
from tests.kafka.kit import Kit
from tests.kafka.tally import Column, Tally

_A_ROUND = 25
"""Moments of one life of a broker: its logs grow, and each of `--rounds` begins with those of the data set."""

_OF_THE_LOAD = ("KD-TXN-HANGING",)
"""Its transactions may last."""


def _copied(broker: Broker, folder: Path) -> Iterator[Path]:
    """Copy what the load writes to, and the files beside it; yields the copies of the log directories."""
    for log_dir in broker.log_dirs:
        target = folder / log_dir.name
        target.mkdir(parents=True)
        for path in log_dir.iterdir():
            if path.is_file() or path.name.startswith("busy"):
                copy_tree(path, target / path.name)
        yield target


def test_what_a_kill_leaves_is_sound(release: str, tally: Tally, tmp_path: Path, pytestconfig: pytest.Config) -> None:
    lives = pytestconfig.getoption("--rounds")
    random = Random(pytestconfig.getoption("--seed"))
    with Kit(release, MADE, tmp_path / "kit.log") as kit, tally.of(release, Column.VERIFY) as compare:
        for life in range(lives):
            folder = tmp_path / f"{life}"
            broker = Broker(release, folder, rich(release, State.STOPPED).copy(folder))
            try:
                broker.start()
                kit.ask("load", servers=broker.servers, prefix="busy")
                for number in range(_A_ROUND):
                    time.sleep(random.random() / 4)
                    with broker.held():
                        copies = list(_copied(broker, folder / f"moment-{number}"))
                    compare.same(f"life {life}, moment {number}: what verify finds", _found(copies), [])
            finally:
                broker.kill()
            if not compare.differences:
                shutil.rmtree(folder)


def _found(log_dirs: list[Path]) -> list[str]:
    found = [each for each in verify(*log_dirs, deep=True) if each.severity in ("error", "warning")]
    return [f"{each.code} {each.path}: {each.message}" for each in found if each.code not in _OF_THE_LOAD]

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
"""Moments for each of `--rounds`."""

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
    moments = pytestconfig.getoption("--rounds") * _A_ROUND
    random = Random(pytestconfig.getoption("--seed"))
    broker = Broker(release, tmp_path / "live", rich(release, State.STOPPED).copy(tmp_path / "live"))
    try:
        broker.start()
        with Kit(release, MADE, tmp_path / "kit.log") as kit, tally.of(release, Column.VERIFY) as compare:
            kit.ask("load", servers=broker.servers, prefix="busy")
            for number in range(moments):
                time.sleep(random.random() / 4)
                with broker.held():
                    copies = list(_copied(broker, tmp_path / "copies"))
                found = [each for each in verify(*copies, deep=True) if each.severity in ("error", "warning")]
                said = [f"{each.code} {each.path}: {each.message}" for each in found if each.code not in _OF_THE_LOAD]
                compare.same(f"moment {number}: what verify finds", said, [])
                if said:
                    (tmp_path / "copies").rename(tmp_path / f"moment-{number}")
                else:
                    shutil.rmtree(tmp_path / "copies")
    finally:
        broker.kill()

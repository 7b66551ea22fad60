"""`retain` and `compact` beside a running broker: what it will do is shown, and nothing of it is done by kdump."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from kdump.formats import names
from tests.agreement.directories import EVERYTHING, build
from tests.agreement.running import kdump

OLD = ("--retention-ms", "1", "--cleanup-policy", "delete")


@pytest.fixture(scope="module")
def disks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("disks") / "all"
    build(EVERYTHING, root)
    return root


@pytest.fixture
def live(disks: Path, tmp_path: Path) -> Iterator[Path]:
    """A log directory whose lock another process holds, as of a killed broker else."""
    data = tmp_path / "data"
    shutil.copytree(disks / "disk-1", data)
    (data / names.CLEAN_SHUTDOWN).unlink(missing_ok=True)
    (data / names.LOCK).touch()
    ready, done = os.pipe(), os.pipe()
    child = os.fork()
    if not child:
        try:
            with open(data / names.LOCK, "r+b") as held:
                fcntl.lockf(held, fcntl.LOCK_EX)
                os.write(ready[1], b"x")
                os.close(done[1])
                os.read(done[0], 1)
        finally:
            os._exit(0)
    os.read(ready[0], 1)
    yield data
    os.close(done[1])
    os.waitpid(child, 0)


def files(data: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in data.rglob("*") if path.is_file()}


@pytest.mark.parametrize("command", [("retain", *OLD), ("compact",)])
def test_what_the_broker_will_do_is_shown(live: Path, command: tuple[str, ...]) -> None:
    before = files(live)
    said = kdump(live.parent, command[0], "--format", "jsonl", *command[1:], "data/orders-1")
    assert said.code in (0, 1), said.err
    assert "Note: a broker is running on data." in said.err
    assert [row["path"] for row in said.rows if row["type"] == "partition"] == ["data/orders-1"]
    assert files(live) == before


@pytest.mark.parametrize("command", [("retain", *OLD), ("compact",)])
def test_applying_is_refused(live: Path, command: tuple[str, ...]) -> None:
    before = files(live)
    said = kdump(live.parent, *command, "--apply", "data/orders-1")
    assert said.code == 4
    assert "a broker is running on" in said.err
    assert files(live) == before


def test_the_brokers_own_cleaner_at_work_is_no_leftover(live: Path) -> None:
    (live / "orders-1" / f"{0:020d}.log.cleaned").write_bytes(b"")
    said = kdump(live.parent, "compact", "--format", "jsonl", "data/orders-1")
    assert said.code in (0, 1), said.err
    assert "left over" not in said.err

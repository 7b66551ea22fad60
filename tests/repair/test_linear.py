"""What plans read: what is around partitions once, however many they are; damaged logs no more often than needed."""

from __future__ import annotations

import gc
import os
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from kdump.disk import reading
from kdump.library.verifying import verify
from kdump.mend.proposal import examine
from kdump.mend.task import SAFE, Request
from kdump.recovery.startup import Startup
from tests.agreement.running import kdump
from tests.commands.logs import batch, write_segment
from tests.recovery.building import NOW, make_log
from tests.recovery.building import batch as large

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


@pytest.mark.parametrize(("damaged", "times"), [(0, 1.5), (6, 2), (11, 2.5)])
def test_a_plan_looks_twice_at_what_comes_before_damage_and_once_at_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damaged: int, times: float
) -> None:
    """Where somebody has to decide, records are decoded: from the beginning on, as soon as damage is met.

    What each way out would change is searched once more for valid batches that it drops.
    """
    segments = [b"".join(large(100 * number + each, size=2000) for each in range(100)) for number in range(12)]
    at = 1000
    segments[damaged] = segments[damaged][:at] + b"\xff\xff" + segments[damaged][at + 2 :]
    log = make_log(tmp_path, {f"{100 * number:020}.log": data for number, data in enumerate(segments)})
    with read_of_logs(monkeypatch) as read:
        assert examine(log, Startup(now=NOW), Request(SAFE)).decision is not None
    assert times <= sum(read) / sum(map(len, segments)) < times + 0.5


@contextmanager
def read_of_logs(patch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Give a list that gets the bytes of each read of a .log."""
    read: list[int] = []
    fill = reading.ReadOnlyFile.read_into

    def counted(file: reading.ReadOnlyFile, view: memoryview, position: int) -> int:
        done = fill(file, view, position)
        if file.path.endswith(".log"):
            read.append(done)
        return done

    with patch.context() as inside:
        inside.setattr(reading.ReadOnlyFile, "read_into", counted)
        yield read


def test_the_log_of_a_segment_without_an_index_is_verified_in_one_walk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = b"".join(large(number, size=2000) for number in range(600))
    log = make_log(tmp_path, {f"{0:020}.log": data})
    with read_of_logs(monkeypatch) as read:
        assert "KD-IDX-MISSING" in {finding.code for finding in verify(log.path)}
    assert sum(read) < 1.5 * len(data)


def opened(root: Path, command: tuple[str, ...], patch: pytest.MonkeyPatch) -> Counter[str]:
    """How often a command opens each file of a partition."""
    seen: Counter[str] = Counter()
    really = reading.open_for_reading

    def counted(path: str) -> int:
        seen[os.path.basename(path)] += os.path.basename(os.path.dirname(path)) == "orders-0"
        return really(path)

    with patch.context() as inside:
        inside.setattr(reading, "open_for_reading", counted)
        assert kdump(root, *command, "data").code in (0, 1)
    return seen


@pytest.mark.parametrize("command", ["repair", "truncate", "salvage"])
def test_a_plan_of_what_is_sound_opens_no_file_once_more_than_verify(
    tmp_path: Path, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    partition = tmp_path / "data" / "orders-0"
    write_segment(partition, 0, [batch(number, 1) for number in range(200)])
    (partition / "leader-epoch-checkpoint").write_text("0\n1\n5 0\n")
    (partition / "partition.metadata").write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ")
    verified = opened(tmp_path, ("verify",), monkeypatch)
    assert verified["00000000000000000000.index"]
    planned = opened(tmp_path, COMMANDS[command], monkeypatch)
    assert {name: times for name, times in planned.items() if times > verified[name]} == {}


def test_a_plan_leaves_nothing_to_the_garbage_collector(tmp_path: Path) -> None:
    """Of thousands of partitions each would cost a collection."""
    log = make_log(tmp_path, {f"{0:020}.log": large(0, size=100)})
    request = Request(SAFE)
    examine(log, Startup(NOW), request)
    gc.collect()
    gc.disable()
    try:
        examine(log, Startup(NOW), request)
        assert gc.collect() == 0
    finally:
        gc.enable()

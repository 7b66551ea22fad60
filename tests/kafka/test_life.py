"""The life of a change with a real broker: kept originals stand nobody in the way, and undo loses nothing."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from tests.kafka.broker import Broker
from tests.kafka.command import jsonl, kdump
from tests.kafka.directories import MADE, State, rich
from tests.kafka.kit import Kit
from tests.kafka.server_log import offline
from tests.kafka.tally import Column, Comparison, Tally

WRITTEN = "headers-0"
KILLED = """
import os, sys

left = 2  # files of the partition that get, lose or change their names

def dying(call):
    def until(*paths, **more):
        global left
        left -= any(os.path.dirname(os.fspath(path)).endswith(sys.argv[-1]) for path in paths)
        if left < 0:
            os._exit(137)
        return call(*paths, **more)
    return until

for name in ("rename", "replace", "remove", "unlink"):
    setattr(os, name, dying(getattr(os, name)))
from kdump.commands.cli import main
sys.exit(main())
"""
"""A kdump that is killed while it changes the partition that is its last argument."""
DELETED = "plain-1"
MOVED = "codec-none-0"


def _flip(log: Path, position: int) -> None:
    content = bytearray(log.read_bytes())
    content[position] ^= 0xFF
    log.write_bytes(content)


def _kept(log_dir: Path) -> dict[str, bytes]:
    """What kdump keeps in a log directory: name → content."""
    return {path.name: path.read_bytes() for path in log_dir.glob(".kdump-*")}


def _files(partition: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in partition.iterdir()}


def _change_of(partition: Path) -> str:
    rows = jsonl("undo", partition.parent).of_type("change")
    return next(str(row["id"]) for row in rows if Path(row["path"]).name == partition.name)


def _wait_for(truth: Callable[[], bool], what: str) -> None:
    for _ in range(600):
        if truth():
            return
        time.sleep(0.1)
    raise AssertionError(f"not within a minute: {what}")


def test_an_undone_change_leaves_what_was_there(release: str, tally: Tally, tmp_path: Path) -> None:
    log_dir = rich(release, State.STOPPED).copy(tmp_path)[1]
    partition = log_dir / DELETED
    _flip(sorted(partition.glob("*.log"))[2], 70)
    before = _files(partition)
    with tally.of(release, Column.WRITE) as compare:
        _ends_with(compare, {0}, "repair", "--strategy", "salvage", "--apply", partition)
        compare.holds("salvage changed nothing", _files(partition) != before)
        _ends_with(compare, {0}, "undo", partition, "--change", _change_of(partition), "--apply")
        compare.same("files after undo", _names_that_differ(_files(partition), before), [])


def _ends_with(compare: Comparison, codes: set[int], *arguments: object) -> None:
    done = kdump(*arguments)
    text = (done.out.decode() + done.err)[-300:]
    compare.holds(f"{arguments}: exit code {done.exit_code}, not of {codes}: {text}", done.exit_code in codes)


def _names_that_differ(one: dict[str, bytes], other: dict[str, bytes]) -> list[str]:
    return sorted(name for name in one.keys() | other.keys() if one.get(name) != other.get(name))


def test_changes_that_a_broker_wrote_after(release: str, tally: Tally, tmp_path: Path) -> None:
    """After a repair the broker writes more to one partition, deletes another's topic, moves a third: all its right."""
    first, second = log_dirs = rich(release, State.STOPPED).copy(tmp_path)
    with (second / WRITTEN / "00000000000000000000.log").open("ab") as log:
        log.write(b"torn")
    _flip(sorted((second / DELETED).glob("*.log"))[2], 70)
    _flip(sorted((second / MOVED).glob("*.log"))[0], 300)
    with tally.of(release, Column.WRITE) as compare:
        _ends_with(compare, {0}, "repair", "--apply", second / WRITTEN)
        _ends_with(compare, {0}, "repair", "--strategy", "salvage", "--apply", second / DELETED, second / MOVED)
        changes = {name: _change_of(second / name) for name in (WRITTEN, DELETED, MOVED)}
        kept = _kept(second)
        broker = Broker(release, tmp_path, log_dirs)
        try:
            broker.start()
            with Kit(release, MADE, tmp_path / "kit.log") as kit:
                _let_the_broker_go_on(kit, broker, first, second)
            compare.same("log directories that went offline", sorted(offline(broker.log)), [])
            broker.stop()
            compare.same("kept originals that differ", _names_that_differ(_kept(second), kept), [])
            written = _files(second / WRITTEN)
            _ends_with(compare, {4}, "undo", second, "--change", changes[WRITTEN], "--apply")
            for name in (DELETED, MOVED):
                # There is nothing left to take back: refused, or not to be done.
                _ends_with(compare, {3, 4}, "undo", second, "--change", changes[name], "--apply")
                compare.holds(f"undo brought {name} back", not (second / name).exists())
            compare.same("files after a refused undo", _names_that_differ(_files(second / WRITTEN), written), [])
            _check_next_start(compare, broker)
        finally:
            broker.kill()


def _let_the_broker_go_on(kit: Kit, broker: Broker, first: Path, second: Path) -> None:
    def step(name: str, **rest: object) -> None:
        kit.ask("admin", servers=broker.servers, step=name, **rest)

    step("produce", topic="headers", values=["more", "and more"])
    step("delete", topic="plain")
    step("move", topic="codec-none", to=str(first))
    _wait_for(lambda: not any(second.glob(f"{DELETED}*")), "the deleted topic's directory is gone")
    _wait_for(lambda: (first / MOVED).is_dir() and not any(second.glob(f"{MOVED}*")), "the replica is moved")


def _check_next_start(compare: Comparison, broker: Broker) -> None:
    broker.start()
    with Kit(broker.release, MADE, broker.folder / "kit.log") as kit:
        truth = kit.ask("truth", servers=broker.servers)
    compare.same("log directories offline at the next start", sorted(offline(broker.log)), [])
    compare.same("end of what was written to", truth["offsets"][WRITTEN]["latest"], 42)
    compare.holds("the deleted topic is back", DELETED not in truth["offsets"])
    compare.same("where the moved replica is", truth["directories"][MOVED]["path"], str(broker.log_dirs[0]))


def test_what_was_interrupted_is_not_finished_over_what_a_broker_wrote(
    release: str, tally: Tally, tmp_path: Path
) -> None:
    log_dirs = rich(release, State.STOPPED).copy(tmp_path)
    partition = log_dirs[1] / WRITTEN
    _flip(min(partition.glob("*.log")), 70)
    salvage = ("repair", "--strategy", "salvage", "--apply")
    with tally.of(release, Column.WRITE) as compare:
        died = subprocess.run([sys.executable, "-c", KILLED, *salvage, partition], capture_output=True)
        compare.same("exit code of the repair that is killed", died.returncode, 137)
        change = _change_of(partition)
        broker = Broker(release, tmp_path, log_dirs)
        try:
            broker.start()
            with Kit(release, MADE, tmp_path / "kit.log") as kit:
                kit.ask("admin", servers=broker.servers, step="produce", topic="headers", values=["more", "and more"])
            broker.stop()
        finally:
            broker.kill()
        written, kept = _files(partition), _kept(log_dirs[1])
        for command in (salvage, ("repair", "--apply"), ("trim", "--apply"), ("rebuild-index", "--apply")):
            _ends_with(compare, {4}, *command, partition)
        _ends_with(compare, {4}, "undo", partition, "--change", change, "--apply")
        compare.same("files after refusals", _names_that_differ(_files(partition), written), [])
        compare.same("originals after refusals", _names_that_differ(_kept(log_dirs[1]), kept), [])
        _ends_with(compare, {0}, "undo", partition, "--change", change, "--close", "--apply")
        compare.same("files after the change is closed", _names_that_differ(_files(partition), written), [])
        codes = {row["code"] for row in jsonl("verify", partition).of_type("finding")}
        compare.holds("verify still finds the change unfinished", "KD-CHANGE-UNFINISHED" not in codes)

"""A short run of the campaign, and the model of a disk that it stands on."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from kdump.disk import durable
from tests.campaigns.crash_states import campaign
from tests.campaigns.disk_model import Disk, crash_states, put
from tests.campaigns.recording import Names, Sync, Touch, Write, recording
from tests.campaigns.scenarios import SCENARIOS, Scenario, prepare, run

SHORT = ("rebuild-index: all indexes missing", "trim: index with a zero tail", "roll: none", "set-voters: none")


def states_of(root: Path, act: Callable[[], object], most: int = 1000) -> set[frozenset[tuple[str, bytes]]]:
    """The contents that a power cut may leave of what `act` does."""
    before, inode = Disk.of(root), os.stat(root).st_ino
    with recording(root) as events:
        act()
    assert before.after(events).state(inode) == Disk.of(root).state(inode)
    found = crash_states(before, events, inode, most, random.Random(0))
    return {frozenset((path, file.content if file else b"") for path, file in state) for _, state in found if state}


def test_a_file_that_is_replaced_is_the_old_one_or_the_new_one(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    states = states_of(tmp_path, lambda: durable.replace_file(str(path), b"new", durable=True))
    assert {dict(state)["file"] for state in states} == {b"old", b"new"}


def test_without_fsync_it_may_be_neither(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    states = states_of(tmp_path, lambda: durable.replace_file(str(path), b"n" * 600, durable=False))
    assert {dict(state)["file"] for state in states} == {b"old", b"", b"n" * 512, b"n" * 600}


def test_writes_names_and_fsyncs_are_recorded(tmp_path: Path) -> None:
    with recording(tmp_path) as events:
        durable.write_file(str(tmp_path / "file"), [b"one", b"two"])
        os.rename(tmp_path / "file", tmp_path / "other")
        durable.sync_directory(str(tmp_path))
    inode = (tmp_path / "other").stat().st_ino
    assert [event.data for event in events if isinstance(event, Write)] == [b"onetwo"]
    named = [{name: to for _, name, to in event.entries} for event in events if isinstance(event, Names)]
    assert named == [{"file": inode}, {"file": None, "other": inode}]
    assert [event.inode for event in events if isinstance(event, Sync)] == [inode, tmp_path.stat().st_ino]


def test_a_state_can_be_made_again(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "file").write_bytes(b"content")
    state = Disk.of(tmp_path / "a").state(os.stat(tmp_path / "a").st_ino)
    (tmp_path / "again").mkdir()
    put(state, tmp_path / "again")
    assert Disk.of(tmp_path / "again").state(os.stat(tmp_path / "again").st_ino) == state


@pytest.mark.parametrize("scenario", [each for each in SCENARIOS if each.name in SHORT], ids=lambda each: each.name)
def test_after_a_power_cut_a_second_run_finishes_and_undo_brings_everything_back(
    scenario: Scenario, tmp_path: Path
) -> None:
    """With the directory's fsync before the journal left out, the first of these fails."""
    tally = campaign(scenario, tmp_path, most=1, seed=0, stop=lambda: False)
    assert tally.wrong == []
    assert tally.different > 20


def test_the_times_of_cleaned_files_are_on_the_disk_before_the_journal_names_them(tmp_path: Path) -> None:
    """Else a second run takes them for files that somebody has written to, and refuses."""
    scenario, root = Scenario("compact", "none"), tmp_path / "logs"
    prepare(scenario, root)
    with recording(root) as events:
        run(scenario, root)
    touched = [(at, event.inode) for at, event in enumerate(events) if isinstance(event, Touch)]
    assert touched
    for at, inode in touched:
        assert any(isinstance(event, Sync) and event.inode == inode for event in events[at:])

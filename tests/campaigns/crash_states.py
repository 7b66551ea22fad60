"""What a power cut may leave of every changing command: a second run finishes, and nothing is lost.

For each scenario the command runs once while its file system calls are recorded (`recording`). `disk_model` lists the
states that a power cut may leave. In each of them that was not met before the same command runs again: it must end as
well as the undisturbed one did, with the same files, and `kdump undo` must bring back what was there in the beginning
(`scenarios.End` has what is asked of commands that add, or copy). From some of the states, drawn, the second run is
recorded as well, and a second power cut is tried.

`./dev campaign crash-states [--seed N] [--most N] [--twice N] [--seconds N] [--resume FILE] [NAME...]`
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from kdump.change.interrupted import finish_interrupted
from kdump.commands.shell import exit_codes
from kdump.errors import KdumpError
from kdump.formats import names
from tests.campaigns.disk_model import Disk, File, State, crash_states, put, state_of
from tests.campaigns.recording import recording
from tests.campaigns.scenarios import (
    APPENDED,
    MEMORY,
    PARTITION,
    SCENARIOS,
    End,
    Scenario,
    files,
    kdump,
    records_of,
    run,
    same_every_time,
    start,
    undo_all,
)

WHOLE_ONE_IN = 50
_INODE = re.compile(rb'(?<="inode": )\d+')
_TIME = re.compile(rb"\b\d{19}\b")
States = Iterator[tuple[int, State | None]]
"""States with the number of events before the power cut; None for one that came already."""


@dataclass
class Tally:
    """What a scenario gave: states in all, different ones, and what was wrong."""

    events: int = 0
    states: int = 0
    different: int = 0
    wrong: list[str] = field(default_factory=list)


class Seen:
    """The states that were met. Numbers of inodes, and the time of what was written just now, make no other state."""

    def __init__(self) -> None:
        self._keys: set[int] = set()
        self._files: dict[File, int] = {}
        self._began = time.clock_gettime_ns(time.CLOCK_REALTIME)

    def is_new(self, state: State) -> bool:
        """Whether a state was not met before."""
        key = hash(frozenset((path, self._file(file)) for path, file in state))
        count = len(self._keys)
        self._keys.add(key)
        return len(self._keys) > count

    def _file(self, file: File | None) -> int:
        if file is None:
            return 0
        known = self._files.get(file)
        if known is None:
            known = self._files[file] = self._hash(file)
        return known

    def _hash(self, file: File) -> int:
        content = _INODE.sub(b"", file.content)
        if file.modified > self._began:
            return hash((_TIME.sub(self._time, content), 0))
        return hash((content, file.modified))

    def _time(self, found: re.Match[bytes]) -> bytes:
        return b"now" if int(found[0]) > self._began else found[0]


class Campaign:
    """One scenario: what its command did, and what it does in every state that a power cut may leave.

    A command first finishes, or clears away, what was interrupted; what it does then depends on the files alone. So
    that is all that is done where the files that this leaves were met before, but for one state in `WHOLE_ONE_IN`.
    """

    def __init__(self, scenario: Scenario, scratch: Path) -> None:
        self.scenario = scenario
        self._seen_to_go_on = {was_interrupted: Seen() for was_interrupted in (True, False)}
        self._count = 0
        self.root = scratch / "logs"
        self.change = start(scenario, self.root)
        if self.change:
            self.original = self._before_the_change(scratch / "before")
        else:
            self.original = files(self.root)
        self.is_clean = self._is_clean()
        inode = os.stat(self.root).st_ino
        self.before = Disk.of(self.root)
        if scenario.end == End.APPENDED:
            self.records = records_of(self.root / PARTITION)
        with recording(self.root) as events:
            self.code, self.output = run(scenario, self.root, self.change)
        self.inode, self.events = inode, list(events)
        needs_a_decision = self.code == exit_codes.FINDINGS and not self.events  # by a person: nothing is done
        if not needs_a_decision and (self.code != exit_codes.OK or not self.events):
            raise AssertionError(f"{scenario.name}: exit code {self.code}: {self.output}")
        self.expected = files(self.root)
        if self.before.after(self.events).state(inode) != Disk.of(self.root).state(inode):
            raise AssertionError(f"{scenario.name}: the recorded events do not lead to what is there")
        self._taken_back_before = Seen()

    def _before_the_change(self, root: Path) -> dict[str, bytes]:
        shutil.copytree(self.root, root)
        if said := undo_all(root):
            raise AssertionError(said)
        return files(root)

    def _is_clean(self) -> bool:
        return (self.root / names.CLEAN_SHUTDOWN).exists()

    def cut(self, most: int, numbers: random.Random) -> States:
        """The states that a power cut may leave, with the number of events before it."""
        return crash_states(self.before, self.events, self.inode, most, numbers)

    def cut_again(self, state: State, most: int, numbers: random.Random) -> States:
        """Those that a second power cut may leave, while the command runs in a state that the first one left."""
        self.make(state)
        inode, before = os.stat(self.root).st_ino, Disk.of(self.root)
        with recording(self.root) as events:
            run(self.scenario, self.root, self.change)
        return crash_states(before, events, inode, most, numbers)

    def make(self, state: State) -> None:
        """Make the directory what the state says."""
        shutil.rmtree(self.root, ignore_errors=True)
        self.root.mkdir()
        put(state, self.root)

    def check(self, state: State) -> str:
        """What is wrong once the command has run again in this state; "" if nothing is."""
        self.make(state)
        if self.scenario.end == End.DONE and self._is_seen_to_go_on():
            return ""
        self.make(state)
        return self.again()

    def _is_seen_to_go_on(self) -> bool:
        """Finish, or clear away, what was interrupted: whether a whole run has gone on from there before."""
        self._count += 1
        try:
            with same_every_time():
                found = finish_interrupted(str(self.scenario.partition(self.root)))
        except (OSError, KdumpError):
            return False
        is_new = self._seen_to_go_on[bool(found)].is_new(state_of(self.root))
        return not is_new and self._count % WHOLE_ONE_IN != 0

    def again(self) -> str:
        """The same of a directory that is as it is now."""
        return _CHECKS[self.scenario.end](self)

    def done(self) -> str:
        """The second run ends as the first, and undo brings back what was there."""
        code, output = run(self.scenario, self.root)
        if code != self.code:
            return f"exit code {code} instead of {self.code}: {output.strip()[-300:]}"
        return self.ended()

    def ended(self) -> str:
        """What is wrong after a run that ended as the undisturbed one did."""
        if self.scenario.end == End.APPENDED:
            return self._lacking(records_of(self.root / PARTITION))
        if files(self.root) != self.expected:
            return f"other files than an undisturbed run leaves: {_differences(self.expected, files(self.root))}"
        return self._taken_back() if self.scenario.end in (End.DONE, End.DONE_OR_UNDONE) else ""

    def done_or_undone(self) -> str:
        """The second run does the same, perhaps on top of what is done, or refuses; undo brings back what was there."""
        code, output = run(self.scenario, self.root)
        if code not in (self.code, exit_codes.REFUSED):
            return f"exit code {code}: {output.strip()[-300:]}"
        return self._taken_back()

    def _taken_back(self) -> str:
        if not self._taken_back_before.is_new(state_of(self.root)):
            return ""
        said = undo_all(self.root)
        if said or files(self.root) != self.original:
            return f"undo does not bring back what was there: {said} {_differences(self.original, files(self.root))}"
        return ""

    def undone(self) -> str:
        """A change that was undone before the power cut cannot be undone again: that is no error here."""
        code, output = run(self.scenario, self.root, self.change)
        if files(self.root) == self.original:
            return ""
        return f"exit code {code}, not undone: {output.strip()[-300:]} {_differences(self.original, files(self.root))}"

    def copied(self) -> str:
        """The sources are as they were; the copy is made, or was complete before the power cut."""
        code, output = run(self.scenario, self.root)
        if code not in (self.code, exit_codes.INCOMPLETE, exit_codes.REFUSED):
            return f"exit code {code}: {output.strip()[-300:]}"
        return self.ended()

    def appended(self) -> str:
        """No old record is lost; with a mark of a clean shutdown there is nothing that a broker would have to check."""
        if self._is_clean() and (found := files(self.root)) not in (self.original, self.expected):
            return f"marked as cleanly shut down, but not complete: {_differences(self.expected, found)}"
        code, output = run(self.scenario, self.root)
        if code == exit_codes.REFUSED:
            kdump(["repair", str(self.root / PARTITION), "--strategy", "truncate", "--accept-loss", "all", "--apply"])
            code, output = run(self.scenario, self.root)
        if code != self.code:
            return f"exit code {code} instead of {self.code}: {output.strip()[-300:]}"
        return self.ended()

    def _lacking(self, found: list[bytes]) -> str:
        old, new = self.records, [f"new {n}".encode() for n in range(APPENDED)]
        if self.scenario.command == "roll":
            return "" if found == old else f"{len(found)} records instead of {len(old)}"
        more = found[len(old) : len(found) - len(new)]
        before_the_cut = [number for number, value in enumerate(more) if value == new[0]]
        starts = [more[start:stop] for start, stop in pairwise([*before_the_cut, len(more)])]
        is_whole = [value for part in starts for value in part] == more and all(
            new[: len(part)] == part for part in starts
        )
        if found[: len(old)] != old or found[len(found) - len(new) :] != new or not is_whole:
            return f"{len(found)} records: not {len(old)} old ones, some of the {len(new)} new ones, and all of these"
        return ""


_CHECKS: dict[End, Callable[[Campaign], str]] = {
    End.DONE: Campaign.done,
    End.DONE_OR_UNDONE: Campaign.done_or_undone,
    End.UNDONE: Campaign.undone,
    End.APPENDED: Campaign.appended,
    End.COPIED: Campaign.copied,
}


def _differences(expected: dict[str, bytes], found: dict[str, bytes]) -> str:
    names_of = sorted(name for name in expected.keys() | found.keys() if expected.get(name) != found.get(name))
    return ", ".join(names_of[:5])


def campaign(
    scenario: Scenario, scratch: Path, most: int, seed: int, stop: Callable[[], bool], twice: int = 0
) -> Tally:
    """All states of one scenario, each different one once.

    From `twice` of these, drawn, the command runs again, and all states are tried that another power cut may leave.
    """
    subject = Campaign(scenario, scratch)
    tally = Tally(len(subject.events))
    numbers, seen = random.Random(seed), Seen()
    reached = list(_tried(subject, subject.cut(most, numbers), seen, tally, stop, ""))
    for state in numbers.sample(reached, min(twice, len(reached))):
        if stop():
            break
        for _ in _tried(subject, subject.cut_again(state, most, numbers), seen, tally, stop, "second "):
            pass
    return tally


def _tried(
    subject: Campaign,
    states: States,
    seen: Seen,
    tally: Tally,
    stop: Callable[[], bool],
    run: str,
) -> Iterator[State]:
    """Try the states that were not met before; these."""
    for at, state in states:
        if stop():
            return
        tally.states += 1
        if state is None or not seen.is_new(state):
            continue
        tally.different += 1
        if wrong := subject.check(state):
            tally.wrong.append(f"{subject.scenario.name}, power cut after event {at} of the {run}run: {wrong}")
        yield state


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--most", type=int, default=2000, help="combinations at one point; more are drawn from")
    parser.add_argument("--twice", type=int, default=20, help="states from which a second power cut is tried")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after so long")
    parser.add_argument("--resume", type=Path, help="keep the figures of finished scenarios here, and go on from them")
    parser.add_argument("names", nargs="*", metavar="NAME", help="only scenarios whose names begin so")
    asked = parser.parse_args(arguments)
    end: float = time.monotonic() + asked.seconds

    def stop() -> bool:
        return time.monotonic() > end

    done = json.loads(asked.resume.read_text()) if asked.resume and asked.resume.exists() else {}
    for scenario in random.Random(asked.seed).sample(SCENARIOS, len(SCENARIOS)):
        if scenario.name in done or (asked.names and not scenario.name.startswith(tuple(asked.names))):
            continue
        if stop():
            break
        with tempfile.TemporaryDirectory(dir=MEMORY if os.access(MEMORY, os.W_OK) else None) as scratch:
            tally = campaign(
                scenario, Path(scratch), asked.most, asked.seed, lambda: time.monotonic() > end, asked.twice
            )
        done[scenario.name] = {"states": tally.states, "different": tally.different, "wrong": tally.wrong}
        print(f"{scenario.name}: {tally.events} events, {tally.states} states, {tally.different} different,"
              f" {len(tally.wrong)} wrong", flush=True)  # fmt: skip
        for line in tally.wrong[:5]:
            print(f"  {line}", flush=True)
        if asked.resume:
            asked.resume.write_text(json.dumps(done))
    states, different, wrong = (
        sum(len(each[key]) if key == "wrong" else each[key] for each in done.values())
        for key in ("states", "different", "wrong")
    )
    print(f"{len(done)} scenarios: {states:,} states, {different:,} different, {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

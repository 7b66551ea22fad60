"""Directories with several damages at a time, about which no two commands may contradict each other.

    ./dev campaign contradictions --directories 1000 --seed 0

Each directory is one of the agreement suite (tests/agreement/directories.py), as its broker stopped or killed, with up
to six damages more, drawn by the seed and the directory's number. All rules of tests/agreement/rules.py are asked about
it; then a repair is applied to a copy and taken back. `--only 17` makes and asks directory 17 alone. Of a directory
that breaks a rule, the damages that this rule does not need are left out.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.agreement.answers import Answers
from tests.agreement.directories import KILLED, METADATA, OTHER_BROKERS, Directory, Maker, kill, names
from tests.agreement.rules import RULES, Rule
from tests.agreement.test_undo import undone
from tests.campaigns.file_damages import Damaging, damage

MOST_DAMAGES = 6
MOST_PARTITIONS = 4
MEMORY = "/dev/shm"
NAMES = [name for name in names() if not name.endswith(KILLED)]


@dataclass
class Tally:
    """What came of a campaign; `wrong` is what must not be, with number and damages of its directory."""

    directories: int = 0
    damages: int = 0
    wrong: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return f"{self.directories:,} directories, {self.damages:,} damages, {len(self.wrong)} with contradictions"


class Campaign:
    """Makes the directories of a seed, and asks about them."""

    def __init__(self, seed: int, scratch: Path) -> None:
        self._seed = seed
        self._maker = Maker(scratch / "maker")
        self._bases = scratch / "bases"
        self._made = scratch / "made"

    def run(self, number: int, tally: Tally) -> None:
        """Make one directory, and ask everything about it."""
        said = list(self.made(number))
        tally.directories += 1
        tally.damages += len(said)
        broken = dict(self._broken())
        if broken:
            first = next(iter(broken))
            needed = self._needed(number, len(said), first)
            lines = [f"{name}: {each}" for name, found in broken.items() for each in found[:3]]
            tally.wrong.append(
                "\n  ".join((f"directory {number} of seed {self._seed}:", *lines, *self._said(number, needed)))
            )

    def made(self, number: int, wanted: Sequence[int] | None = None) -> list[str]:
        """Make a directory with its damages, or only those of these numbers; what they are."""
        chance = random.Random(f"{self._seed} {number}")
        base = self._base(chance.choice(NAMES))
        shutil.rmtree(self._made, ignore_errors=True)
        shutil.copytree(base, self._made, symlinks=True)
        _narrow(self._made, chance)
        files = Damaging.of(self._made)
        self._is_killed = chance.random() < 0.4
        if self._is_killed:
            kill(self._made)
        said = []
        for at in range(chance.randint(1, MOST_DAMAGES)):
            if wanted is None or at in wanted:
                said.append(f"{at}: {damage(files, random.Random(f'{self._seed} {number} {at}'))}")
        self._name = f"{base.name}{KILLED if self._is_killed else ''}"
        return said

    def _said(self, number: int, needed: Sequence[int]) -> list[str]:
        return [f"{self._name}, with", *self.made(number, needed)]

    def _base(self, name: str) -> Path:
        """The directory of this name without damages of ours, built once."""
        base = self._bases / name.replace("/", "_")
        if not base.exists():
            self._maker.make(name)
            shutil.copytree(self._maker.root, base, symlinks=True)
        return base

    def _answers(self) -> list[Answers]:
        log_dirs = sorted(each.name for each in self._made.iterdir() if each.is_dir())
        disks = tuple(each for each in log_dirs if each not in OTHER_BROKERS)
        brokers = [disks, *((each,) for each in log_dirs if each in OTHER_BROKERS)]
        return [Answers(Directory(self._name, self._made, each)) for each in brokers if each]

    def _broken(self) -> Iterator[tuple[str, list[str]]]:
        """Each rule that is broken, and what two commands say."""
        about = self._answers()
        for rule in (*RULES, undo_gives_every_byte_back):
            if found := [each for answers in about for each in asked(rule, answers)]:
                yield rule.__name__, found

    def _needed(self, number: int, count: int, broken: str) -> list[int]:
        """The damages without which a rule would not be broken."""
        rule = next(each for each in (*RULES, undo_gives_every_byte_back) if each.__name__ == broken)
        needed = list(range(count))
        for at in range(count):
            fewer = [each for each in needed if each != at]
            self.made(number, fewer)
            if any(asked(rule, answers) for answers in self._answers()):
                needed = fewer
        return needed


def undo_gives_every_byte_back(answers: Answers) -> Iterator[str]:
    """What a repair changed, `kdump undo` takes back whole."""
    for repair in answers.repairs:
        if answers.plan(repair).of_type("operation"):
            yield from undone(answers.directory, repair)
            return


def asked(rule: Rule, answers: Answers) -> list[str]:
    """What a rule finds; a command that raises, or a row that its schema refuses, is something found, too."""
    try:
        return list(rule(answers))
    except Exception as error:  # whatever a command raises is what is looked for
        return [f"{type(error).__name__}: {error}"]


def _narrow(root: Path, chance: random.Random) -> None:
    """Leave a few partitions, and the cluster's metadata."""
    partitions = sorted(path for path in root.glob("*/*/") if path.name != METADATA)
    for path in chance.sample(partitions, max(0, len(partitions) - MOST_PARTITIONS)):
        shutil.rmtree(path)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--directories", type=int, default=1000)
    parser.add_argument("--only", type=int, metavar="NUMBER", help="ask about one directory alone")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after so long")
    parser.add_argument("--resume", type=Path, help="keep the figures here, and go on from them")
    parser.add_argument("--keep", type=Path, help="with --only: leave the directory here")
    options = parser.parse_args(arguments)
    end = time.monotonic() + options.seconds
    tally = Tally()
    if options.resume and options.resume.exists():
        tally = Tally(**json.loads(options.resume.read_text()))
    numbers = range(tally.directories, options.directories) if options.only is None else [options.only]
    time.sleep = lambda _: None  # nothing grows here that a command would have to watch
    with tempfile.TemporaryDirectory(dir=MEMORY if os.access(MEMORY, os.W_OK) else None) as scratch:
        campaign = Campaign(options.seed, Path(scratch))
        for number in numbers:
            if time.monotonic() > end:
                break
            known = len(tally.wrong)
            campaign.run(number, tally)
            for text in tally.wrong[known:]:
                print(text, flush=True)
            if options.resume:
                options.resume.write_text(json.dumps(vars(tally)))
        if options.keep:
            campaign.made(options.only)
            shutil.copytree(Path(scratch) / "made", options.keep, symlinks=True)
    print(tally)
    return 1 if tally.wrong else 0


if __name__ == "__main__":
    sys.exit(main())

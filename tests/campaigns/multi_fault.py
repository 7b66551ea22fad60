"""Partition directories with one to six faults each: what each strategy makes of them, and whether undo gives all back.

    ./dev campaign multi-fault --count 100000 --seed 1

Directories come by the log directory, of about 30 partitions (tests/campaigns/partition_templates.py); seed and number
determine one. On each, `--strategies` (2) of the six run, in turn over all numbers. A strategy is: the plan, which
changes nothing; --apply, with --accept-loss of the number that each plan announces; --apply again, which changes
nothing; verify; and undo of all changes, which gives back every byte. The judge is tests/campaigns/valid_batches.py:
a valid batch that was there before is there after, unless the plan announced it.

`--only 17` runs log directory 17 alone, `--partition`, `--strategy` and `--faults` less of it: what a failure prints.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from tests.agreement.running import Said, kdump
from tests.campaigns.faulted_directory import Choice, Directory, Tree, differences, partitions_of, tree
from tests.campaigns.partition_templates import CLOCK, PARTITIONS
from tests.campaigns.valid_batches import OLD_MAGICS, Held, ValidBatch, missing

MEMORY = "/dev/shm"
MOST_ALIKE = 4
"""So many failures of one kind and strategy are tried with fewer faults, by each process."""
NOW = ("--now", str(CLOCK + 86_400_000))
STRATEGIES: dict[str, tuple[str, ...]] = {
    "safe": ("repair", *NOW),
    "truncate": ("repair", "--strategy", "truncate", *NOW),
    "salvage": ("repair", "--strategy", "salvage", "--only-copy", *NOW),
    "fix-bit": ("repair", "--fix-bit", *NOW),
    "rebuild-index": ("rebuild-index",),
    "trim": ("trim",),
}
END_CODES = (0, 1, 3, 4)
LONGEST = 300
"""Seconds of a log directory, after which it hangs."""

class Announced(NamedTuple):
    """What a plan says of a partition: whether it has work, and the valid batches and records that it drops.

    `lost` records have to be accepted; the others are announced, as copies and what a broker deletes at its start.
    """

    operations: int
    lost: int
    batches: int
    records: int


NOTHING = Announced(0, 0, 0, 0)


class Wrong(NamedTuple):
    """A rule that a strategy broke in a partition ("": the log directory), and how."""

    kind: str
    partition: str
    text: str


@dataclass
class Tally:
    """Figures of a campaign; `wrong` are the failures as text."""

    partitions: int = 0
    faults: int = 0
    applied: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    idle: Counter[str] = field(default_factory=Counter)
    losses: Counter[str] = field(default_factory=Counter)
    records: Counter[str] = field(default_factory=Counter)
    kinds: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    def add(self, other: Tally) -> None:
        """Add the figures of another one."""
        for name, value in vars(other).items():
            setattr(self, name, getattr(self, name) + value)

    def __str__(self) -> str:
        heads = f"{'strategy':14} {'applied':>9} {'no work':>9} {'left alone':>10} {'with loss':>9} {'records':>9}"
        lines = [f"{self.partitions:,} partition directories, {self.faults:,} faults", heads]
        lines += [
            f"{name:14} {self.applied[name]:9,} {self.idle[name]:9,} {self.refused[name]:10,} {self.losses[name]:9,}"
            f" {self.records[name]:9,}"
            for name in STRATEGIES
        ]
        lines += [f"{count:,} times wrong: {kind}" for kind, count in sorted(self.kinds.items())]
        return "\n".join((*lines, f"wrong: {len(self.wrong)}"))


class Trial:
    """One strategy on one log directory."""

    def __init__(self, directory: Directory, strategy: str, before: Tree, tally: Tally) -> None:
        self._directory = directory
        self._strategy = strategy
        self._tally = tally
        self._before = before
        self._home = directory.outside

    def run(self) -> Iterator[Wrong]:
        """Yield what is wrong."""
        plan = self._repair()
        yield from self._ends(plan)
        changed = differences(self._before, self._tree())
        yield from (Wrong("the plan changes files", _of(each), each) for each in changed)
        announced = {Path(row["path"]).name: _announced(row) for row in plan.of_type("partition")}
        runs = [self._repair("--apply")]
        by_loss: dict[int, list[str]] = defaultdict(list)
        for name, loss in announced.items():
            if loss.records and loss.operations:
                by_loss[loss.records].append(name)
        for records, names in by_loss.items():
            runs.append(self._repair("--apply", "--accept-loss", records, partitions=names))
        yield from (wrong for said in runs for wrong in self._ends(said))
        applied = {Path(row["path"]).name for said in runs for row in said.of_type("partition") if row["isApplied"]}
        after = self._tree()
        yield from self._judged(announced, applied, after)
        yield from self._again(applied, after)
        yield from self._verified()
        yield from self._undone()
        self._count(announced, applied, runs[0])

    def _repair(self, *options: object, partitions: Iterable[str] = ()) -> Said:
        command, *more = STRATEGIES[self._strategy]
        paths = [f"data/{name}" for name in partitions] or ["data"]
        return kdump(self._home, command, "--format", "jsonl", "--jobs", "1", *more, *options, *paths)

    def _tree(self) -> Tree:
        return tree(self._home)

    def _ends(self, said: Said) -> Iterator[Wrong]:
        if said.code not in END_CODES:
            yield Wrong("exit code", "", f"{said} exits with {said.code}: {said.err[-500:]}")
        if "error in kdump itself" in said.err or "Traceback" in said.err:
            yield Wrong("internal error", "", f"{said}: {said.err[-500:]}")
        if said.code == 2:
            yield Wrong("usage", "", said.err[-500:])

    def _judged(self, announced: Mapping[str, Announced], applied: set[str], after: Tree) -> Iterator[Wrong]:
        outside = {path: each for path, each in after.items() if not path.startswith("data")}
        was_outside = {path: each for path, each in self._before.items() if not path.startswith("data")}
        yield from (Wrong("outside", "", each) for each in differences(was_outside, outside))
        held = partitions_of(_below(after))
        for name, batches in partitions_of(_below(self._before)).items():
            copies: Mapping[bytes, int] = self._directory.copies.get(name.partition(".")[0], {})
            found = held.get(name, Held((), ()))
            loss = announced[name] if name in applied else NOTHING
            yield from _lost("valid batches lost", name, missing(batches.logs, found.logs, copies), loss)
            others = Counter(batch.identity for batch in batches.logs)
            strays = [batch for batch in batches.files if not others[batch.identity]]
            yield from _lost("valid batches of stray files lost", name, missing(strays, found.files, copies), loss)

    def _again(self, applied: set[str], after: Tree) -> Iterator[Wrong]:
        """Yield what a second run does, which is nothing.

        `truncate` does what one start of a broker does. Of a log whose name has not all digits the next start makes the
        files that the first one did not look for. `fix-bit` may see the next flipped bit only once the one before it is
        flipped back. They may have work once more, and drop nothing with it.
        """
        again = self._repair("--apply")
        yield from self._ends(again)
        may_go_on = {"", *applied} if self._strategy in ("truncate", "fix-bit") else set[str]()
        for row in again.of_type("partition"):
            name = Path(row["path"]).name
            if name in may_go_on and not row["droppedByKind"]:
                continue
            if name in applied and (row["operations"] or row["interrupted"]):
                rows = [each for each in again.of_type("operation") if each["path"] == row["path"]]
                what = [(each["action"], each["file"], each["why"]) for each in rows]
                yield Wrong("the second run has work", name, f"{what}, drops {row['dropped']}")
        for each in differences(after, self._tree()):
            if (_of(each) in applied or not _of(each)) and _of(each) not in may_go_on:
                yield Wrong("the second run changes files", _of(each), each)

    def _verified(self) -> Iterator[Wrong]:
        said = kdump(self._home, "verify", "--format", "jsonl", "--jobs", "1", *NOW, "data")
        yield from self._ends(said)

    def _undone(self) -> Iterator[Wrong]:
        listed = kdump(self._home, "undo", "--format", "jsonl", "data")
        yield from self._ends(listed)
        for change in dict.fromkeys(row["id"] for row in reversed(listed.of_type("change"))):
            said = kdump(self._home, "undo", "--format", "jsonl", "--change", change, "--apply", "data")
            if said.code:
                yield Wrong("undo is refused", "", f"{said} exits with {said.code}: {said.err[-500:]}")
        for each in differences(self._before, self._tree(), is_undone=True):
            yield Wrong("undo leaves something", _of(each), each)
        for path in self._directory.path.glob(".kdump-*"):
            path.unlink() if path.is_file() else shutil.rmtree(path)
        (self._directory.path / ".lock").unlink(missing_ok=True)

    def _count(self, announced: Mapping[str, Announced], applied: set[str], first: Said) -> None:
        tally, strategy = self._tally, self._strategy
        tally.applied[strategy] += len(applied)
        losses = [loss.lost for name, loss in announced.items() if name in applied and loss.lost]
        tally.losses[strategy] += len(losses)
        tally.records[strategy] += sum(losses)
        idle = [name for name, loss in announced.items() if not loss.operations]
        tally.idle[strategy] += len(idle)
        tally.refused[strategy] += len(first.of_type("leftAlone"))


def _below(files: Tree) -> Tree:
    return {path.removeprefix("data/"): each for path, each in files.items() if path.startswith("data/")}


def _of(difference: str) -> str:
    """Return the partition directory of a file that differs; "" for a file beside them."""
    parts = difference.partition(" ")[0].rstrip(":").split("/")
    return parts[1] if len(parts) > 2 else ""


def _announced(row: Mapping[str, Any]) -> Announced:
    kinds = row["droppedByKind"].values()
    batches, records = (sum(kind[field] for kind in kinds) for field in ("batches", "records"))
    return Announced(row["operations"], row["dropped"]["records"], batches, records)


def _lost(kind: str, name: str, lost: list[ValidBatch], announced: Announced) -> Iterator[Wrong]:
    """Yield whether a partition lost more than was announced; records of v0 and v1 batches are not counted here."""
    records = sum(max(0, batch.records) for batch in lost if batch.magic not in OLD_MAGICS)
    if len(lost) > announced.batches or (announced.batches and records > announced.records):
        texts = [f"{batch.base_offset} ({batch.records} records, magic {batch.magic})" for batch in lost[:5]]
        text = f"{len(lost)} batches, {records} records, base offsets {', '.join(texts)}; announced {announced}"
        yield Wrong(kind, name, text)


ALL = Choice()


class Campaign:
    """Runs log directories of a seed in a folder, with so many strategies each."""

    def __init__(self, seed: str, scratch: Path, templates: Path, strategies: int) -> None:
        self._strategies = strategies
        self._seed = seed
        self._scratch = scratch
        self._templates = templates
        self._alike: Counter[tuple[str, str]] = Counter()

    def run(self, number: int, choice: Choice = ALL, *, is_minimised: bool = True) -> Tally:
        """Run the strategies of a log directory; what came of it."""
        tally = Tally()
        directory = Directory(self._scratch / "run", self._templates, self._seed, number, choice)
        wrong = list(self._trials(directory, tally))
        tally.partitions = len(directory.faults) - 1
        tally.faults = sum(map(len, directory.faults.values()))
        seen = set()
        for strategy, each in wrong:
            tally.kinds[f"{strategy}: {each.kind}"] += 1
            if (strategy, each.kind, each.partition) in seen:
                continue
            seen.add((strategy, each.kind, each.partition))
            tally.wrong.append(self._text(number, choice, strategy, each, directory, is_minimised=is_minimised))
        return tally

    def _trials(self, directory: Directory, tally: Tally) -> Iterator[tuple[str, Wrong]]:
        names, first = list(STRATEGIES), directory.number * self._strategies
        chosen = [names[(first + at) % len(names)] for at in range(self._strategies)]
        if directory.choice.strategy is not None:
            chosen = [directory.choice.strategy]
        is_made = False
        for strategy in chosen:
            if not is_made:
                directory.make()
            before = tree(directory.outside)
            signal.alarm(LONGEST)
            try:
                wrong = list(Trial(directory, strategy, before, tally).run())
            except Exception as error:  # whatever a command raises is what is looked for
                where = traceback.extract_tb(error.__traceback__)[-1]
                wrong = [Wrong("exception", "", f"{type(error).__name__}: {error} ({where.filename}:{where.lineno})")]
            signal.alarm(0)
            yield from ((strategy, each) for each in wrong)
            is_made = not wrong  # undone, it is as before

    def _text(
        self, number: int, choice: Choice, strategy: str, wrong: Wrong, directory: Directory, *, is_minimised: bool
    ) -> str:
        faults = directory.faults
        choice = choice._replace(strategy=strategy)
        partition, text = wrong.partition, wrong.text
        self._alike[strategy, wrong.kind] += 1
        is_minimised &= self._alike[strategy, wrong.kind] <= MOST_ALIKE
        if is_minimised and (found := self._smaller(number, choice, wrong, faults)):
            choice, partition, text, faults = found
        options = f"--seed {self._seed} --only {number} --strategy {strategy}"
        if choice.partition is not None:
            options += f" --partition {choice.partition}"
        if choice.faults is not None:
            options += f" --faults {','.join(map(str, choice.faults))}"
        own = faults.get((partition or choice.partition or " ").partition(".")[0], [])
        return "\n    ".join((f"{wrong.kind}: {partition}: {text}", options, *faults[""], *own))

    def _smaller(
        self, number: int, choice: Choice, wrong: Wrong, faults: Mapping[str, list[str]]
    ) -> tuple[Choice, str, str, dict[str, list[str]]] | None:
        """Return the one partition and the least faults of it with which the same kind is wrong; None if none is."""
        names = [wrong.partition.partition(".")[0]] if wrong.partition else [name for name in faults if name]
        for name in names:
            best = self._tried(number, choice._replace(partition=name, faults=None), wrong.kind)
            if best is None:
                continue
            needed = tuple(range(len(faults[name])))
            for at in needed:
                fewer = tuple(each for each in needed if each != at)
                if found := self._tried(number, choice._replace(partition=name, faults=fewer), wrong.kind):
                    needed, best = fewer, found
            return best
        return None

    def _tried(
        self, number: int, choice: Choice, kind: str
    ) -> tuple[Choice, str, str, dict[str, list[str]]] | None:
        directory = Directory(self._scratch / "run", self._templates, self._seed, number, choice)
        for _, each in self._trials(directory, Tally()):
            if each.kind == kind:
                return choice, each.partition or choice.partition or "", each.text, directory.faults
        return None


def quickened() -> None:
    """Wait for nothing: nothing else changes these files, and no power is cut."""
    time.sleep = lambda _: None
    os.fsync = lambda fd: None
    os.environ["KDUMP_DEBUG"] = "1"  # what kdump did not foresee is raised

    def hangs(*_: object) -> None:
        raise TimeoutError(f"it takes longer than {LONGEST} s")

    signal.signal(signal.SIGALRM, hangs)


_campaign: Campaign


def begin(seed: str, scratch: str, templates: str, strategies: int) -> None:
    global _campaign
    quickened()
    _campaign = Campaign(seed, Path(tempfile.mkdtemp(dir=scratch)), Path(templates), strategies)


def run_one(number: int) -> Tally:
    return _campaign.run(number)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a campaign and print what came of it; 1 where something is wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", default="1")
    parser.add_argument("--count", type=int, default=1000, metavar="N", help="partition directories (default: 1000)")
    parser.add_argument("--first", type=int, default=0, metavar="N", help="the first log directory's number")
    parser.add_argument("--strategies", type=int, default=2, metavar="N", help="strategies a directory (default: 2)")
    parser.add_argument("--only", type=int, metavar="NUMBER", help="one log directory alone")
    parser.add_argument("--partition", metavar="NAME", help="with --only: one partition alone")
    parser.add_argument("--strategy", choices=list(STRATEGIES), help="with --only: this strategy alone")
    parser.add_argument("--faults", metavar="N,...", help="with --partition: these faults alone")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="with --only: leave it with its faults here")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, metavar="N", help="processes")
    options = parser.parse_args(arguments)
    started, tally = time.monotonic(), Tally()
    with tempfile.TemporaryDirectory(dir=MEMORY if os.access(MEMORY, os.W_OK) else None) as scratch:
        templates = Path(scratch) / "templates"
        templates.mkdir()
        if options.only is not None:
            chosen = None if options.faults is None else tuple(int(each) for each in options.faults.split(",") if each)
            choice = Choice(options.partition, chosen, options.strategy)
            begin(options.seed, scratch, str(templates), options.strategies)
            tally = _campaign.run(options.only, choice, is_minimised=options.partition is None)
            if options.keep:
                directory = Directory(Path(scratch) / "kept", templates, options.seed, options.only, choice)
                directory.make()
                shutil.copytree(directory.path, options.keep)
            print("\n".join(tally.wrong))
        else:
            for done in _results(options, scratch, templates):
                for text in done.wrong:
                    print(text, flush=True)
                tally.add(done)
    print(tally)
    each = f"{options.strategies} of {len(STRATEGIES)} strategies each"
    print(f"seed {options.seed}, {each}, {time.monotonic() - started:.0f} s")
    return int(bool(tally.wrong))


def _results(options: argparse.Namespace, scratch: str, templates: Path) -> Iterator[Tally]:
    """Yield what came of log directories until there were as many partitions as were asked for."""
    count, number = 0, options.first
    arguments = options.seed, scratch, str(templates), options.strategies
    with ProcessPoolExecutor(options.jobs, initializer=begin, initargs=arguments) as pool:
        running = deque(pool.submit(run_one, number + at) for at in range(2 * options.jobs))
        number += len(running)
        while running:
            done = running.popleft().result()
            yield done
            count += done.partitions
            if count + len(running) * PARTITIONS < options.count:
                running.append(pool.submit(run_one, number))
                number += 1


if __name__ == "__main__":
    sys.exit(main())

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
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from tests.agreement.running import Said, kdump
from tests.campaigns.partition_faults import OFFSET_CHECKPOINTS, Partition, put_fault, put_log_directory_fault
from tests.campaigns.partition_templates import CLOCK, PARTITIONS, build
from tests.campaigns.valid_batches import OLD_MAGICS, Held, ValidBatch, copies_in, held_by, missing

MEMORY = "/dev/shm"
MOST_FAULTS = 6
MOST_ALIKE = 4
"""So many failures of one kind and strategy are tried with fewer faults, by each process."""
TEMPLATES = 24
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

File = tuple[object, ...]
"""Mode, owner, time of change (ns) and content of a file; of a directory its mode and owner."""
Tree = dict[str, File]


class Announced(NamedTuple):
    """What a plan says of a partition: whether it has work, and the valid batches and records that it drops."""

    operations: int
    batches: int
    records: int
    first_offset: int | None
    last_offset: int | None


class Wrong(NamedTuple):
    """A rule that a strategy broke in a partition ("" for the log directory), and how."""

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
        lines = [f"{self.partitions:,} partition directories, {self.faults:,} faults"]
        lines.append(f"{'strategy':14} {'applied':>9} {'no work':>9} {'left alone':>10} {'with loss':>9} {'records':>9}")
        lines += [
            f"{name:14} {self.applied[name]:9,} {self.idle[name]:9,} {self.refused[name]:10,} {self.losses[name]:9,}"
            f" {self.records[name]:9,}"
            for name in STRATEGIES
        ]
        lines += [f"{count:,} times wrong: {kind}" for kind, count in sorted(self.kinds.items())]
        return "\n".join((*lines, f"wrong: {len(self.wrong)}"))


class Choice(NamedTuple):
    """A part of a log directory: one partition of it, some of its faults (by number), one strategy. None: all."""

    partition: str | None = None
    faults: tuple[int, ...] | None = None
    strategy: str | None = None


class Directory:
    """A log directory of a seed and a number, in a folder of its own; `faults` are what it has, by partition."""

    def __init__(self, folder: Path, templates: Path, seed: str, number: int, choice: Choice) -> None:
        self.path = folder / "data"
        self.seed = seed
        self.number = number
        self.choice = choice
        self.faults: dict[str, list[str]] = {}
        self._folder = folder
        self._templates = templates

    def make(self) -> None:
        """Write its files; again, if it was made before."""
        shutil.rmtree(self._folder, ignore_errors=True)
        key = f"{self.seed} {self.number}"
        chance = random.Random(key)
        template = self._template(chance.randrange(TEMPLATES))
        shutil.copytree(template, self.path)
        (self._folder / "other").mkdir()
        (self._folder / "other" / "file").write_bytes(b"of somebody else")
        partitions = sorted(self.path / path.name for path in template.iterdir() if path.is_dir())
        self.copies = {path.name: copies_in(path) for path in partitions}
        self.faults = {"": []}
        for at in range(chance.choice((0, 0, 1, 2))):
            text = put_log_directory_fault(self.path, random.Random(f"{key} {at}"))
            self.faults[""].append(f"{at}: {text}")
        if self.choice.partition is None:
            for path in partitions:
                self._put(path, template, key)
            return
        name = self.choice.partition.partition(".")[0]
        self._put(self.path / name, template, key)
        for path in partitions:
            if path.name != name:
                shutil.rmtree(path)

    def _put(self, path: Path, template: Path, key: str) -> None:
        chance, chosen = random.Random(f"{key} {path.name}"), self.choice.faults
        count = chance.choice((1, 1, 2, 2, 3, 4, 5, MOST_FAULTS))
        others = sorted(each for each in template.iterdir() if each.is_dir() and each.name != path.name)
        self.faults[path.name] = []
        for at in range(count):
            own = random.Random(f"{key} {path.name} {at}")
            other = own.choice(others)
            if chosen is None or at in chosen:
                self.faults[path.name].append(f"{at}: {put_fault(Partition(path, other), own)}")

    def _template(self, number: int) -> Path:
        """Return the log directory without faults of this number, built once for all processes."""
        path = self._templates / str(number)
        if not path.exists():
            part = Path(tempfile.mkdtemp(dir=self._templates))
            build(part / "data", f"{self.seed} {number}")
            with suppress(OSError):
                (part / "data").rename(path)
        return path

    @property
    def outside(self) -> Path:
        """Return the folder that the log directory is in."""
        return self._folder


def tree(folder: Path) -> Tree:
    """Return the files and directories of a folder, by their paths in it, but for kdump's own and the lock."""
    found: Tree = {}
    pending = [""]
    while pending:
        prefix = pending.pop()
        with os.scandir(folder / prefix) as entries:
            for entry in entries:
                if entry.name == ".lock" or entry.name.startswith(".kdump-"):
                    continue
                name, info = f"{prefix}{entry.name}", entry.stat(follow_symlinks=False)
                if entry.is_dir(follow_symlinks=False):
                    found[name] = (info.st_mode, info.st_uid, info.st_gid)
                    pending.append(f"{name}/")
                else:
                    found[name] = (info.st_mode, info.st_uid, info.st_gid, info.st_mtime_ns, _content(entry.path))
    return found


def _content(path: str) -> bytes:
    with open(path, "rb", buffering=0) as file:
        return file.read()


def partitions_of(files: Tree) -> dict[str, Held]:
    """Return the valid batches of a log directory by partition directory."""
    contents: dict[str, dict[str, bytes]] = defaultdict(dict)
    for path, (*_, content) in files.items():
        partition, slash, name = path.partition("/")
        if slash and isinstance(content, bytes):
            contents[partition][name] = content
    return {partition: held_by(found) for partition, found in contents.items()}


def differences(before: Tree, after: Tree, *, is_undone: bool = False) -> Iterator[str]:
    """Yield what differs; a change that was undone may have written lines of checkpoints again."""
    for path in sorted(before.keys() | after.keys()):
        one, other = before.get(path), after.get(path)
        if one == other:
            continue
        if is_undone and path.rpartition("/")[2] in OFFSET_CHECKPOINTS and one and other:
            if (*one[:3], _ended(one[4])) == (*other[:3], _ended(other[4])):
                continue
        if one is None or other is None:
            yield f"{path} is {'new' if one is None else 'gone'}"
            continue
        names = ("mode", "owner", "group", "time", "content")
        what = [name for name, was, is_now in zip(names, one, other, strict=False) if was != is_now]
        yield f"{path}: other {', '.join(what)}"


def _ended(content: object) -> bytes:
    assert isinstance(content, bytes)
    return content.removesuffix(b"\n")


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
        yield from (Wrong("the plan changes files", _of(each), each) for each in differences(self._before, self._tree()))
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
            copies = self._directory.copies.get(name.partition(".")[0], {})
            found = held.get(name, Held((), ()))
            loss = announced.get(name, Announced(0, 0, 0, None, None)) if name in applied else Announced(0, 0, 0, None, None)
            yield from _lost("valid batches lost", name, missing(batches.logs, found.logs, copies), loss)
            others = Counter(batch.identity for batch in batches.logs)
            strays = [batch for batch in batches.files if not others[batch.identity]]
            yield from _lost("valid batches of stray files lost", name, missing(strays, found.files, copies), loss)

    def _again(self, applied: set[str], after: Tree) -> Iterator[Wrong]:
        again = self._repair("--apply")
        yield from self._ends(again)
        for row in again.of_type("partition"):
            name = Path(row["path"]).name
            if name in applied and (row["operations"] or row["interrupted"]):
                what = [(each["action"], each["file"], each["why"]) for each in again.of_type("operation") if each["path"] == row["path"]]
                yield Wrong("the second run has work", name, f"{what}, drops {row['dropped']}")
        for each in differences(after, self._tree()):
            if _of(each) in applied or not _of(each):
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
        losses = [loss.records for name, loss in announced.items() if name in applied and loss.records]
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
    dropped = row["dropped"]
    offsets = dropped["firstOffset"], dropped["lastOffset"]
    return Announced(row["operations"], dropped["batches"], dropped["records"], *offsets)


def _lost(kind: str, name: str, lost: list[ValidBatch], announced: Announced) -> Iterator[Wrong]:
    """Yield whether a partition lost more than was announced; records of v0 and v1 batches are not counted here."""
    records = sum(max(0, batch.records) for batch in lost if batch.magic not in OLD_MAGICS)
    if len(lost) > announced.batches or (announced.batches and records > announced.records):
        texts = [f"{batch.base_offset} ({batch.records} records, magic {batch.magic})" for batch in lost[:5]]
        yield Wrong(kind, name, f"{len(lost)} batches, {records} records, base offsets {', '.join(texts)}; announced {announced}")


class Campaign:
    """Runs log directories of a seed in a folder, with so many strategies each."""

    def __init__(self, seed: str, scratch: Path, templates: Path, strategies: int) -> None:
        self._strategies = strategies
        self._seed = seed
        self._scratch = scratch
        self._templates = templates
        self._alike: Counter[tuple[str, str]] = Counter()

    def run(self, number: int, choice: Choice = Choice(), *, is_minimised: bool = True) -> Tally:
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
        own = faults.get(partition.partition(".")[0], [])
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
    os.fsync = lambda _: None
    os.environ["KDUMP_DEBUG"] = "1"  # what kdump did not foresee is raised

    def hangs(*_: object) -> None:
        raise TimeoutError(f"it takes longer than {LONGEST} s")

    signal.signal(signal.SIGALRM, hangs)


_campaign: Campaign


def begin(seed: str, scratch: str, templates: str, strategies: int) -> None:
    global _campaign  # noqa: PLW0603 - each process has its own
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
    parser.add_argument("--keep", type=Path, metavar="DIR", help="with --only: leave the directory with its faults here")
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
    with ProcessPoolExecutor(options.jobs, None, begin, (options.seed, scratch, str(templates), options.strategies)) as pool:
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

"""What a repair did to any of these directories, `kdump undo` takes back whole: contents, modes, owners and times."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path
from random import Random

import pytest

from kdump.change import place
from kdump.formats import names
from tests.agreement.answers import ALL_THE_SAME, REPAIRS
from tests.agreement.directories import KILLED, NOW, Directory, Maker
from tests.agreement.directories import names as directory_names
from tests.agreement.running import Row, Said, kdump

pytestmark = pytest.mark.slow

Facts = tuple[object, ...]
SEED, SEQUENCES, STEPS_OF_ONE = 31, 24, 9
STEPS = (*REPAIRS, "append", "append", "roll", *["undo"] * 5)
NAMES = [name for name in directory_names() if not name.startswith(("corpus/", "specs/"))]


@pytest.fixture(scope="module")
def maker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Maker]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(time, "sleep", lambda _: None)  # nothing grows here that a command would have to watch
        yield Maker(tmp_path_factory.mktemp("undo"))


@pytest.mark.parametrize("name", NAMES)
def test_undo_takes_a_repair_back(name: str, maker: Maker) -> None:
    said = [each for directory in maker.make(name) for repair in _repairs(name) for each in undone(directory, repair)]
    assert not said, "\n".join(said)


def _repairs(name: str) -> list[str]:
    """Those that are asked of a directory: of a killed one only those that go by how the broker stopped."""
    return [each for each in REPAIRS if each.startswith("repair")] if name.endswith(KILLED) else list(REPAIRS)


def undone(directory: Directory, repair: str) -> Iterator[str]:
    """What is not as it was after a repair and its undo."""
    copy = copy_of(directory)
    before = dict(facts(copy))
    done = apply(copy, directory, repair)
    made = changes(copy, directory)
    if bool(done.of_type("operation")) != bool(made):
        yield f"{done}: {len(done.of_type('operation'))} operations, undo lists {len(made)} changes"
    for change in reversed(made):
        said = kdump(copy, "undo", change["path"], "--change", change["id"], "--apply")
        if said.code:
            yield f"{repair}: {said} exits with {said.code}: {said.err}{said.out}"
    yield from (f"{repair}, undo: {each}" for each in differences(before, dict(facts(copy))))


@pytest.mark.parametrize("number", range(SEQUENCES))
def test_undo_takes_back_what_it_can_after_anything(number: int, maker: Maker) -> None:
    """Repairs, appended records and undone changes in any order: a change is taken back whole, or nothing happens."""
    random = Random(f"{SEED} {number}")
    directory = maker.make(random.choice(NAMES))[0]
    sequence = Sequence(directory, random)
    said = [each for _ in range(STEPS_OF_ONE) for each in sequence.step()]
    assert not said, "\n".join((*said, directory.name, *sequence.said))


def copy_of(directory: Directory) -> Path:
    """A copy of log directories, in the place of the one before."""
    copy = directory.root.with_name("copy")
    shutil.rmtree(copy, ignore_errors=True)
    for log_dir in directory.log_dirs:
        shutil.copytree(directory.root / log_dir, copy / log_dir, symlinks=True)
    return copy


def differences(before: dict[str, Facts], after: dict[str, Facts]) -> Iterator[str]:
    for path in sorted(before.keys() | after.keys()):
        if before.get(path) != after.get(path):
            yield f"{path} was {before.get(path)}, it is {after.get(path)}"


def apply(root: Path, directory: Directory, repair: str) -> Said:
    """Apply one of REPAIRS, whatever it loses."""
    command, *options = REPAIRS[repair]
    loss = ALL_THE_SAME.get(repair, ())
    return kdump(root, command, "--format", "jsonl", *options, *loss, "--apply", *directory.log_dirs)


def changes(root: Path, directory: Directory) -> list[Row]:
    """The changes that undo lists, the oldest first."""
    said = kdump(root, "undo", "--format", "jsonl", *directory.log_dirs)
    return said.of_type("change")


def facts(folder: Path) -> Iterator[tuple[str, Facts]]:
    """What makes up each file below a folder, but for kept originals and locks: their times, too, but for folders."""
    for path in sorted(folder.rglob("*")):
        if path.name == names.LOCK or path.name.startswith(place.PREFIX):
            continue
        info = path.lstat()
        made: Facts = (oct(info.st_mode), info.st_uid, info.st_gid)
        if path.is_symlink():
            made += (os.readlink(path),)
        elif path.is_file():
            # All partitions of a log directory share its checkpoints, which a broker writes anew every few seconds:
            # a change has lines of it.
            is_shared = path.name in names.OFFSET_CHECKPOINTS
            data = path.read_bytes().removesuffix(b"\n") if is_shared else path.read_bytes()
            made += (len(data), 0 if is_shared else info.st_mtime_ns, info.st_nlink, blake2b(data).hexdigest()[:16])
        yield str(path.relative_to(folder)), made


class Sequence:
    """A copy of log directories, the commands that were run on it in their order, and what each change began with."""

    def __init__(self, directory: Directory, random: Random) -> None:
        self._random = random
        self._directory = directory
        self.root = copy_of(directory)
        self._before: dict[tuple[str, str], dict[str, Facts]] = {}
        self.said: list[str] = []

    def step(self) -> Iterator[str]:
        """One more command, and what is wrong with how it ends."""
        known = changes(self.root, self._directory)
        what = self._random.choice(STEPS)
        if what == "append":
            yield from self._ends_well(self._append())
        elif what == "roll":
            yield from self._ends_well(kdump(self.root, "roll", self._partition(), "--now", str(NOW)))
        elif what == "undo" and known:
            yield from self._undo(self._random.choice(known))
        elif what in REPAIRS:
            yield from self._repair(what, set(map(_key, known)))

    def _repair(self, repair: str, known: set[tuple[str, str]]) -> Iterator[str]:
        before = dict(by_partition(self.root))
        yield from self._ends_well(apply(self.root, self._directory, repair))
        for change in changes(self.root, self._directory):
            if _key(change) not in known:
                self._before[_key(change)] = before

    def _undo(self, change: Row) -> Iterator[str]:
        before = dict(by_partition(self.root))
        said = kdump(self.root, "undo", change["path"], "--change", change["id"], "--apply")
        yield from self._ends_well(said)
        after = dict(by_partition(self.root))
        if said.code:
            wanted = before
        else:
            wanted = {path: each for path, each in before.items() if not _is_of(path, change)}
            wanted |= {path: each for path, each in self._before[_key(change)].items() if _is_of(path, change)}
            undone = next(each for each in changes(self.root, self._directory) if _undoes(each, change))
            self._before[_key(undone)] = before
        yield from (f"{said} ({said.code}): {each}" for each in differences(wanted, after))

    def _append(self) -> Said:
        lines = "".join(f"k{n}:new {n}\n" for n in range(self._random.randrange(1, 30)))
        options = ("--format", "lines", "--key-separator", ":", "--now", str(NOW), "--batch-records", "3")
        return kdump(self.root, "append", self._partition(), *options, stdin=lines)

    def _partition(self) -> str:
        found = sorted(self.root.glob("disk-*/*-[0-9]"))
        names = [str(path.relative_to(self.root)) for path in found if not path.name.startswith("__cluster")]
        return self._random.choice(names)

    def _ends_well(self, said: Said) -> Iterator[str]:
        self.said.append(f"{said} ({said.code})")
        if said.code not in (0, 1, 3, 4) or "Traceback" in said.err:
            yield f"{said} exits with {said.code}: {said.err}"
        if said.code == 3 and not said.err and not said.out:
            yield f"{said} exits with 3, without a word"


def _key(change: Row) -> tuple[str, str]:
    return change["id"], change["path"]


def _undoes(change: Row, other: Row) -> bool:
    return bool(change["undoes"] == other["id"] and change["path"] == other["path"])


def _is_of(path: str, change: Row) -> bool:
    """Whether a path is in the partition directory of a change, or a line of a checkpoint about it."""
    return path.startswith((f"{change['path']}/", f"{change['path']} in "))


def by_partition(folder: Path) -> Iterator[tuple[str, Facts]]:
    """The facts, with the lines of checkpoints by the partitions that they are about."""
    for path, found in facts(folder):
        file = folder / path
        if file.name not in names.OFFSET_CHECKPOINTS:
            yield path, found
            continue
        for line in file.read_text("latin1").splitlines()[2:]:
            topic, _, offset = line.partition(" ")
            partition, _, offset = offset.partition(" ")
            yield f"{file.parent.relative_to(folder)}/{topic}-{partition} in {file.name}", (offset,)

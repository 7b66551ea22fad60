"""A log directory of a seed and a number, with several faults in each of its partitions; and what is in it."""

from __future__ import annotations

import os
import random
import shutil
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from tests.campaigns.other_file_faults import Partition
from tests.campaigns.partition_faults import OFFSET_CHECKPOINTS, put_fault, put_log_directory_fault
from tests.campaigns.partition_templates import build
from tests.campaigns.valid_batches import Held, copies_in, held_by

MOST_FAULTS = 6
TEMPLATES = 24
LOG_DIRECTORY = "data"

File = tuple[object, ...]
"""Mode, owner, time of change (ns) and content of a file; of a directory its mode and owner."""
Tree = dict[str, File]


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
        is_checkpoint = path.rpartition("/")[2] in OFFSET_CHECKPOINTS
        if is_undone and is_checkpoint and one and other and _lines(one) == _lines(other):
            continue
        if one is None or other is None:
            yield f"{path} is {'new' if one is None else 'gone'}"
            continue
        names = ("mode", "owner", "group", "time", "content")
        what = [name for name, was, is_now in zip(names, one, other, strict=False) if was != is_now]
        yield f"{path}: other {', '.join(what)}"


def _lines(file: File) -> File:
    """Return a checkpoint without its time, and without the end of its last line."""
    *attributes, _, content = file
    assert isinstance(content, bytes)
    return (*attributes, content.removesuffix(b"\n"))

"""What may be on a disk after a power cut, of the events that a change asked for.

A file's content is sure to be there from its fsync on, a name from the fsync of its directory on. Of everything else
any part may be there, in any order; a write may be there up to any sector. Names that change together (a rename) do so.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import islice, product
from math import prod
from pathlib import Path
from typing import NamedTuple

from tests.campaigns.recording import Event, Names, Resize, Sync, Touch, Write

SECTOR = 512
ROOT = 0
MAX_CUTS = 9


@dataclass(frozen=True, slots=True)
class File:
    content: bytes
    modified: int  # ns


State = frozenset[tuple[str, File | None]]
"""The files below the root by their relative path; None: a directory."""


@dataclass(frozen=True)
class Disk:
    """Inodes and what names lead to them; a directory is an inode without a file."""

    files: Mapping[int, File]
    entries: Mapping[tuple[int, str], int]

    @classmethod
    def of(cls, root: Path) -> Disk:
        """The directory as it is now, all of it on the disk."""
        files: dict[int, File] = {}
        entries: dict[tuple[int, str], int] = {}
        for folder, folders, names in os.walk(root):
            parent = os.stat(folder).st_ino
            for name in (*folders, *names):
                info = os.stat(os.path.join(folder, name))
                entries[parent, name] = info.st_ino
            for name in names:
                path = Path(folder, name)
                info = path.stat()
                files[info.st_ino] = File(path.read_bytes(), info.st_mtime_ns)
        return cls(files, entries)

    def after(self, events: Sequence[Event]) -> Disk:
        """The disk once it has these events."""
        files, entries = dict(self.files), dict(self.entries)
        for event in events:
            if isinstance(event, Names):
                for folder, name, inode in event.entries:
                    if inode is None:
                        entries.pop((folder, name), None)
                    else:
                        entries[folder, name] = inode
                        if not event.is_directory:
                            files.setdefault(inode, File(b"", 0))
            elif not isinstance(event, Sync):
                files[event.inode] = changed(files.get(event.inode, File(b"", 0)), event)
        return Disk(files, entries)

    def state(self, root: int) -> State:
        """What can be reached from the root."""
        found: set[tuple[str, File | None]] = set()
        children: dict[int, list[tuple[str, int]]] = {}
        for (folder, name), inode in self.entries.items():
            children.setdefault(folder, []).append((name, inode))
        pending = [(root, "")]
        while pending:
            folder, path = pending.pop()
            for name, inode in children.get(folder, ()):
                file = self.files.get(inode)
                found.add((path + name, file))
                if file is None:
                    pending.append((inode, f"{path}{name}/"))
        return frozenset(found)


@lru_cache(maxsize=1 << 14)
def changed(file: File, event: Write | Resize | Touch) -> File:
    """A file after an event."""
    if isinstance(event, Touch):
        return File(file.content, event.modified)
    content = file.content
    if isinstance(event, Resize):
        content = content[: event.size].ljust(event.size, b"\0")
    elif event.data:
        content = content.ljust(event.position, b"\0")
        content = content[: event.position] + event.data + content[event.position + len(event.data) :]
    return File(content, event.modified)


class Pending:
    """Which of the events that were asked for need not be on the disk yet: what each of them still has to be synced."""

    def __init__(self) -> None:
        self._unsynced: list[set[int]] = []

    def ask(self, event: Event) -> None:
        """One more event was asked for."""
        if isinstance(event, Sync):
            for unsynced in self._unsynced:
                unsynced.discard(event.inode)
            self._unsynced.append(set())
        elif isinstance(event, Names):
            self._unsynced.append({folder for folder, _, _ in event.entries})
        else:
            self._unsynced.append({event.inode})

    def first(self) -> int:
        """The number of the first event that need not be there, or of all events."""
        return next((at for at, unsynced in enumerate(self._unsynced) if unsynced), len(self._unsynced))

    def is_sure(self, number: int) -> bool:
        """Whether an event is on the disk for certain."""
        return not self._unsynced[number]


NOTHING, ALL = 0, 1


class Part(NamedTuple):
    """What is there of an event: NOTHING, ALL, or of a write the part with some other number."""

    number: int
    event: Event | None


def parts_of(event: Event) -> list[Part]:
    """What may be there of an event that is not sure: nothing, all, or of a write what lies before some sector."""
    found = [Part(NOTHING, None), Part(ALL, event)]
    if isinstance(event, Write):
        sectors = range(SECTOR - event.position % SECTOR, len(event.data), SECTOR)
        step = max(1, len(sectors) // MAX_CUTS)
        found += [Part(n, replace(event, data=event.data[:at])) for n, at in enumerate(sectors[::step], ALL + 1)]
    return found


def crash_states(
    before: Disk, events: Sequence[Event], root: int, most: int, numbers: random.Random
) -> Iterator[tuple[int, State | None]]:
    """Every state that a power cut after any number of the events may leave, with that number.

    Where more than `most` combinations are possible at one point, that many of them are drawn, besides those in which
    one event alone is missing, or there. None stands for a state that an earlier power cut left as well.
    """
    met: set[bytes] = set()
    pending = Pending()
    parts = [parts_of(event) for event in events]
    for count in range(len(events) + 1):
        if count:
            pending.ask(events[count - 1])
        sure = pending.first()
        disk = before.after(events[:sure])  # what all of them have
        choices = [[Part(ALL, events[at])] if pending.is_sure(at) else parts[at] for at in range(sure, count)]
        for chosen in _combinations(choices, most, numbers):
            key = (bytes((ALL,)) * sure + bytes(part.number for part in chosen)).rstrip(bytes((NOTHING,)))
            if key in met:
                yield count, None
                continue
            met.add(key)
            yield count, disk.after([part.event for part in chosen if part.event is not None]).state(root)


def _combinations(choices: Sequence[Sequence[Part]], most: int, numbers: random.Random) -> Iterator[Sequence[Part]]:
    if prod(map(len, choices)) <= most:
        yield from product(*choices)
        return
    nothing = [options[0] for options in choices]
    everything = [options[1] if len(options) > 1 else options[0] for options in choices]
    for at, options in enumerate(choices):
        for option in options:
            yield [*nothing[:at], option, *nothing[at + 1 :]]
            yield [*everything[:at], option, *everything[at + 1 :]]
    for _ in islice(iter(int, 1), most):
        yield [options[int(numbers.random() * len(options))] for options in choices]


def state_of(root: Path) -> State:
    """The state that a directory is in."""
    return frozenset(_entries(str(root), ""))


def _entries(folder: str, below: str) -> Iterator[tuple[str, File | None]]:
    for entry in os.scandir(folder):
        if entry.is_dir():
            yield below + entry.name, None
            yield from _entries(entry.path, f"{below}{entry.name}/")
        else:
            with open(entry.path, "rb", buffering=0) as file:
                yield below + entry.name, File(file.read(), entry.stat().st_mtime_ns)


def put(state: State, root: Path) -> None:
    """Make the directory, which is empty, what the state says."""
    for path, file in sorted(state, key=lambda each: each[0]):  # a directory before what is in it
        at = os.path.join(root, path)
        if file is None:
            os.mkdir(at)
            continue
        with open(at, "wb", buffering=0) as new:
            new.write(file.content)
        os.utime(at, ns=(file.modified, file.modified))

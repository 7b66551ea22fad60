"""Faults of the files of a partition directory that are no logs."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from tests.campaigns.file_damages import Damaging, damage

DIGITS = 20
"""Those of a base offset in the name of a file."""
EXTRA_NAMES = (
    "x.swap", "x.log.tmp", "notes.txt", f"{'9' * DIGITS}.index", f"{0:0{DIGITS}d}.txnindex",
    "leader-epoch-checkpoint.tmp", "partition.metadata.tmp", f"{5:0{DIGITS}d}.snapshot.deleted",
)  # fmt: skip


class Partition(NamedTuple):
    """The partition directory that gets a fault, and another one, whose batches are foreign to it."""

    path: Path
    other: Path

    def files(self, ending: str = "") -> list[Path]:
        """Return its files whose names end so, in order."""
        return sorted(path for path in self.path.iterdir() if path.name.endswith(ending) and path.is_file())


Fault = Callable[[Partition, random.Random], str | None]
"""Puts a fault into a partition; what it is, or None where the partition has nothing for it."""


def other_base(base: str, chance: random.Random) -> str:
    """Return another one: a number that fits into a Java long."""
    offset = int(base) + chance.choice((1, 2, 10, 1000, -1, 1 << 32))
    return f"{offset if 0 <= offset < 1 << 63 else 7:0{DIGITS}d}"


def some_file(partition: Partition, chance: random.Random) -> str | None:
    """Any damage of any file."""
    files = tuple(partition.files())
    return damage(Damaging(partition.path.parent, (partition.path,), files, ()), chance) if files else None


def wrong_index(partition: Partition, chance: random.Random) -> str | None:
    paths = [path for ending in (".index", ".timeindex", ".txnindex") for path in partition.files(ending)]
    if not paths:
        return None
    path = chance.choice(paths)
    content = bytearray(path.read_bytes())
    words = chance.choice(("missing", "empty", "noise", "zeros after it", "odd size", "entry", "another's"))
    match words:
        case "missing":
            path.unlink()
            return f"{path.name}: missing"
        case "empty":
            content = bytearray()
        case "noise":
            content = bytearray(chance.randbytes(len(content) or 24))
        case "zeros after it":
            content += bytes(chance.choice((8, 12, 24, 1200)))
        case "odd size":
            content += b"\1\2\3"
        case "entry" if content:
            content[chance.randrange(len(content))] = chance.randrange(256)
        case _:
            content = bytearray(chance.choice([each for each in paths if each.suffix == path.suffix]).read_bytes())
    path.write_bytes(content)
    return f"{path.name}: {words}"


def wrong_snapshot(partition: Partition, chance: random.Random) -> str | None:
    paths = partition.files(".snapshot")
    if not paths:
        return None
    path = chance.choice(paths)
    words = chance.choice(("missing", "empty", "noise", "another offset"))
    if words == "missing":
        path.unlink()
    elif words == "another offset":
        shutil.copy2(path, partition.path / f"{other_base(path.stem, chance)}.snapshot")
    else:
        path.write_bytes(chance.randbytes(60) if words == "noise" else b"")
    return f"{path.name}: {words}"


def wrong_epochs(partition: Partition, chance: random.Random) -> str | None:
    path = partition.path / "leader-epoch-checkpoint"
    if not path.exists():
        return None
    lines = path.read_bytes().split(b"\n")
    words = chance.choice(("missing", "empty", "noise", "another entry", "entry missing", "offsets"))
    match words:
        case "missing":
            path.unlink()
        case "empty":
            path.write_bytes(b"")
        case "noise":
            path.write_bytes(chance.randbytes(20))
        case "another entry":
            entries = [*lines[2:-1], b"%d %d" % (chance.randint(0, 12), chance.randint(0, 40))]
            path.write_bytes(b"\n".join((lines[0], b"%d" % len(entries), *entries, b"")))
        case "entry missing":
            path.write_bytes(b"\n".join((lines[0], b"%d" % max(0, len(lines) - 4), *lines[3:])))
        case _:
            moved = [line.split(b" ")[0] + b" %d" % chance.randint(0, 60) for line in lines[2:-1]]
            path.write_bytes(b"\n".join((*lines[:2], *moved, b"")))
    return words


def wrong_metadata(partition: Partition, chance: random.Random) -> str | None:
    path, other = partition.path / "partition.metadata", partition.other / "partition.metadata"
    words = chance.choice(("missing", "empty", "noise", "of another topic", "version 7"))
    if words == "missing":
        path.unlink(missing_ok=True)
    elif words == "of another topic" and other.exists():
        shutil.copyfile(other, path)
    else:
        contents = {"noise": chance.randbytes(30), "version 7": b"version: 7\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ\n"}
        path.write_bytes(contents.get(words, b""))
    return words


def extra_files(partition: Partition, chance: random.Random) -> str | None:
    name = chance.choice(EXTRA_NAMES)
    path = partition.path / name
    if path.exists():
        return None
    path.write_bytes(chance.choice((b"", bytes(20), chance.randbytes(40))))
    return f"{name} made"

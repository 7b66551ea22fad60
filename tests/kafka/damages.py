"""Random damages of log directories, as disks, people and crashes make them. All follow from a seed."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

Damage = Callable[[Path, Random], None]


def _flip(path: Path, random: Random) -> None:
    content = bytearray(path.read_bytes())
    if content:
        content[random.randrange(len(content))] ^= 1 << random.randrange(8)
    path.write_bytes(content)


def _cut(path: Path, random: Random) -> None:
    with path.open("r+b") as file:
        file.truncate(random.randrange(max(1, path.stat().st_size)))


def _empty(path: Path, random: Random) -> None:
    with path.open("r+b") as file:
        file.truncate(0)


def _zero(path: Path, random: Random) -> None:
    size = path.stat().st_size
    start = random.randrange(max(1, size))
    with path.open("r+b") as file:
        file.seek(start)
        file.write(bytes(min(random.randrange(1, 2000), size - start)))


def _add_noise(path: Path, random: Random) -> None:
    with path.open("ab") as file:
        file.write(random.randbytes(random.randrange(1, 300)))


def _add_zeros(path: Path, random: Random) -> None:
    with path.open("ab") as file:
        file.write(bytes(random.randrange(1, 5000)))


def _repeat_end(path: Path, random: Random) -> None:
    content = path.read_bytes()
    with path.open("ab") as file:
        file.write(content[-random.randrange(1, 400) :])


def damage_bytes(path: Path, random: Random) -> None:
    """Damage the content of a file as disks and crashes do; nothing if it is empty."""
    if path.stat().st_size:
        random.choice((*[_flip] * 6, *[_cut] * 3, _zero, _add_noise, _add_zeros, _repeat_end))(path, random)


def _remove(path: Path, random: Random) -> None:
    path.unlink()


def _words(path: Path, random: Random) -> None:
    path.write_bytes(b"not a number\n")


def _drop_a_line(path: Path, random: Random) -> None:
    lines = path.read_bytes().splitlines(keepends=True)
    if lines:
        lines.pop(random.randrange(len(lines)))
    path.write_bytes(b"".join(lines))


_BYTES: Sequence[Damage] = (_flip, _cut, _empty, _zero, _add_noise, _add_zeros, _remove)
_TEXT: Sequence[Damage] = (_flip, _cut, _empty, _words, _drop_a_line, _remove, _add_noise)


@dataclass(frozen=True, slots=True)
class Kind:
    """Files of one kind, what may happen to them, and whether a start of the broker can take several such damages."""

    pattern: str
    damages: Sequence[Damage]
    mild: bool


_KINDS = (
    Kind("*.log", (*_BYTES, _repeat_end), mild=True),
    Kind("*.log", (*_BYTES, _repeat_end), mild=True),
    Kind("*.index", _BYTES, mild=True),
    Kind("*.timeindex", _BYTES, mild=True),
    Kind("*.txnindex", _BYTES, mild=True),
    Kind("*.snapshot", _BYTES, mild=True),
    Kind("leader-epoch-checkpoint", _TEXT, mild=False),
    Kind("partition.metadata", _TEXT, mild=False),
)

_OF_METADATA = (
    Kind("*.log", (*_BYTES, _repeat_end), mild=False),
    Kind("*.log", (*_BYTES, _repeat_end), mild=False),
    Kind("*.checkpoint", _BYTES, mild=False),
    Kind("*.index", _BYTES, mild=False),
    Kind("*.timeindex", _BYTES, mild=False),
    Kind("*.snapshot", _BYTES, mild=False),
    Kind("leader-epoch-checkpoint", _TEXT, mild=False),
    Kind("partition.metadata", _TEXT, mild=False),
    Kind("quorum-state", _TEXT, mild=False),
)
"""What may happen to the cluster's metadata log, on which all others depend."""

_OF_DIRECTORIES = (
    "recovery-point-offset-checkpoint",
    "log-start-offset-checkpoint",
    "replication-offset-checkpoint",
    "cleaner-offset-checkpoint",
    "meta.properties",
    "bootstrap.checkpoint",
)

_AT_ONCE = 4

METADATA = "__cluster_metadata-0"


@dataclass(frozen=True, slots=True)
class Damaged:
    """What was done: to which file, and how."""

    path: Path
    how: str


def damage(log_dirs: Sequence[Path], random: Random, most: int) -> list[Damaged]:
    """Damage log directories in one severe way, or in up to `most` mild ones in different partitions."""
    roll = random.random()
    if roll < 0.06:
        return [_damage_a_directory(random.choice(log_dirs), random)]
    if roll < 0.12:
        return [_put_in_the_way(log_dirs, random)]
    if roll < 0.14:
        return [_unmount(random.choice(log_dirs), random)]
    folders = [path for log_dir in log_dirs for path in sorted(log_dir.iterdir()) if path.is_dir()]
    metadata = [path for path in folders if path.name == METADATA]
    if roll < 0.24:
        return list(_damage_files(metadata, random, _OF_METADATA, 1))
    partitions = [path for path in folders if path not in metadata]
    random.shuffle(partitions)
    if roll < 0.4:
        return list(_damage_files(partitions, random, [kind for kind in _KINDS if not kind.mild], 1))
    return list(_damage_files(partitions, random, [kind for kind in _KINDS if kind.mild], min(most, _AT_ONCE)))


def _damage_files(partitions: Sequence[Path], random: Random, kinds: Sequence[Kind], number: int) -> Iterator[Damaged]:
    for partition in partitions:
        there = [kind for kind in kinds if _files(partition, kind)]
        if not there:
            continue
        kind = random.choice(there)
        files = _files(partition, kind)
        # The last segment is where brokers look.
        path = files[-1] if random.random() < 0.5 else random.choice(files)
        how = random.choice(kind.damages)
        how(path, random)
        yield Damaged(path, how.__name__.strip("_"))
        number -= 1
        if not number:
            return


def _files(partition: Path, kind: Kind) -> list[Path]:
    return sorted(path for path in partition.glob(kind.pattern) if path.stat().st_size)


def _damage_a_directory(log_dir: Path, random: Random) -> Damaged:
    path = log_dir / random.choice(_OF_DIRECTORIES)
    if not path.exists():
        path.write_bytes(b"")
    how = random.choice(_TEXT)
    how(path, random)
    return Damaged(path, how.__name__.strip("_"))


def _unmount(log_dir: Path, random: Random) -> Damaged:
    """A disk that is not mounted: its mount point is empty, or not there either."""
    shutil.rmtree(log_dir)
    if random.random() < 0.5:
        return Damaged(log_dir, "gone")
    log_dir.mkdir()
    return Damaged(log_dir, "not mounted")


def _put_in_the_way(log_dirs: Sequence[Path], random: Random) -> Damaged:
    """A file or directory that does not belong where it is."""
    log_dir = random.choice(log_dirs)
    partition = random.choice([path for path in sorted(log_dir.iterdir()) if (path / "partition.metadata").exists()])
    names = ("abc.log", "00000000000000000007.log.cleaned", "00000000000000000007.index", "notes.txt", "x")
    name = random.choice(names)
    if name == "x":
        path = log_dir / random.choice(["notapartition", "lost+found", "a-b-", ".hidden", f"{partition.name}.bak"])
        path.mkdir()
    else:
        path = partition / name
        path.write_bytes(random.randbytes(24))
    return Damaged(path, "put there")

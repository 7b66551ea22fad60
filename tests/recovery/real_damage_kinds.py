"""Damages of a broker's files: bits, lengths, names, whole files; and the small files wrong in every way."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from kdump.formats import names
from kdump.formats.names import parse_file_name

Change = Callable[[Path, random.Random], object]


class Damage(NamedTuple):
    """What is done to a file (its path below the disk); `seed` decides where in it."""

    kind: str
    disk: str
    file: str
    seed: int

    def apply(self, disk: Path) -> None:
        """Damage the file on this copy of the disk."""
        _CHANGES[self.kind.partition(" ")[2]](disk / self.file, random.Random(self.seed))

    def __str__(self) -> str:
        return f"{self.kind}: {self.disk}/{self.file} (seed {self.seed})"


def _flip(path: Path, chance: random.Random) -> None:
    data = bytearray(path.read_bytes())
    if data:
        at = chance.randrange(_used(data))
        data[at] ^= 1 << chance.randrange(8)
    path.write_bytes(data)


def _used(data: bytes | bytearray) -> int:
    """Mostly where something is written."""
    return min(len(data), len(bytes(data).rstrip(b"\0")) + 24)


def _cut(path: Path, chance: random.Random) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: chance.randrange(_used(data) + 1)])


def _zeros(path: Path, chance: random.Random) -> None:
    data = bytearray(path.read_bytes())
    at = chance.randrange(_used(data) + 1)
    size = chance.choice((1, 8, 12, 61, 300, 4096))
    data[at : at + size] = bytes(len(data[at : at + size]))
    path.write_bytes(data)


def _noise(path: Path, chance: random.Random) -> None:
    data = bytearray(path.read_bytes())
    at = chance.randrange(_used(data) + 1)
    size = len(data[at : at + chance.choice((1, 8, 61, 300))])
    data[at : at + size] = chance.randbytes(size)
    path.write_bytes(data)


def _longer(path: Path, chance: random.Random) -> None:
    size = chance.choice((1, 8, 12, 61, 500))
    path.write_bytes(path.read_bytes() + (bytes(size) if chance.random() < 0.5 else chance.randbytes(size)))


def _delete(path: Path, _: random.Random) -> None:
    path.unlink()


def _empty(path: Path, _: random.Random) -> None:
    path.write_bytes(b"")


def _directory(path: Path, _: random.Random) -> None:
    path.unlink(missing_ok=True)
    path.mkdir()


def _alike(path: Path, chance: random.Random) -> Path:
    others = sorted(other for other in path.parent.iterdir() if other.suffix == path.suffix and other != path)
    return chance.choice(others) if others else path


def _swap(path: Path, chance: random.Random) -> None:
    other = _alike(path, chance)
    here, there = path.read_bytes(), other.read_bytes()
    path.write_bytes(there)
    other.write_bytes(here)


def _copy_over(path: Path, chance: random.Random) -> None:
    other = _alike(path, chance)
    if other != path:
        shutil.copy(other, path)


def _new_name(path: Path, chance: random.Random) -> Path:
    offset = parse_file_name(path.name).offset
    if offset is None:
        return path.with_name(path.name + chance.choice((".tmp", ".bak", "")))
    if chance.random() < 0.5:
        return path.with_name(path.name + chance.choice((".swap", ".cleaned", ".deleted")))
    offset = max(0, offset + chance.choice((-7, -1, 1, 5, 100_000)))
    return path.with_name(f"{offset:020}{path.suffix}")


def _rename(path: Path, chance: random.Random) -> None:
    path.rename(_new_name(path, chance))


def _duplicate(path: Path, chance: random.Random) -> None:
    target = _new_name(path, chance)
    if target != path:
        shutil.copy(path, target)


def _lines(change: Callable[[list[str]], list[str]]) -> Change:
    def apply(path: Path, _: random.Random) -> None:
        lines = change(path.read_text().splitlines() if path.exists() else [])
        path.write_text("".join(f"{line}\n" for line in lines))

    return apply


def _text(content: str | bytes) -> Change:
    data = content.encode() if isinstance(content, str) else content
    return lambda path, _: path.write_bytes(data)


def _field(line: int, number: int, value: str) -> Change:
    """Give a field of a line another value."""

    def change(lines: list[str]) -> list[str]:
        if len(lines) > line:
            fields = lines[line].split(" ")
            if len(fields) > -number if number < 0 else len(fields) > number:
                fields[number] = value
            lines[line] = " ".join(fields)
        return lines

    return _lines(change)


_RANDOM: dict[str, Change] = {
    "bit flipped": _flip,
    "cut": _cut,
    "zeros": _zeros,
    "noise": _noise,
    "longer": _longer,
    "deleted": _delete,
    "emptied": _empty,
    "swapped": _swap,
    "another's content": _copy_over,
    "renamed": _rename,
    "duplicated": _duplicate,
}

_COMMON: dict[str, Change] = {
    "missing": _delete,
    "empty": _empty,
    "binary": _text(bytes(range(128, 256))),
    "words": _text("this is not\nwhat it should be\n"),
    "directory": _directory,
    "zero bytes": _text(bytes(40)),
    "blank line": _lines(lambda lines: [*lines, ""]),
}

_CHECKPOINT: dict[str, Change] = {
    "version 1": _field(0, 0, "1"),
    "version no number": _field(0, 0, "x"),
    "version only": _lines(lambda lines: lines[:1]),
    "count too high": _field(1, 0, "99"),
    "count negative": _field(1, 0, "-1"),
    "count no number": _field(1, 0, "x"),
    "line missing": _lines(lambda lines: lines[:-1]),
    "line twice": _lines(lambda lines: [*lines, *lines[-1:]]),
    "last no number": _field(2, -1, "x"),
    "last negative": _field(2, -1, "-5"),
    "last too large": _field(2, -1, "99999999999999999999"),
    "last huge": _field(2, -1, "9000000000000000000"),
    "before last no number": _field(2, -2, "x"),
    "before last negative": _field(2, -2, "-5"),
    "fields missing": _lines(lambda lines: [*lines[:-1], "x"]),
    "field more": _lines(lambda lines: [*lines[:-1], f"{lines[-1]} 7"]),
}

_METADATA: dict[str, Change] = {
    "first line only": _lines(lambda lines: lines[:1]),
    "second line only": _lines(lambda lines: lines[1:]),
    "version no number": _lines(lambda lines: ["version: x", *lines[1:]]),
    "version negative": _lines(lambda lines: ["version: -1", *lines[1:]]),
    "version 7": _lines(lambda lines: ["version: 7", *lines[1:]]),
    "id missing": _lines(lambda lines: [*lines[:1], "topic_id:"]),
    "id zero": _lines(lambda lines: [*lines[:1], "topic_id: AAAAAAAAAAAAAAAAAAAAAA"]),
    "id other": _lines(lambda lines: [*lines[:1], "topic_id: Mjp4uJTdSRWrL4NkX0rMXQ"]),
    "id short": _lines(lambda lines: [*lines[:1], "topic_id: Mjp4uJTd"]),
    "id long": _lines(lambda lines: [*lines[:1], "topic_id: Mjp4uJTdSRWrL4NkX0rMXQMjp4uJTdSRWrL4NkX0rMXQ"]),
    "id bad": _lines(lambda lines: [*lines[:1], "topic_id: !!!!uJTdSRWrL4NkX0rMXQ"]),
    "one space": _lines(lambda lines: [line.replace(": ", ":") for line in lines]),
}


def _property(name: str, value: str | None) -> Change:
    def change(lines: list[str]) -> list[str]:
        kept = [line for line in lines if not line.startswith(f"{name}=")]
        return kept if value is None else [*kept, f"{name}={value}"]

    return _lines(change)


_PROPERTIES: dict[str, Change] = {
    "version missing": _property("version", None),
    "version 0": _property("version", "0"),
    "version 2": _property("version", "2"),
    "version no number": _property("version", "x"),
    "node missing": _property("node.id", None),
    "node other": _property("node.id", "9"),
    "node no number": _property("node.id", "x"),
    "cluster missing": _property("cluster.id", None),
    "cluster other": _property("cluster.id", "Mjp4uJTdSRWrL4NkX0rMXQ"),
    "directory missing": _property("directory.id", None),
    "directory bad": _property("directory.id", "x"),
    "directory reserved": _property("directory.id", "AAAAAAAAAAAAAAAAAAAAAQ"),
    "bad escape": _lines(lambda lines: [*lines, "x=\\u00zz"]),
}

_SHUTDOWN: dict[str, Change] = {
    "epoch missing": _text('{"version":0}'),
    "epoch no number": _text('{"version":0,"brokerEpoch":"x"}'),
    "made": _text('{"version":0,"brokerEpoch":5}'),
}

_NOBODY = '"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAAAA"'
_QUORUM: dict[str, Change] = {
    "leader missing": _text('{"leaderEpoch":1,"votedId":1,"data_version":1}'),
    "version 5": _text(f'{{"leaderId":1,"leaderEpoch":1,"votedId":1,{_NOBODY},"data_version":5}}'),
    "no json": _text("{"),
    "node other": _text(f'{{"leaderId":9,"leaderEpoch":1,"votedId":-1,{_NOBODY},"data_version":1}}'),
}

_CHANGES = _RANDOM | _COMMON | _CHECKPOINT | _METADATA | _PROPERTIES
_CHANGES |= {f"shutdown {name}": change for name, change in _SHUTDOWN.items()}
_CHANGES |= {f"quorum {name}": change for name, change in _QUORUM.items()}
_CHANGES |= {f"meta {name}": change for name, change in _PROPERTIES.items()}
_CHANGES |= {f"id {name}": change for name, change in _METADATA.items()}


def every_small_file(folder: Path) -> Iterator[Damage]:
    """Every damage of every small file; the disks with the partitions take turns."""
    disks = sorted((path for path in folder.iterdir() if path.name != "disk0"), key=lambda path: int(path.name[4:]))
    number = 0
    families = (
        (names.LEADER_EPOCH_CHECKPOINT, _CHECKPOINT | _COMMON, ""),
        (names.PARTITION_METADATA, _METADATA | _COMMON, "id "),
        (names.RECOVERY_POINT_CHECKPOINT, _CHECKPOINT | _COMMON, ""),
        (names.LOG_START_CHECKPOINT, _CHECKPOINT | _COMMON, ""),
        (names.REPLICATION_CHECKPOINT, _CHECKPOINT | _COMMON, ""),
        (names.CLEANER_CHECKPOINT, _CHECKPOINT | _COMMON, ""),
        (names.META_PROPERTIES, _PROPERTIES | _COMMON, "meta "),
        (names.CLEAN_SHUTDOWN, _SHUTDOWN | _COMMON, "shutdown "),
        (names.QUORUM_STATE, _QUORUM | _COMMON, "quorum "),
        ("bootstrap.checkpoint", _COMMON, ""),
    )
    for name, changes, prefix in families:
        for change in changes:
            disk = disks[number % len(disks)]
            number += 1
            file = name
            kind = f"{prefix}{change}" if change not in _COMMON else change
            if name in (names.LEADER_EPOCH_CHECKPOINT, names.PARTITION_METADATA):
                file = f"{_partition(disk)}/{name}"
            elif name == names.QUORUM_STATE:
                disk, file = folder / "disk0", f"{names.CLUSTER_METADATA_DIR}/{name}"
            elif name == "bootstrap.checkpoint":
                disk = folder / "disk0"
            target = disk / file
            if not target.exists() and change in ("missing",):
                continue
            if not target.exists():  # a checkpoint without entries is not there
                continue
            yield Damage(f"{name} {kind}", disk.name, file, number)


def _partition(disk: Path) -> str:
    """A partition with leader epochs."""
    return min(path.name for path in disk.iterdir() if path.is_dir() and not path.name.startswith("__"))


_WEIGHTS = {
    names.LOG: 40, names.OFFSET_INDEX: 9, names.TIME_INDEX: 9, names.TXN_INDEX: 10, names.PRODUCER_SNAPSHOT: 10,
    names.LEADER_EPOCH_CHECKPOINT: 6, names.PARTITION_METADATA: 4, names.META_PROPERTIES: 1, names.CLEAN_SHUTDOWN: 1,
    **dict.fromkeys(names.OFFSET_CHECKPOINTS, 2),
}  # fmt: skip


def some(folder: Path, chance: random.Random, number: int) -> Iterator[Damage]:
    """Random damages of random files."""
    disks = sorted((path for path in folder.iterdir() if path.name != "disk0"), key=lambda path: int(path.name[4:]))
    for count in range(number):
        disk = disks[count % len(disks)]
        by_kind: dict[str, list[Path]] = {}
        for path in sorted(disk.rglob("*")):
            kind = parse_file_name(path.name).kind
            if not path.is_file() or kind not in _WEIGHTS or path.name.endswith(".tmp"):
                continue
            if kind not in names.INDEX_KINDS or path.stat().st_size or chance.random() < 0.3:
                by_kind.setdefault(kind, []).append(path)
        kinds = sorted(by_kind)
        kind = chance.choices(kinds, [_WEIGHTS[kind] for kind in kinds])[0]
        path = chance.choice(by_kind[kind])
        change = chance.choice(sorted(_RANDOM))
        yield Damage(f"{kind} {change}", disk.name, str(path.relative_to(disk)), chance.randrange(1 << 30))

"""Damages of files of a log directory, drawn by chance: what a disk, a crash or somebody with good intent may leave."""

from __future__ import annotations

import random
import shutil
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

TIME_ENTRY = struct.Struct(">qi")
FAR_FUTURE = 1 << 44
"""A timestamp (ms) in the year 2527."""
MOST_NOISE = 200


@dataclass(frozen=True)
class Damaging:
    """Log directories and the files in them, as they were before the first damage: what is drawn hangs on no other."""

    root: Path
    partitions: tuple[Path, ...]
    files: tuple[Path, ...]
    checkpoints: tuple[Path, ...]

    @classmethod
    def of(cls, root: Path) -> Damaging:
        """Look at the log directories in a folder."""
        files = tuple(sorted(path for path in root.glob("*/*/*") if path.is_file()))
        checkpoints = tuple(sorted(path for path in root.glob("*/*") if path.is_file()))
        return cls(root, tuple(sorted({path.parent for path in files})), files, checkpoints)

    def drawn(self, chance: random.Random) -> Path | None:
        """A file of a partition, or now and then one of a log directory."""
        if self.checkpoints and (not self.partitions or chance.random() < 0.15):
            return chance.choice(self.checkpoints)
        if not self.partitions:
            return None
        partition = chance.choice(self.partitions)
        own = [path for path in self.files if path.parent == partition]
        kinds = sorted({path.suffix or path.name for path in own})
        kind = ".log" if ".log" in kinds and chance.random() < 0.4 else chance.choice(kinds)
        return chance.choice([path for path in own if (path.suffix or path.name) == kind])

    def of_kind(self, kind: str, chance: random.Random) -> Path | None:
        """A file of this kind in any partition."""
        found = [path for path in self.files if path.suffix == kind]
        return chance.choice(found) if found else None


def damage(files: Damaging, chance: random.Random) -> str:
    """Damage something, and say what."""
    way = chance.choice(WAYS)
    path = files.drawn(chance)
    if path is None:
        return "nothing there"
    if way in (_index_from_elsewhere, _far_future):
        path = files.of_kind(
            chance.choice((".index", ".timeindex")) if way is _index_from_elsewhere else ".timeindex", chance
        )
    elif way is _wrong_line:
        path = chance.choice(files.checkpoints) if files.checkpoints else None
    if path is None or not path.exists():
        return f"{way.__name__}: nothing there"
    return f"{path.relative_to(files.root)}: {way(path, files, chance)}"


def _flip(path: Path, files: Damaging, chance: random.Random) -> str:
    content = bytearray(path.read_bytes())
    places = sorted(chance.randrange(8 * len(content)) for _ in range(chance.choice((1, 1, 2, 5)))) if content else []
    for bit in places:
        content[bit // 8] ^= 1 << bit % 8
    path.write_bytes(content)
    return f"bits {places} flipped"


def _zeros(path: Path, files: Damaging, chance: random.Random) -> str:
    return _overwritten(path, chance, bytes, "zeros")


def _noise(path: Path, files: Damaging, chance: random.Random) -> str:
    return _overwritten(path, chance, chance.randbytes, "noise")


def _overwritten(path: Path, chance: random.Random, made: Callable[[int], bytes], what: str) -> str:
    content = bytearray(path.read_bytes())
    if not content:
        return "empty as before"
    start = chance.randrange(len(content))
    stop = len(content) if chance.random() < 0.2 else min(len(content), start + chance.randint(1, MOST_NOISE))
    content[start:stop] = made(stop - start)
    path.write_bytes(content)
    return f"{what} in bytes {start} to {stop - 1}"


def _appended(path: Path, files: Damaging, chance: random.Random) -> str:
    more = chance.randbytes(chance.randint(1, MOST_NOISE)) if chance.random() < 0.5 else bytes(chance.randint(1, 4096))
    path.write_bytes(path.read_bytes() + more)
    return f"{len(more)} bytes of {'noise' if any(more) else 'zeros'} appended"


def _cut(path: Path, files: Damaging, chance: random.Random) -> str:
    content = path.read_bytes()
    keep = chance.randint(0, len(content))
    path.write_bytes(content[:keep])
    return f"cut to {keep} of {len(content)} bytes"


def _removed(path: Path, files: Damaging, chance: random.Random) -> str:
    path.unlink()
    return "removed"


def _emptied(path: Path, files: Damaging, chance: random.Random) -> str:
    path.write_bytes(b"")
    return "emptied"


def _swapped(path: Path, files: Damaging, chance: random.Random) -> str:
    """With another file of its kind."""
    others = [each for each in files.files if each.suffix == path.suffix and each != path]
    other = chance.choice(others) if others else path
    if other == path or not other.exists():
        return "swapped with none"
    own, content = path.read_bytes(), other.read_bytes()
    path.write_bytes(content)
    other.write_bytes(own)
    return f"swapped with {other.relative_to(files.root)}"


def _index_from_elsewhere(path: Path, files: Damaging, chance: random.Random) -> str:
    other = files.of_kind(path.suffix, chance)
    assert other is not None
    if other == path or not other.exists():
        return "index as before"
    shutil.copyfile(other, path)
    return f"replaced by {other.relative_to(files.root)}"


def _far_future(path: Path, files: Damaging, chance: random.Random) -> str:
    content = bytearray(path.read_bytes())
    count = len(content) // TIME_ENTRY.size
    if not count:
        return "no entries"
    at = chance.choice((0, count - 1, chance.randrange(count)))
    offset = TIME_ENTRY.unpack_from(content, at * TIME_ENTRY.size)[1]
    TIME_ENTRY.pack_into(content, at * TIME_ENTRY.size, FAR_FUTURE + chance.randrange(1000), offset)
    path.write_bytes(content)
    return f"entry {at} of {count} in the far future"


def _wrong_line(path: Path, files: Damaging, chance: random.Random) -> str:
    """One line of a checkpoint, or of another file of text, with another number in its end, or twice, or gone."""
    lines = path.read_bytes().split(b"\n")
    at = chance.randrange(len(lines))
    what = chance.choice(("number", "number", "number", "twice", "gone"))
    if what == "twice":
        lines.insert(at, lines[at])
    elif what == "gone":
        del lines[at]
    else:
        words = lines[at].split(b" ")
        words[-1] = b"%d" % chance.choice((0, 1, 7, 50, 100, 1000, 1 << 40, -1))
        lines[at] = b" ".join(words)
    path.write_bytes(b"\n".join(lines))
    return f"line {at}: {what if what != 'number' else lines[at].decode(errors='replace')}"


WAYS = (
    _flip, _flip, _zeros, _noise, _appended, _cut, _cut, _removed, _emptied, _swapped, _index_from_elsewhere,
    _far_future, _wrong_line,
)  # fmt: skip

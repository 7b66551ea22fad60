"""Random damages of one partition directory, most of them with checksums that still hold. All follow from a seed."""

from __future__ import annotations

import shutil
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from struct import Struct, pack, pack_into

from kdump.formats.batch import HEADER_SIZE, LOG_OVERHEAD
from kdump.formats.checksums import crc32c
from tests.kafka.damages import damage_bytes

_CONTROL = 0x20
_FRAME = Struct(">qi")
_V2 = {
    "base offset": (0, "q"), "size": (8, "i"), "epoch": (12, "i"), "magic": (16, "b"), "attributes": (21, "h"),
    "last offset delta": (23, "i"), "first timestamp": (27, "q"), "largest timestamp": (35, "q"),
    "producer": (43, "q"), "producer epoch": (51, "h"), "sequence": (53, "i"), "count": (57, "i"),
}  # fmt: skip
_LEGACY = {"offset": (0, "q"), "size": (8, "i"), "magic": (16, "b"), "attributes": (17, "b"), "timestamp": (18, "q")}
_LIMITS = {"b": 7, "h": 15, "i": 31, "q": 63}
_TXN_ENTRY = Struct(">hqqqq")
_EPOCHS = (
    "", "0\n", "0\n0\n", "1\n0\n", "0\n2\n0 0\n", "0\n1\n0 0\n\n", "0\n2\n5 0\n3 100\n", "0\n2\n0 100\n1 50\n",
    "0\n1\n0 -5\n", "0\n1\n-1 0\n", "0\n1\n0  0\n", "0\n1\n0 0 0\n", "0\n1\n0 0", "0\n1\n99999999999 0\n",
    "0\n1\n+0 +0\n", "0\n1\nx y\n", "0\n-1\n", "0\n1\n0 9223372036854775807\n", "0\n1\n\u0660 \u0661\n",
)  # fmt: skip

Entry = tuple[int, int, int]
"""Position, size and magic of a batch or message."""


def logs(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("*.log") if path.is_file() and path.stem.isdigit())


def entries(data: bytes | bytearray) -> list[Entry]:
    found, at = [], 0
    while at + 17 <= len(data):
        size = _FRAME.unpack_from(data, at)[1]
        if size < 14 or at + LOG_OVERHEAD + size > len(data):
            break
        found.append((at, LOG_OVERHEAD + size, data[at + 16]))
        at += LOG_OVERHEAD + size
    return found


def _sign(data: bytearray, entry: Entry) -> None:
    at, size, _ = entry
    if data[at + 16] >= 2:
        pack_into(">I", data, at + 17, crc32c(bytes(data[at + 21 : at + size])))
    else:
        pack_into(">I", data, at + 12, zlib.crc32(data[at + 16 : at + size]))


def _a_log(folder: Path, random: Random) -> tuple[Path, bytearray, list[Entry]]:
    path = random.choice(logs(folder))
    data = bytearray(path.read_bytes())
    return path, data, entries(data)


def _field(folder: Path, random: Random) -> None:
    path, data, found = _a_log(folder, random)
    entry = random.choice((found[0], found[-1], random.choice(found)))
    at, _, magic = entry
    name, (offset, kind) = random.choice(list((_V2 if magic >= 2 else _LEGACY).items()))
    field, most = Struct(f">{kind}"), 1 << _LIMITS[kind]
    old = field.unpack_from(data, at + offset)[0]
    values = [old + 1, old - 1, 0, -1, 1, 2, -most, most - 1, old * 2, old + random.randint(-1000, 1000)]
    values += [old ^ 1 << random.randrange(6) for _ in range(5)] if name == "attributes" else []
    values += [old + (1 << 31)] if kind == "q" else []
    field.pack_into(data, at + offset, max(-most, min(most - 1, random.choice(values))))
    if name != "size" and random.random() < 0.8:
        _sign(data, entry)
    path.write_bytes(data)


def _payload(folder: Path, random: Random) -> None:
    """A bit of the records, of a batch whose checksum is then that of what it has."""
    path, data, found = _a_log(folder, random)
    at, size, magic = entry = random.choice(found)
    first = at + (HEADER_SIZE if magic >= 2 else 18)
    data[random.randrange(min(first, at + size - 1), at + size)] ^= 1 << random.randrange(8)
    _sign(data, entry)
    path.write_bytes(data)


def _marker(folder: Path, random: Random) -> None:
    markers = [
        (path, entry)
        for path in logs(folder)
        for entry in entries(path.read_bytes())
        if entry[2] == 2 and path.read_bytes()[entry[0] + 22] & _CONTROL
    ]
    path, entry = random.choice(markers)
    data = bytearray(path.read_bytes())
    at, size, _ = entry
    place = random.randrange(at + HEADER_SIZE, at + size)
    data[place] = random.choice((0, 1, 2, 3, 255, data[place] ^ 1 << random.randrange(8)))
    _sign(data, entry)
    path.write_bytes(data)


def _order(folder: Path, random: Random) -> None:
    path, data, found = _a_log(folder, random)
    parts = [bytes(data[at : at + size]) for at, size, _ in found]
    rest = data[sum(map(len, parts)) :]
    at = random.randrange(len(parts))
    match random.randrange(4):
        case 0:
            parts.insert(at, parts[at])
        case 1:
            parts.pop(at)
        case 2:
            parts.append(parts[at])
        case _:
            parts[at : at + 3] = reversed(parts[at : at + 3])
    path.write_bytes(b"".join(parts) + rest)


def _bytes(folder: Path, random: Random) -> None:
    damage_bytes(random.choice([path for path in folder.iterdir() if path.is_file()]), random)


def _tail(folder: Path, random: Random) -> None:
    damage_bytes(random.choice(logs(folder)), random)


def _index(folder: Path, random: Random) -> None:
    path = random.choice(sorted(folder.glob("*index")))
    data = bytearray(path.read_bytes())
    width = 8 if path.suffix == ".index" else 12
    match random.randrange(6):
        case 0:
            path.unlink()
            return
        case 1:
            data.clear()
        case 2:
            data += bytes(random.randrange(1, width * 20))
        case 3:
            data += pack(">ii" if width == 8 else ">qi", 2**31 - 1, 2**31 - 1)
        case 4:
            data = bytearray(random.randbytes(width * 3))
        case _:
            data[:width], data[width : 2 * width] = data[width : 2 * width], data[:width]
    path.write_bytes(data)


def _txn_index(folder: Path, random: Random) -> None:
    log = random.choice(logs(folder))
    base = int(log.stem)
    lines = ((0, base, base + 10), (1, base, base + 10), (0, base, base), (0, 0, base - 1))
    version, first, last = random.choice(lines)
    entry = _TXN_ENTRY.pack(version, 1, first, last, first)
    with log.with_suffix(".txnindex").open("ab") as file:
        file.write(random.choice((entry, entry * 2, entry[:-3])))


def _snapshot(folder: Path, random: Random) -> None:
    found = sorted(folder.glob("*.snapshot"))
    if not found or random.random() < 0.3:
        offset = random.choice((0, 1, int(random.choice(logs(folder)).stem), 10**6))
        (folder / f"{offset:020}.snapshot").write_bytes(b"".join((pack(">hI", 1, crc32c(bytes(4))), bytes(4))))
        return
    path = random.choice(found)
    data = bytearray(path.read_bytes())
    match random.randrange(4):
        case 0:
            path.unlink()
            return
        case 1:
            del data[random.randrange(len(data) + 1) :]
        case 2:
            data[:2] = random.choice((bytes(2), b"\0\2", b"\xff\xff"))
        case _:
            place = random.randrange(6, len(data))
            data[place] = random.choice((0, 255, data[place] ^ 1 << random.randrange(8)))
            pack_into(">I", data, 2, crc32c(bytes(data[6:])))
    path.write_bytes(data)


def _epochs(folder: Path, random: Random) -> None:
    (folder / "leader-epoch-checkpoint").write_text(random.choice(_EPOCHS), encoding="utf-8")


def _names(folder: Path, random: Random) -> None:
    log = random.choice(logs(folder))
    members = [path for path in folder.iterdir() if path.stem == log.stem and path.suffix != ".snapshot"]
    base = int(log.stem)
    goal = base + random.choice((-5 if base >= 5 else 5, 1, 2, 100, 10**5, 1 << 31))
    kind = random.choice(("rename", "copy", ".swap", ".cleaned", ".deleted", "no log"))
    if kind == "no log":
        log.unlink()
        return
    for path in members:
        name = f"{path.name}{kind}" if kind[0] == "." else f"{goal:020}{path.suffix}"
        if random.random() < 0.9 or kind == "rename":
            (path.rename if kind == "rename" else lambda to, path=path: shutil.copy(path, to))(folder / name)


_DAMAGES: Sequence[Callable[[Path, Random], None]] = (
    *[_field] * 5, *[_payload] * 2, *[_tail] * 4, *[_names] * 2, *[_order] * 2, *[_index] * 2,
    _marker, _bytes, _txn_index, _snapshot, _epochs,
)  # fmt: skip


def damage_partition(folder: Path, random: Random) -> list[str]:
    """Damage a partition in one to three ways; their names, in order."""
    done = []
    for _ in range(random.choice((1, 1, 2, 2, 3))):
        damage = random.choice(_DAMAGES)
        try:
            damage(folder, random)
        except (IndexError, ValueError):  # nothing there that could be damaged so
            continue
        done.append(damage.__name__.strip("_"))
    return done

"""Faults of one partition directory and of the files beside it, drawn by chance: of disks, crashes, brokers, people."""

from __future__ import annotations

import random
import shutil
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import crcmod.predefined

from tests.campaigns.file_damages import Damaging, damage
from tests.campaigns.other_file_faults import (
    DIGITS,
    Fault,
    Partition,
    extra_files,
    other_base,
    some_file,
    wrong_epochs,
    wrong_index,
    wrong_metadata,
    wrong_snapshot,
)
from tests.campaigns.valid_batches import ValidBatch, valid_batches

SECTOR = 512
LOG = ".log"
V2_FIELDS = {
    "base offset": (0, 8), "length": (8, 12), "leader epoch": (12, 16), "magic": (16, 17), "CRC": (17, 21),
    "attributes": (21, 23), "last offset delta": (23, 27), "timestamps": (27, 43), "producer": (43, 57),
    "record count": (57, 61),
}  # fmt: skip
OLD_FIELDS = {"base offset": (0, 8), "length": (8, 12), "CRC": (12, 16), "magic": (16, 17), "attributes": (17, 18)}
OFFSET_CHECKPOINTS = (
    "recovery-point-offset-checkpoint", "replication-offset-checkpoint", "log-start-offset-checkpoint",
    "cleaner-offset-checkpoint",
)  # fmt: skip
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
UUID = "0123456789abcdef0123456789abcdef"
_crc32c = crcmod.predefined.mkPredefinedCrcFun("crc-32c")


def put_fault(partition: Partition, chance: random.Random) -> str:
    """Put a fault into a partition directory, and return what it is."""
    for _ in range(8):
        fault = chance.choice(FAULTS)
        if text := fault(partition, chance):
            return f"{fault.__name__.removeprefix('_')}: {text}"
    return "none fits"


def put_log_directory_fault(directory: Path, chance: random.Random) -> str:
    """Put a fault into the files of a log directory that are of all its partitions, and return what it is."""
    name = chance.choice((*OFFSET_CHECKPOINTS, CLEAN_SHUTDOWN))
    path = directory / name
    if name == CLEAN_SHUTDOWN:
        if path.exists():
            path.unlink()
            return f"{name}: removed"
        path.write_bytes(b'{"version":0,"brokerEpoch":1}')
        return f"{name}: made"
    if not path.exists():
        return f"{name}: is missing"
    content, words = path.read_bytes(), chance.choice(("missing", "empty", "noise", "stale", "high", "line"))
    match words:
        case "missing":
            path.unlink()
        case "empty":
            path.write_bytes(b"")
        case "noise":
            path.write_bytes(chance.randbytes(chance.randint(1, len(content))))
        case "line":
            words = damage(Damaging(directory, (), (), (path,)), chance)
        case _:
            path.write_bytes(_other_offsets(content, words, chance))
    return f"{name}: {words}"


def _other_offsets(content: bytes, words: str, chance: random.Random) -> bytes:
    version, count, *lines = content.split(b"\n")
    offsets = []
    for line in lines:
        name, _, offset = line.rpartition(b" ")
        if name and offset.isdigit():
            moved = chance.randint(0, int(offset)) if words == "stale" else int(offset) + chance.randint(0, 40)
            line = b"%s %d" % (name, min(moved, (1 << 63) - 1))
        offsets.append(line)
    return b"\n".join((version, count, *offsets))


# --- a place in a log -------------------------------------------------------------------------------------------------


class Place(NamedTuple):
    """A file, its content, its valid batches, and one of them."""

    path: Path
    content: bytearray
    batches: tuple[ValidBatch, ...]
    at: int

    @property
    def batch(self) -> ValidBatch:
        return self.batches[self.at]

    def bytes_of(self, first: int, stop: int) -> bytes:
        """Return the bytes of batches."""
        return bytes(self.content[self.batches[first].start : self.batches[stop - 1].stop])


def _place(path: Path, chance: random.Random) -> Place | None:
    """Draw a batch of the logs of a directory; the first and the last ones of a log are drawn more often."""
    logs = sorted(each for each in path.iterdir() if each.name.endswith(LOG) and each.is_file())
    chance.shuffle(logs)
    for log in logs:
        content = log.read_bytes()
        if batches := valid_batches(content):
            at = chance.choice((0, len(batches) - 1, chance.randrange(len(batches)), chance.randrange(len(batches))))
            return Place(log, bytearray(content), batches, at)
    return None


def _header_bits(partition: Partition, chance: random.Random) -> str | None:
    if not (place := _place(partition.path, chance)):
        return None
    name, (start, stop) = chance.choice(list((V2_FIELDS if place.batch.magic == 2 else OLD_FIELDS).items()))
    bits = sorted(chance.sample(range(8 * start, 8 * stop), chance.choice((1, 1, 1, 2))))
    for bit in bits:
        place.content[place.batch.start + bit // 8] ^= 1 << bit % 8
    place.path.write_bytes(place.content)
    return f"{place.path.name} batch {place.at} of {len(place.batches)}: {name}, bits {bits}"


def _record_bits(partition: Partition, chance: random.Random) -> str | None:
    if not (place := _place(partition.path, chance)):
        return None
    header = 61 if place.batch.magic == 2 else 18
    start, stop = place.batch.start + header, place.batch.stop
    if start >= stop:
        return None
    bits = sorted(chance.randrange(8 * start, 8 * stop) for _ in range(chance.choice((1, 1, 2, 3))))
    for bit in bits:
        place.content[bit // 8] ^= 1 << bit % 8
    place.path.write_bytes(place.content)
    return f"{place.path.name} batch {place.at} of {len(place.batches)}: records, bits {bits}"


def _overwritten_range(partition: Partition, chance: random.Random) -> str | None:
    """A range that begins at, or in, a batch: zeros, noise or bytes of another place."""
    if not (place := _place(partition.path, chance)):
        return None
    start = place.batch.start + chance.choice((0, 0, chance.randrange(place.batch.stop - place.batch.start)))
    size = chance.choice((1, 8, 17, 61, place.batch.stop - start, chance.randint(1, 600)))
    return _overwrite(place, start, min(len(place.content), start + size), chance)


def _overwritten_sectors(partition: Partition, chance: random.Random) -> str | None:
    if not (place := _place(partition.path, chance)):
        return None
    first = chance.randrange(place.batch.start, place.batch.stop) // SECTOR
    stop = min(len(place.content), (first + chance.choice((1, 1, 2, 8))) * SECTOR)
    return _overwrite(place, first * SECTOR, stop, chance)


def _overwrite(place: Place, start: int, stop: int, chance: random.Random) -> str:
    words = chance.choice(("zeros", "zeros", "noise", "bytes of another place"))
    if words == "zeros":
        place.content[start:stop] = bytes(stop - start)
    elif words == "noise":
        place.content[start:stop] = chance.randbytes(stop - start)
    else:
        source = chance.randrange(max(1, len(place.content) - (stop - start)))
        place.content[start:stop] = place.content[source : source + stop - start].ljust(stop - start, b"\0")
    place.path.write_bytes(place.content)
    return f"{place.path.name} bytes {start} to {stop - 1} of {len(place.content)}: {words}"


def _cut(partition: Partition, chance: random.Random) -> str | None:
    if not (place := _place(partition.path, chance)):
        return None
    start, stop = place.batch.start, place.batch.stop
    keep = chance.choice((start, chance.randrange(start, stop), stop - 1, start + 12))
    place.path.write_bytes(place.content[:keep])
    return f"{place.path.name} cut to {keep} of {len(place.content)} bytes"


def _appended(partition: Partition, chance: random.Random) -> str | None:
    """Zeros or noise after the end of a log, perhaps with batches after them, which are its own or another log's."""
    if not (place := _place(partition.path, chance)):
        return None
    size = chance.choice((0, 1, 17, 64, 512, 4096))
    more = bytes(size) if chance.random() < 0.7 else chance.randbytes(size)
    words = f"{size} bytes"
    source = _place(chance.choice((partition.path, partition.other)), chance)
    if source and chance.random() < 0.6:
        stop = min(len(source.batches), source.at + chance.randint(1, 4))
        more += source.bytes_of(source.at, stop)
        words += f", batches {source.at} to {stop - 1} of {source.path.parent.name}/{source.path.name}"
    place.path.write_bytes(place.content + more)
    return f"{place.path.name}: {words} appended"


def _batches_moved(partition: Partition, chance: random.Random) -> str | None:
    """Batches twice, missing, or in another order."""
    if not (place := _place(partition.path, chance)):
        return None
    parts = [place.bytes_of(at, at + 1) for at in range(len(place.batches))]
    words = chance.choice(("twice", "missing", "exchanged", "twice at the end"))
    other = chance.randrange(len(parts))
    if words == "twice":
        parts.insert(place.at, parts[place.at])
    elif words == "missing":
        del parts[place.at]
    elif words == "exchanged":
        parts[place.at], parts[other] = parts[other], parts[place.at]
    else:
        parts.append(parts[place.at])
    place.path.write_bytes(b"".join(parts))  # what was between the batches is gone
    return f"{place.path.name} batch {place.at} of {len(place.batches)}: {words} ({other})"


def _foreign_batch(partition: Partition, chance: random.Random) -> str | None:
    """A batch of another partition before one, or in its place."""
    place, source = _place(partition.path, chance), _place(partition.other, chance)
    if not place or not source:
        return None
    stop = place.batch.stop if chance.random() < 0.5 else place.batch.start
    place.content[place.batch.start : stop] = source.bytes_of(source.at, source.at + 1)
    place.path.write_bytes(place.content)
    kept = "before" if stop == place.batch.start else "instead of"
    return f"{place.path.name}: a batch of {source.path.parent.name} {kept} batch {place.at} of {len(place.batches)}"


def _rewritten_offset(partition: Partition, chance: random.Random) -> str | None:
    """Another base offset, which no CRC covers."""
    if not (place := _place(partition.path, chance)):
        return None
    own = place.batch.base_offset
    offset = chance.choice((0, own - 1, own + 1, own + 7, own + 1000, own + (1 << 33), (1 << 63) - 1, -1, -(1 << 63)))
    offset = max(-(1 << 63), min((1 << 63) - 1, offset))
    struct.pack_into(">q", place.content, place.batch.start, offset)
    place.path.write_bytes(place.content)
    return f"{place.path.name} batch {place.at} of {len(place.batches)}: base offset {own} is {offset}"


def _rewritten_epochs(partition: Partition, chance: random.Random) -> str | None:
    """Another leader epoch, which no CRC covers, in some batches of v2."""
    place = _place(partition.path, chance)
    if not place or place.batch.magic != 2:
        return None
    stop, epoch = min(len(place.batches), place.at + chance.randint(1, 5)), chance.choice((-1, 0, 1, 5, 9, 1 << 30))
    for batch in place.batches[place.at : stop]:
        struct.pack_into(">i", place.content, batch.start + 12, epoch)
    place.path.write_bytes(place.content)
    return f"{place.path.name} batches {place.at} to {stop - 1} of {len(place.batches)}: leader epoch {epoch}"


def _other_history(partition: Partition, chance: random.Random) -> str | None:
    """The last batches again, with other records, perhaps of another leader epoch: before or after them."""
    place = _place(partition.path, chance)
    if not place or place.batch.magic != 2:
        return None
    first = max(0, len(place.batches) - chance.randint(1, 4))
    epoch, parts = chance.choice((-1, 0, 1, 2, 6, 9)), []
    for batch in place.batches[first:]:
        content = bytearray(place.content[batch.start : batch.stop])
        struct.pack_into(">i", content, 12, epoch)
        struct.pack_into(">q", content, 27, struct.unpack_from(">q", content, 27)[0] + 1)
        struct.pack_into(">I", content, 17, _crc32c(bytes(content[21:])))
        parts.append(content)
    at = chance.choice((len(place.content), place.batches[first].start))
    place.content[at:at] = b"".join(parts)
    place.path.write_bytes(place.content)
    return f"{place.path.name} batches {first} to {len(place.batches) - 1} again at byte {at}, leader epoch {epoch}"


# --- segments -------------------------------------------------------------------------------------------------------


def _segment(partition: Partition, chance: random.Random) -> tuple[str, list[Path]] | None:
    """Draw a segment: the beginning of its names, and its files."""
    logs = [path for path in partition.files(LOG) if path.stem.isdigit()]
    if not logs:
        return None
    base = chance.choice(logs).stem
    return base, [path for path in partition.files() if path.name.startswith(f"{base}.")]


def _missing_segment(partition: Partition, chance: random.Random) -> str | None:
    if not (segment := _segment(partition, chance)):
        return None
    names = [path for path in segment[1] if path.suffix == LOG] if chance.random() < 0.3 else segment[1]
    for path in names:
        path.unlink()
    return f"{', '.join(path.name for path in names)} removed"


def _exchanged_segments(partition: Partition, chance: random.Random) -> str | None:
    one, other = _segment(partition, chance), _segment(partition, chance)
    if not one or not other or one[0] == other[0]:
        return None
    for path in one[1]:
        if (second := partition.path / f"{other[0]}{path.suffix}").exists():
            content = path.read_bytes()
            path.write_bytes(second.read_bytes())
            second.write_bytes(content)
    return f"{one[0]} and {other[0]} exchanged"


def _copied_segment(partition: Partition, chance: random.Random) -> str | None:
    """A segment, or the end of one, a second time under another base offset."""
    segment, place = _segment(partition, chance), _place(partition.path, chance)
    if not segment or not place:
        return None
    if chance.random() < 0.5:
        base = f"{place.batch.base_offset:0{DIGITS}d}" if place.batch.base_offset >= 0 else "0" * DIGITS
        target = partition.path / f"{base}{LOG}"
        if target.exists():
            return None
        target.write_bytes(place.content[place.batch.start :])
        return f"{place.path.name} from batch {place.at} on copied to {target.name}"
    base = other_base(segment[0], chance)
    for path in segment[1]:
        shutil.copy2(path, partition.path / f"{base}{path.suffix}")
    return f"{segment[0]} copied to {base}"


def _renamed_segment(partition: Partition, chance: random.Random) -> str | None:
    if not (segment := _segment(partition, chance)):
        return None
    base = chance.choice((other_base(segment[0], chance), segment[0][1:], "backup", f"copy-{segment[0]}"))
    names = segment[1] if chance.random() < 0.7 else [path for path in segment[1] if path.suffix == LOG]
    for path in names:
        path.rename(partition.path / f"{base}{path.suffix}")
    return f"{', '.join(path.name for path in names)} renamed to {base}"


def _stray_files(partition: Partition, chance: random.Random) -> str | None:
    """The files of a segment, complete, damaged or of two segments, under a name that a broker gives for a time."""
    if not (segment := _segment(partition, chance)):
        return None
    ending = chance.choice((".swap", ".swap", ".cleaned", ".deleted", ".tmp"))
    if chance.random() < 0.3:  # nothing else has what is in it
        for path in segment[1]:
            path.rename(partition.path / f"{path.name}{ending}")
        return f"{segment[0]} renamed to {ending}"
    words = chance.choice(("whole", "cut", "bits", "of two segments", "from a batch on"))
    for path in segment[1]:
        content = bytearray(path.read_bytes())
        if words == "cut":
            content = content[: chance.randint(0, len(content))]
        elif words == "bits" and content:
            content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
        elif words == "of two segments" and path.suffix == LOG:
            later = [each for each in partition.files(LOG) if each.name > path.name]
            content += later[0].read_bytes() if later else b""
        elif words == "from a batch on" and path.suffix == LOG and (batches := valid_batches(bytes(content))):
            content = content[chance.choice(batches).start :]
        (partition.path / f"{path.name}{ending}").write_bytes(content)
    return f"{segment[0]} also as {ending}: {words}"


def _stray_directory(partition: Partition, chance: random.Random) -> str | None:
    """A copy of the partition directory under a name that a broker gives for a time."""
    ending = chance.choice(("future", "delete", "stray"))
    target = partition.path.with_name(f"{partition.path.name}.{UUID}-{ending}")
    if target.exists():
        return None
    shutil.copytree(partition.path, target)
    return f"copied to {target.name}"


def _emptied_log(partition: Partition, chance: random.Random) -> str | None:
    if not (segment := _segment(partition, chance)):
        return None
    path = partition.path / f"{segment[0]}{LOG}"
    size = chance.choice((0, 0, 64, 4096))
    path.write_bytes(bytes(size))
    return f"{path.name} is {size} zeros"


FAULTS: tuple[Fault, ...] = (
    *[_header_bits] * 5, *[_record_bits] * 3, *[_overwritten_range] * 3, *[_overwritten_sectors] * 3, *[_cut] * 2,
    *[_appended] * 3, *[_batches_moved] * 3, _foreign_batch, *[_rewritten_offset] * 2, _rewritten_epochs,
    *[_other_history] * 2, *[_missing_segment] * 2, _exchanged_segments, *[_copied_segment] * 2,
    *[_renamed_segment] * 2,
    *[_stray_files] * 4, _stray_directory, _emptied_log, *[some_file] * 4, *[wrong_index] * 2, wrong_snapshot,
    *[wrong_epochs] * 2, wrong_metadata, extra_files,
)  # fmt: skip


def kinds() -> Iterator[str]:
    """Yield the names of the faults."""
    yield from dict.fromkeys(fault.__name__.removeprefix("_") for fault in FAULTS)

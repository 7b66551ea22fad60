"""Read beside a running broker: one picture of a partition, whatever the broker does to its files meanwhile.

A broker appends to a log and then to its indexes; rolls, renames and deletes segments; swaps cleaned ones in under the
same names; takes whole directories away. So the files of a partition are opened before anything is read of them, in an
order in which no file can speak of what another one has not got yet, and stay open (see kdump.disk.held): the epoch
file and the snapshots first, then transaction indexes, time indexes and offset indexes, then the logs. Of the segment
that is written to, the entries that its indexes have then and the whole batches count, and nothing behind them.
"""

from __future__ import annotations

import os
import struct
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from kdump.disk import meeting
from kdump.disk.held import Hold, is_held, room_for_files
from kdump.disk.locks import LockHolder, lock_holder
from kdump.disk.reading import list_directory, open_for_reading, status_of
from kdump.errors import (
    CorruptIndexError,
    InternalError,
    KdumpError,
    is_out_of_memory,
    is_out_of_threads,
    is_wrong_call,
    shows_where,
)
from kdump.formats import names
from kdump.formats.index_entries import ENTRY_SIZES
from kdump.formats.names import parse_file_name
from kdump.storage.around import directory_around
from kdump.storage.damage import Damage, DamageKind
from kdump.storage.partition import PartitionLog, base_offsets
from kdump.storage.scan import MAX_OFFSET, scan
from kdump.storage.segment import Segment

ATTEMPTS = 4
"""How often a partition is listed: once, and again up to three times where files went away before they were open."""
SWAP_PAUSE = 0.05
"""Seconds after which segments that are just being swapped in have their names."""

_ORDER: dict[str, int] = {names.TXN_INDEX: 1, names.TIME_INDEX: 2, names.OFFSET_INDEX: 3, names.LOG: 4}


class Tally:
    """What a run has come to, beside brokers and otherwise.

    `brokers` are the log directories that a broker was running on, as they were named, with who holds the lock;
    `partitions` those that were looked at and `unreadable` those of them that could not be, or not wholly, by absolute
    path; `growing` the logs that were written to meanwhile, and `deleted` what went away before it could be read;
    `replacing` those that were read as a broker will have them that finishes the replacement of segments; `unreached`
    the PATHs of the command line that do not exist, are not Kafka's, or cannot be opened; `changes_seen` the partitions
    of which it was looked whether changes were interrupted, by absolute path; `named` how these are named, by absolute
    path; `internal_errors` what kdump itself failed with.
    """

    def __init__(self) -> None:
        self.brokers: dict[str, LockHolder] = {}
        self.partitions: set[str] = set()
        self.unreadable: set[str] = set()
        self.growing: set[str] = set()
        self.deleted: set[str] = set()
        self.replacing: set[str] = set()
        self.unreached: set[str] = set()
        self.changes_seen: set[str] = set()
        self.named: dict[str, str] = {}
        self.internal_errors: list[InternalError] = []

    def met(self, path: str) -> None:
        """Count a partition that is looked at, by the path that the command line gives it."""
        absolute = os.path.abspath(path)
        self.partitions.add(absolute)
        self.named.setdefault(absolute, path)

    def cannot_read(self, path: str) -> None:
        """Count the partition that a file or directory belongs to which cannot be read."""
        path = os.path.abspath(path)
        for folder in (path, os.path.dirname(path)):
            if names.is_partition_dir(os.path.basename(folder)):
                self.partitions.add(folder)
                self.unreadable.add(folder)
                return

    def clear(self) -> None:
        """Begin a new run."""
        sets = (self.partitions, self.unreadable, self.growing, self.deleted, self.replacing, self.unreached)
        for each in (self.brokers, *sets, self.changes_seen, self.named):
            each.clear()
        self.internal_errors.clear()


tally = Tally()
"""That of this process."""


def broker_on(log_directory: str) -> LockHolder | None:
    """Return the broker that is running on a log directory, if one is."""
    try:
        holder = lock_holder(log_directory)
    except OSError:
        return None
    if holder is not None:
        tally.brokers[log_directory] = holder
        if meeting.at_broker is not None and not holder.is_kdump:
            meeting.at_broker()
    return holder


def is_beside_broker(path: str) -> bool:
    """Return whether a broker is running on a log directory, or on the one that a partition directory is in."""
    return broker_on(path) is not None or is_live(path)


_FAULTS = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    BufferError,
    LookupError,
    NameError,
    NotImplementedError,
    RecursionError,
    StopIteration,
    struct.error,
    TypeError,
    ValueError,
)
"""What Python raises for a fault in a program."""


@contextmanager
def internal_errors(path: str) -> Iterator[None]:
    """Raise InternalError for what kdump does not raise on purpose while it works on a partition or file.

    Wrong arguments are the caller's errors, memory and threads that the system refuses nobody's, and what a library of
    the caller's raises is not kdump's. With KDUMP_DEBUG nothing is changed.
    """
    try:
        yield
    except (OSError, KdumpError):
        raise
    except Exception as error:
        if not isinstance(error, _FAULTS) and type(error) is not RuntimeError:  # click has subclasses of that
            raise
        if shows_where() or is_wrong_call(error) or is_out_of_memory(error) or is_out_of_threads(error):
            raise
        failed = InternalError.of(path, error)
        tally.internal_errors.append(failed)
        raise failed from error


@contextmanager
def held(path: str, *, as_named: bool = False, known: PartitionLog | None = None) -> Iterator[PartitionLog | None]:
    """Hold the partition in a directory, readable as it is now for as long as the `with` lasts.

    None where a running broker has taken it away. Without a broker it is the partition and nothing else; `as_named` is
    PartitionLog's. `known` is the partition as somebody has listed it, which does without a broker. Raises OSError,
    also for an error in kdump itself while it is held (`internal_errors`).
    """
    tally.met(path)
    with internal_errors(path):
        if is_held(path) or broker_on(directory_around(path)) is None:
            log = known or PartitionLog(path, as_named=as_named)
            if log.is_replacing:
                tally.replacing.add(os.path.abspath(path))
            yield log
            return
        hold = hold_partition(path)
        if hold is None:
            tally.deleted.add(os.path.abspath(path))
            yield None
            return
        with hold:
            log = PartitionLog(path, as_named=as_named)
            yield log
            if _has_grown(hold, log):
                tally.growing.add(hold.path)


def is_live(path: str) -> bool:
    """Return whether a broker is running on the log directory around a partition directory."""
    return broker_on(directory_around(path)) is not None


def opened(path: str) -> PartitionLog | None:
    """Return the partition in a directory, to be held later; None where a running broker deleted it. Raises OSError."""
    try:
        return PartitionLog(path)
    except FileNotFoundError as error:
        if was_deleted(path, error):
            return None
        raise


def was_deleted(path: str, error: BaseException) -> bool:
    """Return whether an error says that a file or directory is missing because a broker deleted or replaced it."""
    return isinstance(error, FileNotFoundError) and is_deleted(path)


def is_deleted(path: str) -> bool:
    """Return whether it is a running broker that has deleted what is missing at a path; it is counted then.

    The path may be that of a log directory's file, of a partition's, or of the partition's directory.
    """
    folder = directory_around(path)
    if broker_on(folder) is None and broker_on(directory_around(folder)) is None:
        return False
    tally.deleted.add(os.path.abspath(path))
    return True


def hold_partition(path: str, pause: Callable[[float], object] = time.sleep) -> Hold | None:
    """Hold a partition directory that a broker is running on; None where it has been deleted. Raises OSError."""
    for attempt in range(ATTEMPTS):
        try:
            directories, files = list_directory(path)
        except FileNotFoundError:
            return None
        hold = Hold(path)
        try:
            is_last = attempt == ATTEMPTS - 1
            if _is_swapping(files) and not is_last:
                pause(SWAP_PAUSE)
                continue
            missing = _take_all(hold, files, skips_missing=is_last)
            if is_last or _is_one_picture(hold):
                hold.publish(directories, [name for name in files if name not in missing])
                _leave_out_growing_end(hold)
                return hold
        except FileNotFoundError:
            pass
        except BaseException:
            hold.release()
            raise
        hold.release()
    return None


def _is_taken(name: str) -> bool:
    """Return whether a file is one that readers look into, and no leftover of the broker's."""
    parsed = parse_file_name(name)
    return not parsed.state and parsed.kind != names.OTHER


def _is_swapping(files: Iterable[str]) -> bool:
    """Return whether cleaned segments are complete but not yet named, while the old ones have lost theirs."""
    return any(parsed.kind == names.LOG and parsed.state == names.SWAP for parsed in map(parse_file_name, files))


def _take_all(hold: Hold, files: list[str], *, skips_missing: bool) -> set[str]:
    """Open the files, logs last, those of older segments before those of newer ones.

    Where they are too many, those of the oldest and of the newest segment, which are the next to change. Returns what
    is gone, or raises FileNotFoundError.
    """
    missing = set()
    last = max(base_offsets(files), default=0)
    wanted = sorted(filter(_is_taken, files), key=lambda name: _rank(name, last))
    wanted = sorted(wanted[: room_for_files()], key=_opening_order)
    for name in wanted:
        try:
            hold.take(name, open_for_reading(os.path.join(hold.path, name)))
        except FileNotFoundError:
            if not skips_missing:
                raise
            missing.add(name)
        except OSError:
            continue  # who needs it will be told why it cannot be read
    return missing


def _rank(name: str, last: int) -> tuple[bool, int]:
    """Return files that belong to no segment and those of the last one first, then from the oldest on."""
    parsed = parse_file_name(name)
    return parsed.kind in names.SEGMENT_KINDS and parsed.offset != last, parsed.offset or 0


def _opening_order(name: str) -> tuple[int, int]:
    parsed = parse_file_name(name)
    return _ORDER.get(parsed.kind, 0), parsed.offset or 0


def _is_one_picture(hold: Hold) -> bool:
    """Return whether what was opened was there together: nothing else has come under its names, nor in between."""
    if not all(map(hold.is_still_there, hold.files)):
        return False
    held = base_offsets(hold.files)
    now = base_offsets(list_directory(hold.path)[1])
    return not held or all(base in held or base > held[-1] for base in now)


def _leave_out_growing_end(hold: Hold) -> None:
    """Let nothing count behind the last whole batch of the last segment, and no room that its indexes keep."""
    bases = base_offsets(hold.files)
    if not bases:
        return
    segment = PartitionLog(hold.path).segments[-1]
    for kind in names.INDEX_KINDS:
        name = os.path.basename(segment.path(kind))
        if name in hold.files:
            hold.limit(name, _settled_size(hold, name, segment, kind))
    hold.limit(os.path.basename(segment.log_path), _end_of_data(segment))


def _settled_size(hold: Hold, name: str, segment: Segment, kind: str) -> int:
    """Return the used size of an index, which may lose its spare room while we look: its segment is being rolled."""
    for _ in range(ATTEMPTS):
        try:
            return _used_size(segment, kind)
        except CorruptIndexError:
            hold.limit(name, os.fstat(hold.files[name].descriptor).st_size)
    return 0


def _used_size(segment: Segment, kind: str) -> int:
    """Return the bytes of whole entries in an index, the room behind them left out."""
    if kind == names.TXN_INDEX:
        size = status_of(segment.path(kind)).size
        return size - size % ENTRY_SIZES[kind]
    with segment.index(kind) as index:
        index.drop_zero_tail()
        return index.entries * ENTRY_SIZES[kind]


_GROWING = (DamageKind.TORN, DamageKind.ZEROS)


def _end_of_data(segment: Segment) -> int:
    """Return the byte behind the last batch, a batch of which a part is still to be written left out."""
    with segment.open_log() as log:
        tail: Damage | None = None
        for part in scan(log, segment.base_offset, segment.position_of(log, MAX_OFFSET), whole=False):
            tail = part if isinstance(part, Damage) else None
        return tail.position if tail and tail.kind in _GROWING else log.size


def _has_grown(hold: Hold, log: PartitionLog) -> bool:
    """Return whether a part of the last segment did not count."""
    file = hold.files.get(os.path.basename(log.segments[-1].log_path)) if log.segments else None
    return file is not None and os.fstat(file.descriptor).st_size != file.size

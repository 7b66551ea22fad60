"""The segments that wait to replace others, where a broker was killed in that: at its start it does so."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import closing

from kdump.check.batch_rows import Piece, Reading, walk
from kdump.check.log import LogCheck
from kdump.check.offset_index import OffsetIndexCheck
from kdump.check.time_index import TimeIndexCheck
from kdump.errors import CorruptIndexError, LoadError, NameFormatError
from kdump.findings.finding import UNREAD, Finding, found, unreadable
from kdump.findings.kind import ERROR, GOES_OFFLINE, REFUSES, BrokerEffect
from kdump.formats import names
from kdump.formats.words import number_words, offset_range
from kdump.settings.loading import LoadingSettings
from kdump.storage.damage import Damage
from kdump.storage.partition import PartitionLog
from kdump.storage.planned import PlannedPartition
from kdump.storage.segment import Segment
from kdump.storage.swaps import logs_of, replacement


def check_replacements(log: PartitionLog, reading: Reading) -> Iterator[Finding]:
    """Yield the errors in the files that a broker is to put in the place of segments at its next start."""
    try:
        waiting = logs_of(replacement(log.path, log.files).complete)
    except (OSError, NameFormatError) as error:
        yield found(UNREAD, log.path, str(error))
        return
    is_damaged = False
    for name in waiting:
        for finding in _check(log, Segment(os.path.join(log.path, name)), reading):
            is_damaged = True
            yield finding
    if waiting and not is_damaged:
        yield from _losses(log, waiting)


def _losses(log: PartitionLog, waiting: Sequence[str]) -> Iterator[Finding]:
    """Yield that the segments hold batches that the files which are to replace them do not have."""
    from kdump.recovery.swaps import losses_at_start

    path = os.path.join(log.path, waiting[0])
    try:
        losses = losses_at_start(PlannedPartition(log), LoadingSettings()).losses
    except OSError as error:
        yield unreadable(path, error)
        return
    except LoadError:
        return  # told as the effect of what is damaged
    for name, loss in losses.items():
        records = number_words(loss.records, "record")
        offsets = offset_range(loss.first_offset, loss.last_offset)
        text = f"a broker puts it in the place of {name} at its start, but it lacks offsets {offsets} ({records})"
        yield found("KD-FILE-SWAP-DAMAGED", path, text, offset=loss.first_offset)


def _check(log: PartitionLog, segment: Segment, reading: Reading) -> Iterator[Finding]:
    path = segment.log_path
    try:
        errors = [finding for finding in _found(segment, reading) if finding.severity == ERROR]
        effect = _effect_at_start(log, segment) if errors else None
        for each in errors:
            yield found("KD-FILE-SWAP-DAMAGED", each.path, each.message, each.position, each.offset, effect=effect,
                        length=each.length, offsets=each.offsets, details=each.details)  # fmt: skip
    except CorruptIndexError as error:
        yield found("KD-FILE-SWAP-DAMAGED", path, str(error))
    except OSError as error:
        yield unreadable(path, error)


def _effect_at_start(log: PartitionLog, segment: Segment) -> BrokerEffect | None:
    """Return what becomes of a broker that cannot read where a segment ends; None where it can. Raises OSError.

    It asks for that before it puts the segment in its place, CRCs not looked at (LogLoader.load,
    LogSegment.readNextOffset).
    """
    from kdump.recovery.segments import LoadedSegment

    size = LoadingSettings().segment_index_bytes  # of an index that is missing; of others their own size counts
    try:
        LoadedSegment(PlannedPartition(log), segment.base_offset, size, f".{names.SWAP}").next_offset()
    except LoadError as error:
        return GOES_OFFLINE if error.takes_directory_offline else REFUSES
    return None


def _found(segment: Segment, reading: Reading) -> Iterator[Finding]:
    """Yield what is found in a segment that waits, indexes and all. Raises OSError, CorruptIndexError."""
    check = LogCheck(holds_metadata=reading.topic == names.CLUSTER_METADATA_TOPIC)
    check.open_segment(segment.log_path, segment.base_offset, None, was_closed=True)
    offset_index = OffsetIndexCheck(segment, excused=False)
    time_index = TimeIndexCheck(segment, excused=False, is_open=False)
    with closing(offset_index), closing(time_index):
        for index in (offset_index, time_index):
            yield from index.open()
        for part in walk(Piece(segment, 0, None, reading)):
            if isinstance(part, Damage):
                yield from check.bad_bytes(part)
                yield from offset_index.bad_bytes(part)
                time_index.bad_bytes()
                continue
            yield from check.take(part)
            yield from offset_index.take(part)
            yield from time_index.take(part, offset_index.covered(part))
        yield from offset_index.finish()
        is_misled = offset_index.leftovers.are_there
        yield from time_index.finish(
            has_batches=not check.is_empty, is_damaged=check.is_damaged, is_misled=is_misled
        )

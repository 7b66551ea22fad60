"""The segments that wait to replace others, where a broker was killed in that: at its start it does so."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing

from kdump.errors import CorruptIndexError, NameFormatError
from kdump.findings.finding import Finding, found
from kdump.findings.kind import ERROR
from kdump.formats import names
from kdump.storage.damage import Damage
from kdump.storage.partition import PartitionLog
from kdump.storage.segment import Segment
from kdump.storage.swaps import logs_of, replacement
from kdump.verify.batch_rows import Piece, Reading, walk
from kdump.verify.log import LogCheck
from kdump.verify.offset_index import OffsetIndexCheck
from kdump.verify.time_index import TimeIndexCheck


def check_replacements(log: PartitionLog, reading: Reading) -> Iterator[Finding]:
    """Yield the errors in the files that a broker is to put in the place of segments at its next start."""
    try:
        waiting = logs_of(replacement(log.path, log.files).complete)
    except (OSError, NameFormatError) as error:
        yield found("KD-READ", log.path, str(error))
        return
    for name in waiting:
        yield from _check(os.path.join(log.path, name), reading)


def _check(path: str, reading: Reading) -> Iterator[Finding]:
    try:
        for finding in _found(Segment(path), reading):
            if finding.severity == ERROR:
                yield found("KD-FILE-SWAP-DAMAGED", finding.path, finding.message, finding.position, finding.offset)
    except CorruptIndexError as error:
        yield found("KD-FILE-SWAP-DAMAGED", path, str(error))
    except OSError as error:
        yield found("KD-READ", path, error.strerror or str(error))


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

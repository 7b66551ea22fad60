"""The .log.swap files of a replacement of segments that was interrupted: a broker puts them in the place of others."""

from __future__ import annotations

import os
from collections.abc import Iterator

from kdump.errors import NameFormatError
from kdump.findings.finding import Finding, found
from kdump.findings.kind import ERROR
from kdump.formats import names
from kdump.storage.damage import Damage
from kdump.storage.partition import PartitionLog
from kdump.storage.segment import Segment
from kdump.storage.swaps import logs_of, replacement
from kdump.verify.log import LogCheck
from kdump.verify.sheets import Piece, Reading, walk


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
    segment = Segment(path)
    check = LogCheck(holds_metadata=reading.topic == names.CLUSTER_METADATA_TOPIC)
    check.open_segment(path, segment.base_offset, None, was_closed=True)
    try:
        for part in walk(Piece(segment, 0, None, reading)):
            for finding in check.bad_bytes(part) if isinstance(part, Damage) else check.sheet(part):
                if finding.severity == ERROR:
                    yield found("KD-FILE-SWAP-DAMAGED", path, finding.message, finding.position, finding.offset)
    except OSError as error:
        yield found("KD-READ", path, error.strerror or str(error))

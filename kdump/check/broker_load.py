"""What a broker makes of a partition when it opens and loads its log: found out when a finding asks for it first."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

from kdump.disk.reading import status_of
from kdump.errors import LoadError
from kdump.findings.finding import Finding
from kdump.findings.kind import GOES_OFFLINE, HIDES, REFUSES, BrokerEffect
from kdump.formats import names
from kdump.formats.names import parse_file_name
from kdump.recovery.outcome import Failure
from kdump.recovery.segments import LoadedSegment
from kdump.recovery.startup import Startup
from kdump.storage.damage import Damage
from kdump.storage.partition import PartitionLog
from kdump.storage.planned import PlannedPartition
from kdump.storage.segment import Segment, segment_end_offset


class _Opening(NamedTuple):
    """What becomes of a broker that opens a log, and the byte of the last segment that makes it so, where one does."""

    effect: BrokerEffect | None
    position: int | None = None


class BrokerLoad:
    """The opening and the loading of one partition, of which these segments are looked at."""

    def __init__(self, log: PartitionLog, segments: Sequence[Segment], startup: Startup) -> None:
        self._log = log
        self._segments = segments
        self._startup = startup

    @cached_property
    def opening(self) -> _Opening:
        """What becomes of a broker that opens the last segment of a closed log.

        It reads on from the last index entry to find the log's end (LogSegment.readNextOffset), CRCs not looked at: it
        dies of what it finds, or finds nothing, takes the segment for empty, and gives offsets that are taken to the
        next records.
        """
        segment = self._segments[-1]
        try:
            index = segment.path(names.OFFSET_INDEX)
            size = status_of(index).size if segment.has(names.OFFSET_INDEX) else 0
            end = LoadedSegment(PlannedPartition(self._log), segment.base_offset, size).next_offset()
            return _Opening(HIDES if end == segment.base_offset < segment_end_offset(segment) else None)
        except LoadError as error:
            return _Opening(GOES_OFFLINE if error.takes_directory_offline else REFUSES, error.position)
        except OSError:
            return _Opening(None)

    def effect_of(self, finding: Finding) -> BrokerEffect | None:
        """Return what a broker does that fails over the segment of a finding, though it would serve such a batch.

        Where batches stand twice, transactions end that did not begin, or end again; a v0 or v1 wrapper that cannot be
        decompressed hides its first offset from the search for an offset; without a producer snapshot all is read.
        """
        if not finding.path.endswith(f".{names.LOG}"):
            return None
        failure = self.failure
        base = parse_file_name(os.path.basename(finding.path)).offset
        if failure is None or base != parse_file_name(failure.file).offset:
            return None
        return GOES_OFFLINE if failure.offline else REFUSES

    def effect_on(self, damage: Damage) -> BrokerEffect | None:
        """Return what a broker does over damage that it meets when it opens the log; None where it does not meet it."""
        at = self.opening.position
        return self.opening.effect if at is not None and damage.position <= at < damage.resumed else None

    @cached_property
    def failure(self) -> Failure | None:
        """What the loading ends in; None where it succeeds, or the log cannot be read."""
        from kdump.recovery.loader import load_log

        try:
            return load_log(self._log, self._startup).failure
        except OSError:
            return None

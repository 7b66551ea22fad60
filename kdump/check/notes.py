"""Which segments of the partition at hand need not be read again: closed, read to the end, and with nothing wrong."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from kdump.check.batch_rows import BatchRows, Part
from kdump.check.state import State, Verified, checksum, files_of, is_same_file
from kdump.findings.finding import Finding, found
from kdump.findings.kind import NOTE
from kdump.formats import names
from kdump.formats.names import parse_file_name
from kdump.storage.segment import Segment

if TYPE_CHECKING:
    from kdump.check.work import Before, PartitionTask


_REWRITTEN = "the batches are valid, but not those that an earlier run verified in this file"


class Notes:
    """Takes down what becomes of each segment; nothing without a state to put it into."""

    def __init__(self, state: State | None, *, deep: bool) -> None:
        self._state = state
        self._deep = deep
        self._changed: list[Finding] = []

    def begin(self, task: PartitionTask) -> None:
        """Begin a partition."""
        self._verified: list[Verified] = list(task.known)
        self._checksum = 0  # of the segment at hand
        self._is_wrong = False
        self._open_from: int | None = None  # base offset of the first segment with a transaction that is open still
        earlier = self._state.verified(task.log) if self._state is not None else ()
        self._before = {each.base_offset: each for each in earlier}  # what an earlier run verified

    def part(self, part: Part) -> None:
        """Note the next part of the log of a segment."""
        if self._state is not None and isinstance(part, BatchRows):
            self._checksum = checksum(part.crc, self._checksum)

    def closed(self, segment: Segment, before_next: Before) -> None:
        """Note that a segment was read to its end."""
        if self._state is None:
            return
        found_here, self._checksum = self._checksum, 0
        try:
            files = files_of(segment)
        except OSError:
            self._is_wrong = True
            return
        before = self._before.get(segment.base_offset)
        if before is not None and is_same_file(before.files, files) and before.checksum != found_here:
            self._changed.append(found("KD-LOG-REWRITTEN", segment.log_path, _REWRITTEN, offset=segment.base_offset))
        last, epoch = before_next.last_offset, before_next.leader_epoch
        self._verified.append(Verified(segment.base_offset, files, found_here, last, epoch, self._deep))

    def seen(self, findings: Iterable[Finding]) -> Iterator[Finding]:
        """Yield the findings of the partition, as they come."""
        for finding in findings:
            parsed = parse_file_name(os.path.basename(finding.path))
            if finding.severity != NOTE and parsed.kind in names.SEGMENT_KINDS:
                self._is_wrong = True
            elif finding.code == "KD-TXN-OPEN" and parsed.offset is not None:
                self._open_from = parsed.offset if self._open_from is None else min(self._open_from, parsed.offset)
            yield finding
        while self._changed:
            yield self._changed.pop(0)

    def failed(self) -> None:
        """Note that nothing can be said of the partition."""
        self._is_wrong = True

    def keep(self, task: PartitionTask) -> None:
        """End the partition, or as much of it as there was time for."""
        if self._state is None or task.only:
            return
        known = [] if self._is_wrong else self._verified
        last = task.log.segments[-1].base_offset if task.log.segments else 0
        limit = last if self._open_from is None else min(last, self._open_from)
        bases = [segment.base_offset for segment in task.log.segments]
        kept = [verified for verified in known if verified.base_offset < limit]
        if [verified.base_offset for verified in kept] == bases[: len(kept)]:
            self._state.put(task.log.path, kept)

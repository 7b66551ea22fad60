"""Leader epochs: along the log they never decrease, and leader-epoch-checkpoint says where each begins."""

from __future__ import annotations

import os
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby, pairwise

from kdump.check.batch_findings import found_in_batch
from kdump.check.batch_rows import BatchRows
from kdump.check.column_checks import is_uniform
from kdump.errors import CheckpointError
from kdump.findings.finding import Finding, found
from kdump.findings.kind import SERVES_WRONG_DATA
from kdump.formats import names
from kdump.formats.checkpoints import EpochEntry
from kdump.storage.partition import PartitionLog


@dataclass(eq=False, repr=False)
class _EpochRange:
    """Batches of one epoch, one after the other: a finding about the first, and how many there are so far."""

    epoch: int
    first: Finding
    batches: int = 0


class EpochCheck:
    """Follows the epochs of a partition's log."""

    def __init__(self, log: PartitionLog, log_start_offset: int = 0, epoch: int = -1) -> None:
        """`epoch` is that of the batch before the first one looked at; -1 where none is known.

        Of the batches below the log start offset the checkpoint need not know.
        """
        self.path = os.path.join(log.path, names.LEADER_EPOCH_CHECKPOINT)
        self.epoch = epoch
        self._log = log
        self._entries: list[EpochEntry] = []
        self._starts: list[int] = []
        self._floor = -1  # the epoch before the last range's
        self._range: _EpochRange | None = None
        self._passed = 0  # entries of the checkpoint that begin at or before the last batch
        self._segment = ""
        self._log_start = log_start_offset
        self._disagreement_found: Finding | None = None
        self._is_known = False
        self._first: int | None = None  # offset of the first batch that the checkpoint ought to have an epoch for

    def read(self) -> Iterator[Finding]:
        """Read the checkpoint. Raises OSError."""
        if names.LEADER_EPOCH_CHECKPOINT not in self._log.files:
            return
        try:
            self._entries = self._log.leader_epochs
        except CheckpointError as error:
            yield found("KD-EPOCH-FORMAT", self.path, str(error))
            return
        self._starts = [entry.start_offset for entry in self._entries]
        self._is_known = True
        for before, entry in pairwise(self._entries):
            if entry.epoch <= before.epoch or entry.start_offset <= before.start_offset:
                self._is_known = False
                one, other = (f"epoch {each.epoch} from offset {each.start_offset} on" for each in (entry, before))
                effect = SERVES_WRONG_DATA  # the broker forgets the one before (LeaderEpochFileCache.assign)
                yield found("KD-EPOCH-FORMAT", self.path, f"{one} comes after {other}", effect=effect)
        for entry in self._entries:
            if entry.epoch < 0 or entry.start_offset < 0:
                self._is_known = False
                yield found("KD-EPOCH-FORMAT", self.path, f"{entry.epoch} {entry.start_offset}: below 0")

    def open_segment(self, path: str) -> None:
        """Go on with this segment."""
        self._segment = path

    def take(self, rows: BatchRows) -> Iterator[Finding]:
        """Take valid batches; yield what is found."""
        epochs = rows.leader_epoch
        first, length = epochs[0], len(epochs)
        if is_uniform(epochs, first) and is_uniform(rows.magic, 2):
            yield from self._rows(rows, 0, length)
            return
        for epoch, run in groupby(range(length), lambda row: epochs[row] if rows.magic[row] >= 2 else None):
            first, *others = run
            if epoch is None:
                self._disagreement_found = self._range = None  # a broker forgets the epochs before v0/v1 batches
            else:
                yield from self._rows(rows, first, first + 1 + len(others))

    def _rows(self, rows: BatchRows, first: int, stop: int) -> Iterator[Finding]:
        """Check the rows `first` to `stop` - 1 of one epoch: where they begin, and where another should."""
        bases = rows.base_offset
        if self._range is None or rows.leader_epoch[first] != self._range.epoch:
            yield from self._begin(rows, first)
            self._agree(rows, first)
        if self._range is not None:
            self._range.batches += stop - first
        while self._passed < len(self._starts) and self._starts[self._passed] <= bases[stop - 1]:
            row = bisect_left(bases, self._starts[self._passed], first, stop)
            self._passed += 1
            if row < stop:
                self._agree(rows, row)

    def _begin(self, rows: BatchRows, row: int) -> Iterator[Finding]:
        """Yield what is wrong where a range begins: its epoch should be higher than that of the one before."""
        epoch, text = rows.leader_epoch[row], f"the leader epoch is {rows.leader_epoch[row]}"
        here = found_in_batch("KD-EPOCH-ORDER", self._segment, text, rows, row, rows.base_offset[row])
        before, self._range = self._range, _EpochRange(epoch, here)
        if epoch < -1:
            yield here
        if epoch < 0:
            return
        if epoch > self.epoch:
            self._floor, self.epoch = self.epoch, epoch
        elif epoch < self.epoch:
            if before and before.epoch == self.epoch and before.batches == 1 and epoch >= self._floor:
                text = f"leader epoch {before.epoch} comes before leader epoch {epoch}"
                yield before.first._replace(text=text)
                self.epoch = epoch
            else:
                yield here._replace(text=f"leader epoch {epoch} comes after leader epoch {self.epoch}")

    def _agree(self, rows: BatchRows, row: int) -> None:
        """Keep the first batch that leader-epoch-checkpoint has another epoch for."""
        epoch, base = rows.leader_epoch[row], rows.base_offset[row]
        is_new = self._is_known and self._disagreement_found is None
        if is_new and epoch >= 0 and base >= self._log_start and (text := self._disagreement(epoch, base)):
            here = found_in_batch("KD-EPOCH-CHECKPOINT", self._segment, text, rows, row, base)
            self._disagreement_found = here

    def _disagreement(self, epoch: int, base: int) -> str:
        if not self._entries:
            return f"the batch has leader epoch {epoch}, leader-epoch-checkpoint is empty"
        at = bisect_right(self._starts, base) - 1
        if at < 0:
            first = self._entries[0]
            if self._first is None:
                self._first = base
            if epoch <= first.epoch:
                return ""
            said = f"leader-epoch-checkpoint begins with epoch {first.epoch} at offset {first.start_offset}"
            return f"leader epoch {epoch} begins at offset {base}, {said}"
        entry = self._entries[at]
        if entry.epoch == epoch:
            return ""
        said = f"leader-epoch-checkpoint says that epoch {entry.epoch} begins at offset {entry.start_offset}"
        return f"the batch has leader epoch {epoch}, {said}"

    def finish(self, end_offset: int | None) -> Iterator[Finding]:
        """Yield the log is over; it ends before `end_offset`."""
        if self._disagreement_found:
            yield self._disagreement_found
        elif self._first is not None:
            start = self._entries[0].start_offset
            text = f"it begins at offset {start}: the log start offset was {start} before. The batches from offset"
            text += f" {self._first} on were deleted then, and are there again"
            yield found("KD-EPOCH-LOG-START", self.path, text, offset=start)
        if end_offset is None:
            return
        for entry in self._entries:
            if entry.start_offset > end_offset:
                text = f"epoch {entry.epoch} begins at offset {entry.start_offset}, the log ends before {end_offset}"
                yield found("KD-EPOCH-BEYOND", self.path, text, offset=entry.start_offset)
                return

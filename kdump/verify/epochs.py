"""Leader epochs: along the log they never decrease, and leader-epoch-checkpoint says where each begins."""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Iterator

from kdump.errors import CheckpointError
from kdump.formats import names
from kdump.formats.checkpoints import EpochEntry
from kdump.storage.partition_log import PartitionLog
from kdump.verify.findings import Finding, found
from kdump.verify.log import is_uniform
from kdump.verify.sheets import Sheet


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
        self._segment = ""
        self._log_start = log_start_offset
        self._disagreement_found: Finding | None = None
        self._is_known = False

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
        for before, entry in zip(self._entries, self._entries[1:], strict=False):
            if entry.epoch <= before.epoch or entry.start_offset <= before.start_offset:
                self._is_known = False
                yield found(
                    "KD-EPOCH-FORMAT",
                    self.path,
                    f"epoch {entry.epoch} from offset {entry.start_offset} on comes after epoch {before.epoch} from"
                    f" offset {before.start_offset} on",
                )
        for entry in self._entries:
            if entry.epoch < 0 or entry.start_offset < 0:
                self._is_known = False
                yield found("KD-EPOCH-FORMAT", self.path, f"{entry.epoch} {entry.start_offset}: below 0")

    def open_segment(self, path: str) -> None:
        """Go on with this segment."""
        self._segment = path

    def sheet(self, sheet: Sheet) -> Iterator[Finding]:
        """Good batches."""
        epochs = sheet.leader_epoch
        first = epochs[0]
        if is_uniform(epochs, first) and is_uniform(sheet.magic, 2):
            yield from self._change(sheet, 0, first)
            return
        current: int | None = None
        for row, epoch in enumerate(epochs):
            if sheet.magic[row] < 2:
                self._disagreement_found = None  # a v0/v1 batch clears what a broker knows of the epochs before it
                current = None
            elif epoch != current:
                current = epoch
                yield from self._change(sheet, row, epoch)

    def _change(self, sheet: Sheet, row: int, epoch: int) -> Iterator[Finding]:
        position, base = sheet.position[row], sheet.base_offset[row]
        if epoch < -1:
            yield found("KD-EPOCH-ORDER", self._segment, f"the leader epoch is {epoch}", position, base)
            return
        if epoch == -1:
            return
        if epoch < self.epoch:
            text = f"leader epoch {epoch} comes after leader epoch {self.epoch}"
            yield found("KD-EPOCH-ORDER", self._segment, text, position, base)
        if epoch > self.epoch:
            self.epoch = epoch
        if self._is_known and self._disagreement_found is None and base >= self._log_start:
            text = self._disagreement(epoch, base)
            if text:
                self._disagreement_found = found("KD-EPOCH-CHECKPOINT", self._segment, text, position, base)

    def _disagreement(self, epoch: int, base: int) -> str:
        if not self._entries:
            return f"the batch has leader epoch {epoch}, leader-epoch-checkpoint is empty"
        at = bisect_right(self._starts, base) - 1
        if at < 0:
            first = self._entries[0]
            return (
                ""
                if epoch < first.epoch
                else f"leader epoch {epoch} begins at offset {base}, leader-epoch-checkpoint begins with epoch"
                f" {first.epoch} at offset {first.start_offset}"
            )
        entry = self._entries[at]
        if entry.epoch == epoch:
            return ""
        return (
            f"the batch has leader epoch {epoch}, leader-epoch-checkpoint says that epoch {entry.epoch} begins at"
            f" offset {entry.start_offset}"
        )

    def finish(self, end_offset: int | None) -> Iterator[Finding]:
        """The log is over; it ends before `end_offset`."""
        if self._disagreement_found:
            yield self._disagreement_found
        if end_offset is None:
            return
        for entry in self._entries:
            if entry.start_offset > end_offset:
                yield found(
                    "KD-EPOCH-BEYOND",
                    self.path,
                    f"epoch {entry.epoch} begins at offset {entry.start_offset}, the log ends before {end_offset}",
                    offset=entry.start_offset,
                )
                return

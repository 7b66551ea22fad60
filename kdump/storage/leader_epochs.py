"""The leader epochs of a partition as the broker keeps them while it loads the log."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from kdump.blocks import BatchBlock
from kdump.errors import ILLEGAL_ARGUMENT, LoadError
from kdump.formats.checkpoints import EpochEntry, format_leader_epochs
from kdump.formats.names import LEADER_EPOCH_CHECKPOINT


class EpochCache:
    """Leader epochs and the first offset (absolute) of each, in ascending order of the epochs.

    `is_written`: the broker has rewritten the file since it read it, be it with the same entries.
    """

    def __init__(self, entries: Iterable[EpochEntry]) -> None:
        """Start with the entries of the file, each assigned in its turn. Raises LoadError for a negative number."""
        self.entries: list[EpochEntry] = []
        for entry in entries:
            self.assign(entry.epoch, entry.start_offset, LEADER_EPOCH_CHECKPOINT)
        self.is_written = False

    @property
    def latest_epoch(self) -> int:
        """The highest epoch; -1 without any."""
        return self.entries[-1].epoch if self.entries else -1

    def assign(self, epoch: int, start_offset: int, file: str) -> None:
        """Note that a leader of `epoch` wrote from `start_offset` on. Raises LoadError for a negative number.

        Entries that contradict it go. `file` is the .log that says so.
        """
        if epoch < 0 or start_offset < 0:
            text = (
                "Received invalid partition leader epoch entry"
                f" EpochEntry[epoch={epoch}, startOffset={start_offset}]"
            )
            raise LoadError(ILLEGAL_ARGUMENT, text, file)
        entries = self.entries
        if entries and entries[-1].epoch == epoch and start_offset >= entries[-1].start_offset:
            return
        while entries and (entries[-1].epoch >= epoch or entries[-1].start_offset >= start_offset):
            entries.pop()
        entries.append(EpochEntry(epoch, start_offset))
        self.is_written = True

    def assign_all(self, batches: BatchBlock) -> None:
        """Note the leaders of batches as an append does; those of v0 and v1 know none, and end what is known.

        Raises LoadError for a negative number.
        """
        for row in range(batches.length):
            if batches.magic[row] >= 2:
                self.assign(batches.leader_epoch[row], batches.base_offset[row], LEADER_EPOCH_CHECKPOINT)
            elif self.entries:
                self.clear()

    def truncate_from_end(self, end_offset: int) -> None:
        """Forget the epochs that begin at `end_offset` or later."""
        while end_offset >= 0 and self.entries and self.entries[-1].start_offset >= end_offset:
            self.entries.pop()
            self.is_written = True

    def truncate_from_start(self, start_offset: int) -> None:
        """Forget the epochs that end before `start_offset`; the one that goes on there begins there now."""
        later = (number for number, entry in enumerate(self.entries) if entry.start_offset > start_offset)
        ended = next(later, len(self.entries))
        if ended:
            self.entries[:ended] = [EpochEntry(self.entries[ended - 1].epoch, start_offset)]
            self.is_written = True

    def clear(self) -> None:
        """Forget all epochs."""
        self.entries.clear()
        self.is_written = True

    def content(self) -> bytes:
        """Return the file as the broker writes it."""
        return format_leader_epochs(self.entries)


class EpochEnd(NamedTuple):
    """An epoch, and the offset (absolute) where the next one begins, or the log's end."""

    epoch: int
    offset: int


def end_of_epoch(entries: Sequence[EpochEntry], epoch: int, log_end: int) -> EpochEnd:
    """Return the largest epoch up to `epoch`, or else itself, with its end (LeaderEpochFileCache.endOffsetFor)."""
    at = bisect_right(entries, epoch, key=lambda entry: entry.epoch)
    end = entries[at].start_offset if at < len(entries) else log_end
    return EpochEnd(entries[at - 1].epoch if at else epoch, end)


def loaded_epochs(entries: Iterable[EpochEntry], log_start_offset: int, end_offset: int | None) -> list[EpochEntry]:
    """Return the epochs of a checkpoint that a broker has once the log is loaded: cut at its ends (absolute offsets).

    Without an `end_offset` not at its end (LogLoader.load). Raises LoadError for a negative number.
    """
    cache = EpochCache(entries)
    if end_offset is not None:
        cache.truncate_from_end(end_offset)
    cache.truncate_from_start(log_start_offset)
    return cache.entries

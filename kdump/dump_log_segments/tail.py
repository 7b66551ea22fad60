"""How the tool of Kafka 4.3 reads a log for an entry of its time index: to the end, where it dies of a bad batch."""

from __future__ import annotations

from array import array
from bisect import bisect_left

from kdump.errors import CorruptRecordError
from kdump.formats.faults import UNDERSIZED, undersized_error
from kdump.storage.log_reader import LogFile


class Tail:
    """The batches of a log from any byte on to its end.

    Kafka reads them again for each entry. Here a batch is read once, however many entries lead to it.
    """

    def __init__(self, log: LogFile) -> None:
        self._log = log
        self._positions = array("q")
        self._error: CorruptRecordError | None = None

    def read(self, start: int) -> None:
        """Read from byte `start` to the end. Raises CorruptRecordError."""
        if not self._is_known(start):
            self._walk(start)
        if self._error is not None:
            raise self._error

    def _is_known(self, position: int) -> bool:
        at = bisect_left(self._positions, position)
        return at < len(self._positions) and self._positions[at] == position

    def _walk(self, start: int) -> None:
        """Read up to a batch that is known to lead to the end, or to the end itself."""
        positions = array("q")
        for block in self._log.blocks(start, whole=False):
            found = block.position[: block.length]
            known = next((at for at, position in enumerate(found) if self._is_known(position)), None)
            if known is not None:
                positions.extend(found[:known])
                if positions and positions[-1] < self._positions[0]:
                    self._positions = positions + self._positions
                return
            positions.extend(found)
        self._positions = positions
        self._error = undersized_error(block.bad_size, self._log.path) if block.status == UNDERSIZED else None

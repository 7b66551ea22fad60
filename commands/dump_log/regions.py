"""Large logs in dump-log: several threads render them, region by region; the text comes in the log's order."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator

from kdump import kernels
from kdump.blocks import BatchBlock
from kdump.formats.batch import FRAME_SIZE, wrap64
from kdump.storage.log_reader import LogFile
from kdump.storage.parallel import ordered
from kdump.storage.payloads import inflate

REGION_SIZE = 1 << 20
"""As large as batches usually may be."""
LIMIT = 4 << 20
"""Decompressed bytes of a batch beyond which it is left to one thread, so that several do not need them at once."""
MOST_RECORDS = 1 << 16
"""The same for records, whose lines may be many times larger than they are."""
MOST_HELD = 4 << 20
"""Bytes of text of a region beyond which the rest of it is left to one thread."""


class Region:
    """Bytes `start` to `stop` of a log, whole entries as far as their sizes tell, and what a thread makes of them.

    `text` holds the lines of what is in front of byte `position`.
    """

    def __init__(self, text: kernels.LogText) -> None:
        """`text` must hold its text back, and go deep."""
        self.text = text
        self.start = self.stop = self.position = 0
        self._block = BatchBlock()
        self._block.data = self._data = bytearray(2 * REGION_SIZE)

    def read(self, log: LogFile, start: int, stop: int) -> bool:
        """Begin anew with the entries from byte `start` on that lie in front of byte `stop`; whether there are any.

        Raises OSError.
        """
        self.text.restart()
        self.start = self.stop = self.position = self._block.data_position = start
        most = min(stop - start, len(self._data))
        read = log.read_into(memoryview(self._data)[: min(most, REGION_SIZE + FRAME_SIZE)], start)
        if read <= FRAME_SIZE:
            return False
        end = kernels.hop(self._data, 0, read - FRAME_SIZE, most)
        if read < end:
            read += log.read_into(memoryview(self._data)[read:end], start + read)
        self._block.available = read
        self.stop += end if end <= read else 0
        return self.stop > start

    def render(self) -> None:
        """Render it up to what is not ordinary; where records are damaged, nothing of it."""
        block = self._block
        while self.position < self.stop:
            kernels.walk(block, self.position, self.stop, self.stop)
            if not (block.length and self._takes(block)):
                return

    def _takes(self, block: BatchBlock) -> bool:
        """Render a block; whether there may be more."""
        row = 0
        while row < block.length:
            stretch = inflate(block, row, limit=LIMIT)
            if stretch.error or (block.packed and max(block.count[row : stretch.stop]) > MOST_RECORDS):
                return False
            if self.text.render(block, row, stretch.stop, stretch.payloads, _unwritten):
                self.text.restart()
                self.position = self.start
                return False
            row = stretch.stop
            self.position = block.position[row - 1] + block.size[row - 1]
            if self.text.held > MOST_HELD:
                return False
        return True

    def give(self, write: Callable[[memoryview], None], last_offset: int, *, from_zero: bool) -> tuple[int, array[int]]:
        """Write the text, which follows `last_offset` (-1: nothing); its own last offset, and the gaps between offsets.

        With `from_zero` a first offset above 0 follows a gap. Raises OSError.
        """
        text = self.text
        text.flush(write)
        gaps = array("q")
        if text.first_offset is None:
            return last_offset, gaps
        if last_offset != wrap64(text.first_offset - 1) and (last_offset != -1 or from_zero):
            gaps.extend((last_offset, text.first_offset))
        leads_from_nothing = from_zero and text.first_offset != 0  # the region's own start is no gap
        gaps.extend(text.gaps[2:] if leads_from_nothing else text.gaps)
        return text.last_offset, gaps


def rendered(log: LogFile, stop: int, renderer: Callable[[], kernels.LogText], threads: int) -> Iterator[Region]:
    """Yield the regions of a log in front of byte `stop` as they are rendered; `renderer` makes a LogText for one.

    They end in front of an entry that is not passed by its size alone, and may in front of one of more than
    `REGION_SIZE` bytes. Each is used again once the next one is asked for. Raises OSError.
    """
    idle: list[Region] = []

    def regions() -> Iterator[Region]:
        start = 0
        while (region := idle.pop() if idle else Region(renderer())).read(log, start, stop):
            start = region.stop
            yield region

    for region, error in ordered(regions(), Region.render, lambda _: True, threads):
        if error is not None:
            raise error
        yield region
        idle.append(region)


def _unwritten(_: memoryview) -> None:
    raise AssertionError("the text is held back")

"""Large logs in dump-log: several processes print them, region by region."""

from __future__ import annotations

import os
from array import array
from collections.abc import Iterator, Sequence

from kdump import kernels
from kdump.blocks import BatchBlock
from kdump.formats.batch import wrap64
from kdump.storage.log_reader import LogFile
from kdump.storage.payloads import inflate
from kdump.storage.regions import REGION_SIZE, walk_regions

LIMIT = 4 << 20
"""Decompressed bytes of a batch beyond which it is left to one process, so that several do not need them at once."""
MAX_RECORDS = 1 << 16
"""The same for records, whose lines may be many times larger than they are."""


def print_regions(
    log: LogFile, stop: int, texts: Sequence[kernels.LogText], target: int, *, from_zero: bool
) -> tuple[int, int, list[bytes]]:
    """Print the batches before byte `stop` to a file descriptor, each renderer in a process of its own.

    With `from_zero` a first offset above 0 follows a gap. Returned are the byte up to which that led, the last
    record's offset (-1: none), and the gaps between offsets in pieces, each a sequence of 64-bit numbers. Raises
    OSError.
    """
    return walk_regions(log, stop, [Printing(text, target, from_zero=from_zero) for text in texts], REGION_SIZE)


class Printing:
    """What one process prints (storage.regions.Work)."""

    def __init__(self, text: kernels.LogText, target: int, *, from_zero: bool) -> None:
        """`text` must hold its text back, and go deep."""
        self._text = text
        self._target = target
        self._from_zero = from_zero

    @property
    def held(self) -> int:
        """Bytes of text."""
        return self._text.held

    def steps(self, block: BatchBlock) -> Iterator[int]:
        """Render a block; it ends before damage."""
        row = 0
        while row < block.length:
            inflated = inflate(block, row, limit=LIMIT)
            if inflated.error:
                return
            if block.packed and max(block.count[row : inflated.stop]) > MAX_RECORDS:
                return
            if self._text.render(block, row, inflated.stop, inflated.payloads, self._write):
                return
            row = inflated.stop
            yield block.position[row - 1] + block.size[row - 1]

    def give(self, state: int) -> tuple[int, bytes]:
        """Print what was rendered."""
        text = self._text
        text.flush(self._write)
        gaps = array("q")
        if text.first_offset is not None:
            if state != wrap64(text.first_offset - 1) and (state != -1 or self._from_zero):
                gaps.extend((state, text.first_offset))
            leads_from_nothing = self._from_zero and text.first_offset != 0  # the region's own start is no gap
            gaps.extend(text.gaps[2:] if leads_from_nothing else text.gaps)
            state = text.last_offset
        text.restart()
        return state, gaps.tobytes()

    def forget(self) -> None:
        """Forget what was rendered."""
        self._text.restart()

    def _write(self, piece: memoryview) -> None:
        while piece:
            piece = piece[os.write(self._target, piece) :]

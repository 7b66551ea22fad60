"""A .log of a directory on paper: a stretch of a real file, walked as the broker would walk the file it stands for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Self

from kdump.blocks import BatchBlock
from kdump.formats.batch import wrap64
from kdump.formats.faults import SHORT_HEADER, UNDERSIZED, undersized_error
from kdump.recovery.directory import VirtualDirectory
from kdump.recovery.errors import CORRUPT_RECORD, ILLEGAL_ARGUMENT, KAFKA, LoadError
from kdump.recovery.outcome import SourceBytes
from kdump.storage.log_file import LogFile


class LogView:
    """An open .log. Positions are those of the file on paper, in a block those of the real file: see `origin`.

    `origin` is the real position of byte 0, `size` the size in bytes; `file` is None for an empty log.
    """

    def __init__(self, directory: VirtualDirectory, name: str) -> None:
        """Open the .log of this name. Raises OSError."""
        recipe = directory.files[name]
        self.name = name
        self.path = directory.full(name)
        self.size = recipe.size
        self.origin = 0
        self.file: LogFile | None = None
        if isinstance(recipe, SourceBytes) and recipe.size:
            self.origin = recipe.start
            self.file = LogFile(directory.full(recipe.name))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        if self.file:
            self.file.close()

    def blocks(self, position: int = 0, stop: int | None = None) -> Iterator[BatchBlock]:
        """The entries from byte `position` up to byte `stop`; a block need not hold all of its batches' bytes."""
        if self.file:
            end = self.size if stop is None else min(stop, self.size)
            yield from self.file.blocks(self.origin + position, self.origin + end, whole=False)

    def batch_at(self, block: BatchBlock, row: int) -> tuple[BatchBlock, int]:
        """The batch of row `row` in a block that holds its bytes, and its row there."""
        if block.holds(row) or self.file is None:
            return block, row
        return self.file.batch_at(block.position[row], block.size[row]), 0

    def find(self, offset: int, position: int) -> int | None:
        """Where, from byte `position` on, the first batch starts whose last offset is not below `offset`.

        None where there is none. Raises LoadError where Kafka's reader meets something that it cannot walk over.
        """
        for block in self.blocks(position):
            last_offsets = block.last_offset[: block.length]
            if last_offsets and max(last_offsets) >= offset:
                row = next(row for row, last_offset in enumerate(last_offsets) if last_offset >= offset)
                return block.position[row] - self.origin
            self.check_end(block)
        return None

    def end_offset(self, position: int, stop: int | None = None) -> int | None:
        """The offset after the last batch of those from byte `position` to byte `stop`; None without any batch.

        Raises LoadError as `find`.
        """
        end = None
        for block in self.blocks(position, stop):
            if block.length:
                end = wrap64(block.last_offset[block.length - 1] + 1)
            self.check_end(block)
        return end

    def check_end(self, block: BatchBlock) -> None:
        """Raise the LoadError for a walk that ended where Kafka's reader fails; all other ends are silent."""
        if block.status == UNDERSIZED:
            raise LoadError(CORRUPT_RECORD, str(undersized_error(block.bad_size, self.path)), self.name)
        if block.status == SHORT_HEADER:
            position = block.next_position - self.origin
            text = f"Failed to load record batch at position {position} from {self.path}"
            raise LoadError(KAFKA, text, self.name)

    def check_range(self, position: int, stop: int) -> None:
        """Raise the LoadError for a read from byte `position` up to byte `stop` that has a negative size."""
        if stop < position:
            text = f"Invalid size: {stop - position} in read from {self.path}"
            raise LoadError(ILLEGAL_ARGUMENT, text, self.name)

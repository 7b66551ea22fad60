"""A .log of a directory on paper: stretches of a real file, walked as the broker would walk the file they stand for.

Between them there may be bytes that are not on disk yet.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from typing import NamedTuple, Self

from kdump.blocks import BatchBlock
from kdump.errors import CORRUPT_RECORD, ILLEGAL_ARGUMENT, KAFKA, LoadError
from kdump.formats.batch import wrap64
from kdump.formats.faults import SHORT_HEADER, UNDERSIZED, undersized_error
from kdump.storage.log_reader import LogFile
from kdump.storage.planned import VirtualDirectory
from kdump.storage.recipe import NewContent, Part, parts_of


class FileStretch(NamedTuple):
    """Bytes `start` to `stop` - 1 of an open file; `shift` added to a position in it gives the one on paper."""

    file: LogFile
    start: int
    stop: int
    shift: int


class LogView:
    """An open .log. All positions are those of the file on paper; `size` is in bytes."""

    def __init__(self, directory: VirtualDirectory, name: str) -> None:
        """Open the .log of this name. Raises OSError."""
        recipe = directory.files[name]
        self.name = name
        self.path = directory.full(name)
        self.size = recipe.size
        self._files: dict[str, LogFile] = {}
        self._stretches: list[FileStretch] = []
        at = 0
        for part in parts_of(recipe):
            file, start = self._opened(directory, part)
            self._stretches.append(FileStretch(file, start, start + part.size, at - start))
            at += part.size

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        for file in self._files.values():
            file.close()

    def _opened(self, directory: VirtualDirectory, part: Part) -> tuple[LogFile, int]:
        """The open file that a part is in, and where it starts there."""
        if isinstance(part, NewContent):
            return _Unwritten(self.path, part.data), 0
        if part.name not in self._files:
            self._files[part.name] = LogFile(directory.full(part.name))
        return self._files[part.name], part.start

    def blocks(self, position: int = 0, stop: int | None = None, *, gathers: bool = False) -> Iterator[BatchBlock]:
        """The entries from byte `position` up to byte `stop`; a block need not hold all of its batches' bytes.

        `gathers` as for LogFile.blocks.
        """
        for file, start, end, shift in self.stretches(position, stop):
            for block in file.blocks(start, end, whole=False, gathers=gathers):
                _move(block, shift)
                yield block
                _move(block, -shift)  # the walk goes on in the real file

    def stretches(self, position: int = 0, stop: int | None = None) -> Iterator[FileStretch]:
        """Where the bytes from `position` up to `stop` are."""
        stop = self.size if stop is None else min(stop, self.size)
        for each in self._stretches:
            first, last = max(position - each.shift, each.start), min(stop - each.shift, each.stop)
            if first < last:
                yield each._replace(start=first, stop=last)

    def batch_at(self, block: BatchBlock, row: int) -> tuple[BatchBlock, int]:
        """The batch of row `row` in a block that holds its bytes, and its row there."""
        if block.holds(row):
            return block, row
        position, size = block.position[row], block.size[row]
        stretch = next(self.stretches(position, position + size))
        batch = stretch.file.batch_at(stretch.start, size)
        _move(batch, stretch.shift)
        return batch, 0

    def find(self, offset: int, position: int) -> int | None:
        """Where, from byte `position` on, the first batch starts whose last offset is not below `offset`.

        None where there is none. Raises LoadError where Kafka's reader meets something that it cannot walk over.
        """
        for block in self.blocks(position):
            last_offsets = block.last_offset[: block.length]
            if last_offsets and max(last_offsets) >= offset:
                row = next(row for row, last_offset in enumerate(last_offsets) if last_offset >= offset)
                return block.position[row]
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
            text = f"Failed to load record batch at position {block.next_position} from {self.path}"
            raise LoadError(KAFKA, text, self.name)

    def check_range(self, position: int, stop: int) -> None:
        """Raise the LoadError for a read from byte `position` up to byte `stop` that has a negative size."""
        if stop < position:
            text = f"Invalid size: {stop - position} in read from {self.path}"
            raise LoadError(ILLEGAL_ARGUMENT, text, self.name)


class _Unwritten(LogFile):
    """Bytes that stand in a .log on paper only, read as if they were a file."""

    def __init__(self, path: str, data: bytes) -> None:
        self.path = path
        self.size = len(data)
        self.bytes_read = 0
        self._data = data

    def close(self) -> None:
        """There is nothing to close."""

    def read(self, position: int, size: int) -> bytes:
        return self._data[position : position + size]

    def read_into(self, view: memoryview, position: int) -> int:
        data = self._data[position : position + len(view)]
        view[: len(data)] = data
        return len(data)


def _move(block: BatchBlock, distance: int) -> None:
    """Let the positions in a block count from another byte."""
    if distance:
        block.position = array("q", [position + distance for position in block.position])
        block.data_position += distance
        block.next_position += distance

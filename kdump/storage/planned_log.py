"""A .log of a planned directory: walked as the broker would walk the file that it stands for.

Its bytes are ranges of real files; between them there may be some that are not on disk yet.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from itertools import accumulate

from kdump.blocks import BatchBlock
from kdump.disk.reading import ReadOnlyFile
from kdump.errors import CORRUPT_RECORD, ILLEGAL_ARGUMENT, KAFKA, LoadError
from kdump.formats.batch import wrap64
from kdump.formats.faults import BLOCK_FULL, END, NEED_BYTES, SHORT_HEADER, UNDERSIZED, undersized_error
from kdump.storage.log_reader import LogFile
from kdump.storage.planned import PlannedFiles
from kdump.storage.recipe import NewContent, Part, parts_of


class LogView(LogFile):
    """An open planned .log. `name` is that of the file; a block need not hold all of its batches' bytes."""

    def __init__(self, directory: PlannedFiles, name: str) -> None:
        """Open the .log of this name. Raises OSError."""
        recipe = directory.files[name]
        self._directory = directory
        self.name = name
        self.path = directory.full(name)
        self.size = recipe.size
        self.bytes_read = 0
        self._parts = parts_of(recipe)
        self._starts = list(accumulate((part.size for part in self._parts), initial=0))
        self._walked = directory.walked
        self._files: dict[str, ReadOnlyFile] = {}
        if self._walked is None:
            for part in self._parts:
                if not isinstance(part, NewContent):
                    self._file(part.name)

    def close(self) -> None:
        """Close the files that its bytes are in."""
        for file in self._files.values():
            file.close()

    def _file(self, name: str) -> ReadOnlyFile:
        """Return one of the files that its bytes are in, opened when it is needed first: a walk may know all of it."""
        file = self._files.get(name)
        if file is None:
            file = self._files[name] = ReadOnlyFile(self._directory.full(name))
        return file

    def read(self, position: int, size: int) -> bytes:
        """Return the bytes from `position` on; fewer at the end. Raises OSError."""
        pieces = list(self._pieces(position, min(size, self.size - position)))
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def read_into(self, view: memoryview, position: int) -> int:
        """Fill `view` with the bytes from `position` on; how many there were. Raises OSError."""
        if len(self._parts) == 1 and not isinstance(part := self._parts[0], NewContent):
            size = max(0, min(len(view), self.size - position))
            return self._file(part.name).read_into(view[:size], part.start + position)
        done = 0
        for part, start, wanted in self._ranges(position, min(len(view), self.size - position)):
            target = view[done : done + wanted]
            if isinstance(part, NewContent):
                target[:] = part.data[start : start + wanted].ljust(wanted, b"\0")
                done += wanted
                continue
            got = self._file(part.name).read_into(target, part.start + start)
            done += got
            if got < wanted:  # the file has become shorter
                break
        return done

    def _pieces(self, position: int, size: int) -> Iterator[bytes]:
        """Yield the bytes from `position` on, part by part; fewer where a file has become shorter."""
        for part, start, wanted in self._ranges(position, size):
            if isinstance(part, NewContent):
                yield part.data[start : start + wanted].ljust(wanted, b"\0")
                continue
            piece = self._file(part.name).read(part.start + start, wanted)
            yield piece
            if len(piece) < wanted:
                return

    def _ranges(self, position: int, size: int) -> Iterator[tuple[Part, int, int]]:
        """Yield the parts that have the bytes from `position` on, each with their start in it and how many they are."""
        number = bisect_right(self._starts, position) - 1
        while size > 0:
            part, start = self._parts[number], position - self._starts[number]
            wanted = min(size, part.size - start)
            yield part, start, wanted
            number, position, size = number + 1, position + wanted, size - wanted

    def blocks(
        self,
        start: int = 0,
        stop: int | None = None,
        *,
        whole: bool = False,
        gathers: bool = False,
        block: BatchBlock | None = None,
    ) -> Iterator[BatchBlock]:
        """Walk as LogFile.blocks, but batches may be held only partly, or not at all if an earlier walk knows them."""
        if whole or self._walked is None:
            yield from super().blocks(start, stop, whole=whole, gathers=gathers, block=block)
            return
        end = self.size if stop is None else min(stop, self.size)
        position, known = start, self._known(start, end)
        while True:
            while known is not None:
                position = known.next_position
                if position == end:
                    known.status = END
                yield known
                if position == end:
                    return
                known = self._known(position, end)
            for walked in super().blocks(position, stop, gathers=gathers, block=block):
                yield walked
                position = walked.next_position
                if walked.status in (BLOCK_FULL, NEED_BYTES):
                    known = self._known(position, end)
                    if known is not None:
                        break
            if known is None:
                return

    def _known(self, position: int, end: int) -> BatchBlock | None:
        """Return the batches from byte `position` on that end by byte `end`, as far as an earlier walk knows them."""
        number = bisect_right(self._starts, position) - 1
        if self._walked is None or not 0 <= position < end or number >= len(self._parts):
            return None
        part, start = self._parts[number], self._starts[number]
        if isinstance(part, NewContent):
            return None
        moved = start - part.start
        stop = min(end, start + part.size) - moved
        return self._walked.block(part.name, position - moved, stop, moved)

    def find(self, offset: int, position: int) -> int | None:
        """Find where, from byte `position` on, the first batch starts whose last offset is not below `offset`.

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
        """Return the offset after the last batch of those from byte `position` to byte `stop`; None without any batch.

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
            error = LoadError(CORRUPT_RECORD, str(undersized_error(block.bad_size, self.path)), self.name)
        elif block.status == SHORT_HEADER:
            text = f"Failed to load record batch at position {block.next_position} from {self.path}"
            error = LoadError(KAFKA, text, self.name)
        else:
            return
        error.position = block.next_position
        raise error

    def check_range(self, position: int, stop: int) -> None:
        """Raise the LoadError for a read from byte `position` up to byte `stop` that has a negative size."""
        if stop < position:
            text = f"Invalid size: {stop - position} in read from {self.path}"
            raise LoadError(ILLEGAL_ARGUMENT, text, self.name)

"""Lines of input, with their numbers; and plain lines as records: a value, or a key and a value."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import BinaryIO, NamedTuple

from kdump.errors import KdumpError, check_callable, check_type
from kdump.formats.encode import NewRecord
from kdump.interchange.dumped import NO_OFFSET, Item

MAX_LINE = 1 << 30


class InterchangeError(KdumpError):
    """A line of the input is not what it should be.

    `line` is its number, counted from 1, `field` the one that is wrong; None where it is not one of them.
    """

    def __init__(self, source: str, line: int, what: str, field: str | None = None) -> None:
        super().__init__(f"{source}, line {line}: {what}")
        self.line = line
        self.field = field


class Lines:
    """The lines of a file, without their line feeds; `number` is that of the last one, `name` that of the file."""

    def __init__(self, stream: BinaryIO, name: str, waiting: Callable[[bool], object] = bool) -> None:
        """Read `lines`; `waiting` is told when a line is waited for, and when it has come."""
        self.name = name
        self.number = 0
        self._stream = stream
        self._waiting = waiting

    def __iter__(self) -> Iterator[bytes]:
        while True:
            self._waiting(True)
            line = self._stream.readline(MAX_LINE)
            self._waiting(False)
            if not line:
                return
            self.number += 1
            if len(line) == MAX_LINE:
                raise self.error(f"longer than {MAX_LINE} bytes")
            yield line.removesuffix(b"\n")

    def text(self) -> Iterator[str]:
        """Yield the lines as text. Raises InterchangeError where one is not UTF-8."""
        for line in self:
            try:
                yield line.decode()
            except UnicodeDecodeError as error:
                raise self.error(f"not UTF-8 at byte {error.start} of the line") from None

    def error(self, what: str, field: str | None = None) -> InterchangeError:
        """Return what is wrong with the last line, and with which field of it."""
        return InterchangeError(self.name, self.number, what, field)


class Reading(NamedTuple):
    """How input is read.

    `timestamp` (ms) is that of records without one, by a clock. `keeps_batches`: batches are made again as the lines of
    batches say; else those lines, and control records, are skipped. `key_separator` and `null_marker` are for lines.
    """

    timestamp: Callable[[], int]
    keeps_batches: bool = True
    key_separator: bytes | None = None
    null_marker: bytes | None = None

    def check(self) -> None:
        """Raise ValueError, TypeError for what makes no sense."""
        check_callable("timestamp", self.timestamp)
        check_type("keeps_batches", self.keeps_batches, bool)
        for name in ("key_separator", "null_marker"):
            check_type(name, getattr(self, name), bytes, may_be_none=True)
        if self.key_separator == b"":
            raise ValueError("key_separator is empty: expected one byte or more")


def read_lines(lines: Lines, reading: Reading) -> Iterator[Item]:
    """Yield a record a line: its value, or key and value where there is a separator. Raises InterchangeError."""
    separator, null = reading.key_separator, reading.null_marker
    for line in lines:
        key: bytes | None = None
        value: bytes | None = line.removesuffix(b"\r")
        if separator is not None:
            key, found, value = line.removesuffix(b"\r").partition(separator)
            if not found:
                raise lines.error(f"no key separator ({separator!r:.40}) in it")
        if null is not None:
            key, value = (None if part == null else part for part in (key, value))
        yield NewRecord(NO_OFFSET, reading.timestamp(), key, value)

"""What Kafka's own dump tool prints of files, as data."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import closing
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kdump.dump_log_segments.options import DumpLogOptions

from kdump.errors import JavaError, check_type
from kdump.library.arguments import release_of
from kdump.storage.open import Path, path_texts


class DumpedLog:
    """The lines that the tool prints on stdout, while they are iterated over; after the last one, how it ended.

    The file that is dumped is open meanwhile: use `with` where not all lines are asked for.
    """

    def __init__(self, files: tuple[str, ...], options: DumpLogOptions) -> None:
        """`files` are dumped one after the other."""
        from kdump.dump_log_segments.run import DumpLogSegments

        self._pieces = _Pieces()
        self._run = DumpLogSegments(options, self._pieces)
        self._lines = self._each(files)

    def __iter__(self) -> Iterator[str]:
        return self._lines

    def __enter__(self) -> DumpedLog:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file that is being dumped; there are no more lines."""
        self._lines.close()

    @property
    def error(self) -> JavaError | None:
        """The exception of the JVM that ends the tool, by its class and text; None where it ends well."""
        return self._run.error

    @property
    def exit_status(self) -> int:
        """0, or 1 where an exception ends the tool."""
        return self._run.exit_status

    @property
    def stderr(self) -> tuple[str, ...]:
        """The lines that the tool prints on stderr: what does not fit in the files, or else the exception."""
        return tuple(self._run.stderr())

    def _each(self, files: tuple[str, ...]) -> Generator[str, None, None]:
        with closing(self._run.steps(files)) as steps:
            for _ in steps:
                yield from self._pieces.lines()
        yield from self._pieces.lines()


class _Pieces:
    """Keeps what is printed until it is asked for (Sink)."""

    def __init__(self) -> None:
        self._held: list[bytes] = []

    def write(self, text: bytes | memoryview) -> None:
        self._held.append(bytes(text))

    def flush(self) -> None:
        """Do nothing: there is nowhere else that it has to go."""

    def descriptor(self) -> None:
        """Return None: no other process could write here."""

    def lines(self) -> list[str]:
        text = b"".join(self._held).decode("utf-8", "surrogateescape")
        self._held.clear()
        return text.split("\n")[:-1]


def dump_log(*files: Path, options: DumpLogOptions | None = None, release: str | None = None) -> DumpedLog:
    """Print files as kafka-dump-log.sh of a release does: the lines of stdout, then `stderr` and `exit_status`.

    A file is known by the end of its name: .log, .index, .timeindex, .txnindex, .snapshot or .checkpoint. The .log of
    an index is read from the same directory. What ends Kafka's tool ends the lines, and is the `error`. `release` is
    one of 3.9 and later, by default the newest. Raises ValueError and TypeError for options that the tool does not
    have. (Kafka: DumpLogSegments)
    """
    from kdump.dump_log_segments.options import DumpLogOptions

    check_type("options", options, DumpLogOptions, may_be_none=True)
    chosen = options or DumpLogOptions()
    if (known := release_of(release)) is not None:
        chosen = chosen._replace(release=known)
    chosen.check()
    return DumpedLog(tuple(path_texts(files, "files")), chosen)

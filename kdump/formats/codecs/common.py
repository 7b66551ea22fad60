"""What the codecs share: their names, the bound on what they put out, and the errors they all know."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kdump.errors import IO_EXCEPTION, CodecError, CodecLimitError, CodecMissingError

Buffer = bytes | bytearray | memoryview

NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)
NAMES = ("none", "gzip", "snappy", "lz4", "zstd")

KAFKA_STEP = 16 << 10
"""Bytes that Kafka's buffered readers ask of a gzip or zstd stream at once."""


class StreamError(CodecError):
    """The stream that Kafka reads the payload from fails.

    `exception` is the class that the stream throws, with its package, and `kafka_text` that exception's message; empty:
    it has none.
    """

    def __init__(self, text: str, exception: str = IO_EXCEPTION, kafka_text: str | None = None) -> None:
        super().__init__(text)
        self.exception = exception
        self.kafka_text = text if kafka_text is None else kafka_text


class LimitError(CodecLimitError):
    """The payload grows past the limit."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"The payload decompresses to more than the limit of {limit} bytes")


def bounded(pieces: Iterable[bytes], limit: int) -> Iterator[bytes]:
    """Pass `pieces` on as long as they come to no more than `limit` bytes. Raises LimitError."""
    total = 0
    for piece in pieces:
        total += len(piece)
        if total > limit:
            raise LimitError(limit)
        yield piece


def recut(pieces: Iterable[bytes], size: int, *, reads_ahead: bool = False) -> Iterator[bytes]:
    """Cut `pieces` again, so that an error comes as it does to a reader that asks for `size` bytes at once.

    Such a reader gets nothing of the portion in which the error falls, unless it had got all before: an empty piece
    says that it has. A stream that `reads_ahead` goes on to the next piece when a portion is full, before it hands
    the portion over.
    """
    rest = b""
    for piece in pieces:
        rest += piece
        end = len(rest)
        if piece:
            end -= 1 if reads_ahead else 0
            end -= end % size
        yield rest[:end]
        rest = rest[end:]
    yield rest


def join(pieces: Iterable[bytes], limit: int) -> bytes:
    """Return all of `pieces`, which are at most `limit` bytes. Raises LimitError."""
    got = []
    total = 0
    for piece in pieces:
        if piece:
            total += len(piece)
            if total > limit:
                raise LimitError(limit)
            got.append(piece)
    return got[0] if len(got) == 1 else b"".join(got)


def missing(codec: int, package: str) -> CodecMissingError:
    """Return the error for a codec whose library is not there."""
    name = NAMES[codec]
    return CodecMissingError(f"{name} needs the package {package}, which is not installed: pip install {package}")


def library_text(error: Exception) -> str:
    """Return what a library found wrong, without the name of its function that says so."""
    return str(error).rpartition(": ")[2]

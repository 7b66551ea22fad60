"""snappy payloads: the stream of xerial's snappy-java, which Kafka writes, or one bare snappy block.

The stream (big-endian); its header may come again where the length of a chunk is due:

| byte | width | meaning |
|---|---|---|
| 0 | 8 | magic 82 53 4E 41 50 50 59 00 |
| 8 | int32 | version, 1 |
| 12 | int32 | oldest version that can read it, 1 |
| 16 | int32 | length of the chunk |
| 20 | … | the chunk: a snappy block of at most 32 KiB as Kafka writes them; then the next chunk's length |

A payload without the magic is one snappy block, which starts with the length of its output as a varint of at most
5 bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct

from kdump.errors import IO_EXCEPTION, CodecError
from kdump.formats.codecs.common import SNAPPY, Buffer, LimitError, StreamError, join, missing, recut

KAFKA_STEP = 2 << 10
"""Bytes that Kafka's buffered reader asks of a snappy stream at once."""

_MAGIC = bytes.fromhex("82534e4150505900")
_MAGIC_HEAD = int.from_bytes(_MAGIC[:4], "big", signed=True)
_VERSIONS = Struct(">ii")
_HEADER = _MAGIC + _VERSIONS.pack(1, 1)
_HEADER_SIZE = 16
_LENGTH = Struct(">i")
_CHUNK_SIZE = 32 << 10
_MAX_CHUNK = 512 << 20  # snappy-java's own limit
_EMPTY = "Cannot decompress empty stream"
_MAX_EXPANSION = 22  # the densest element makes 64 bytes of 3


class ChunkSizeError(StreamError):
    """The length of a chunk is none, of which snappy-java makes an error that Kafka does not catch."""

    def __init__(self, text: str, code: str) -> None:
        super().__init__(text, "org.xerial.snappy.SnappyError", f"[{code}] {text}")


def decompress(data: Buffer, _magic: int, limit: int) -> bytes:
    """Return the output of all chunks, of at most `limit` bytes. Raises CodecError, LimitError."""
    return join(pieces(data, limit), limit)


def kafka_pieces(data: Buffer, _magic: int, limit: int) -> Iterator[bytes]:
    """Yield an empty piece once the stream is open, then the output in Kafka's portions. Raises as `pieces`."""
    return recut(pieces(data, limit), KAFKA_STEP)


def pieces(data: Buffer, limit: int) -> Iterator[bytes]:
    """Yield an empty piece once the stream is open, then the output chunk by chunk.

    Raises CodecError, LimitError before a chunk that would take the output past `limit` bytes.
    """
    view = memoryview(data)
    total = len(view)
    if not total:
        raise StreamError(_EMPTY, "org.xerial.snappy.SnappyIOException", f"[EMPTY_INPUT] {_EMPTY}")
    if total < _HEADER_SIZE or view[:8] != _MAGIC:
        block = _decompress_block(view, "the payload, a bare block", 0, limit)
        yield b""
        yield block
        return
    yield b""
    at = _HEADER_SIZE
    chunks = output = portion = 0
    while total - at >= _LENGTH.size:
        (size,) = _LENGTH.unpack_from(view, at)
        if size == _MAGIC_HEAD:
            if not _is_header(view[at : at + _HEADER_SIZE]):
                # snappy-java ends the portion it was asked for; Kafka takes an empty one for the end.
                if not (output - portion) % KAFKA_STEP:
                    return
                portion = output
                yield b""
            at += _HEADER_SIZE
            continue
        _check_size(size)
        if size > total - at - 4:
            raise StreamError("failed to read chunk")
        chunks += 1
        where = f"chunk {chunks} at byte {at} of the payload"
        piece = _decompress_block(view[at + 4 : at + 4 + size], where, output, limit)
        output += len(piece)
        if piece:
            yield piece
        at += 4 + size


def compress(data: Buffer, _magic: int, _level: int | None) -> bytes:
    """Return a stream of chunks as Kafka's writer frames it."""
    try:
        import snappy
    except ImportError:
        raise missing(SNAPPY, "python-snappy") from None
    out = [_HEADER]
    view = memoryview(data)
    for at in range(0, len(view), _CHUNK_SIZE):
        block: bytes = snappy.compress(bytes(view[at : at + _CHUNK_SIZE]))
        out += _LENGTH.pack(len(block)), block
    return b"".join(out)


def _check_size(size: int) -> None:
    if size < 0:
        text = f"chunkSize is too big or negative : {size}"
        raise ChunkSizeError(text, "INVALID_CHUNK_SIZE")
    if size > _MAX_CHUNK:
        text = f"Received chunkSize {size:,} is greater than max configured chunk size {_MAX_CHUNK:,}"
        raise ChunkSizeError(text, "FAILED_TO_UNCOMPRESS")


def _is_header(header: memoryview) -> bool:
    """Return whether this is a header, and not just the head of its magic. Raises CodecError."""
    if len(header) < _HEADER_SIZE:
        raise StreamError("Insufficient header size in a concatenated block")
    if header[:8] != _MAGIC:
        return False
    version, _ = _VERSIONS.unpack_from(header, 8)
    if version < 1:
        raise StreamError(f"Compressed with an incompatible codec version {version}. At least version 1 is required")
    return True


def _decompress_block(block: memoryview, where: str, output: int, limit: int) -> bytes:
    try:
        import snappy
    except ImportError:
        raise missing(SNAPPY, "python-snappy") from None
    length = _output_size(block)
    if length is None:
        raise _block_error("PARSING_ERROR(2)", f"{where}, does not start with a length")
    if length > _MAX_EXPANSION * len(block):
        raise _block_error("FAILED_TO_UNCOMPRESS(5)", f"{where}, has no room for the length it gives, {length}")
    if output + length > limit:
        raise LimitError(limit)
    try:
        piece: bytes = snappy.uncompress(block)
    except snappy.UncompressError:
        raise _block_error("FAILED_TO_UNCOMPRESS(5)", f"{where}, is corrupt") from None
    return piece


def _block_error(code: str, text: str) -> CodecError:
    """Return the error for a block, of which snappy-java says a code alone."""
    return StreamError(f"{code}: {text}", IO_EXCEPTION, code)


def _output_size(block: memoryview) -> int | None:
    """Return the varint at the start of a snappy block, which fits 32 bits, or None."""
    size = shift = 0
    for byte in block[:5]:
        size |= (byte & 0x7F) << shift
        if byte < 0x80:
            return size if size < 1 << 32 else None
        shift += 7
    return None

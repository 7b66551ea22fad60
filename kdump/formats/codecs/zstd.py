"""zstd payloads: frames, read as zstd-jni's stream reads them.

A frame, as far as its end is looked for here (little-endian):

| byte | width | meaning |
|---|---|---|
| 0 | 4 | magic 28 B5 2F FD; 5x 2A 4D 18 for a frame to skip, whose length (uint32) and bytes follow |
| 4 | 1 | descriptor: bits 7-6 width of the content size; 5 single segment; 2 checksum; 1-0 width of the dictionary id |
| then | 1 | window, unless single segment |
| then | 0, 1, 2 or 4 | dictionary id |
| then | 0, 1, 2, 4 or 8 | content size; Kafka writes none |
| then | 3 | block: bit 0 last one; bits 2-1 type, 1 for a run of one byte; the others its size |
| then | … | the block, one byte for a run; then the next block |
| end | 0 or 4 | checksum of the content |
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING, Any

from kdump.errors import CodecError
from kdump.formats.codecs.common import KAFKA_STEP, ZSTD, Buffer, StreamError, join, library_text, missing, recut

if TYPE_CHECKING:
    from zstandard import ZstdCompressor, ZstdDecompressor

BLOCKS = 8
"""Blocks that are decompressed at once: each gives at most 128 KiB."""

_MAGIC = 0xFD2FB528
_DICTIONARY_ID_WIDTHS = (0, 1, 2, 4)
_PLAIN_FRAME = _MAGIC.to_bytes(4, "little") + b"\0"
_PLAIN_HEADER_SIZE = 6
_RUN = 1
_MIN_FRAME = 8
_BLOCK_HEADER_SIZE = 3
_SMALL_OUTPUT = 1 << 20  # more than BLOCKS blocks give
_JNI_FEED = 131075  # input bytes that zstd-jni takes at once
_DEFAULT_LEVEL = 3


def decompress(data: Buffer, _magic: int, limit: int) -> bytes:
    """Return all output, of at most `limit` bytes. Raises CodecError, LimitError."""
    view = memoryview(data)
    # what nearly all batches are: one frame of few blocks, which the library may have at once
    if limit >= _SMALL_OUTPUT and _is_small_frame(view):
        try:
            return _decompressor().decompressobj().decompress(view)
        except _library().ZstdError as error:
            raise _zstd_error(library_text(error)) from None
    return join(pieces(view), limit)


def kafka_pieces(data: Buffer, _magic: int, _limit: int) -> Iterator[bytes]:
    """Yield an empty piece once the stream is open, then the output in Kafka's portions. Raises CodecError."""
    return recut(pieces(data, blocks_at_once=1), KAFKA_STEP, reads_ahead=True)


def pieces(data: Buffer, blocks_at_once: int = BLOCKS) -> Iterator[bytes]:
    """Yield an empty piece once the stream is open, then the output with one more after each frame. Raises CodecError.

    A piece is the output of at most `blocks_at_once` blocks, so at most as many times 128 KiB. That the last frame is
    cut short goes unnoticed, as by zstd-jni, if another frame ended in the same portion of its input.
    """
    yield b""
    view = memoryview(data)
    total = len(view)
    if not total:
        return
    zstandard = _library()
    decoder = _decompressor().decompressobj(read_across_frames=True)
    last_end = 0
    for start, end, ends_frame in _cuts(view, blocks_at_once):
        try:
            piece = decoder.decompress(view[start:end])
        except zstandard.ZstdError as error:
            raise _zstd_error(library_text(error)) from None
        if piece:
            yield piece
        if ends_frame:
            last_end = end
            yield b""
    if last_end != total and last_end <= (total - 1) // _JNI_FEED * _JNI_FEED:
        yield b""
        raise _zstd_error("Truncated source")


def compress(data: Buffer, _magic: int, level: int | None) -> bytes:
    """Return one frame, byte for byte Kafka's: it flushes before it closes, so that an empty block comes last."""
    zstandard = _library()
    stream = _compressor(_DEFAULT_LEVEL if level is None else level).compressobj()
    flushed = stream.compress(data) + stream.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)
    return flushed + stream.flush()


def _zstd_error(text: str) -> CodecError:
    return StreamError(text, "com.github.luben.zstd.ZstdIOException")


def _is_small_frame(view: memoryview) -> bool:
    """Return whether `view` is one whole frame, without options, of no more than BLOCKS blocks."""
    total = len(view)
    if total < _MIN_FRAME or view[:5] != _PLAIN_FRAME:
        return False
    at = _PLAIN_HEADER_SIZE
    for _ in range(BLOCKS):
        if total - at < _BLOCK_HEADER_SIZE:
            return False
        block = view[at] | view[at + 1] << 8 | view[at + 2] << 16
        at += _BLOCK_HEADER_SIZE + (1 if block >> 1 & 3 == _RUN else block >> 3)
        if block & 1:
            return at == total
    return False


def _cuts(view: memoryview, blocks_at_once: int) -> Iterator[tuple[int, int, bool]]:
    """Cut `view` into ranges of so many blocks at most: start, end, and whether a frame ends there.

    The library puts out all that its input holds, so that the blocks of the input are what bounds the output. Where
    the input is not zstd's the cuts make no sense, and the library stops at the first of them.
    """
    total = len(view)
    start = 0
    while total - start >= _MIN_FRAME:
        if int.from_bytes(view[start : start + 4], "little") != _MAGIC:
            at = start + 8 + int.from_bytes(view[start + 4 : start + 8], "little")
        else:
            descriptor = view[start + 4]
            at = start + _frame_header_size(descriptor)
            blocks = last = 0
            while not last and total - at >= _BLOCK_HEADER_SIZE:
                block = int.from_bytes(view[at : at + _BLOCK_HEADER_SIZE], "little")
                last = block & 1
                at += _BLOCK_HEADER_SIZE + (1 if block >> 1 & 3 == _RUN else block >> 3)
                blocks += 1
                if blocks == blocks_at_once and at <= total:
                    yield start, at, False
                    start = at
                    blocks = 0
            at += (4 if descriptor & 0x04 else 0) if last else _BLOCK_HEADER_SIZE
        yield start, min(at, total), at <= total
        start = at
    if start < total:
        yield start, total, False


def _frame_header_size(descriptor: int) -> int:
    single_segment = descriptor >> 5 & 1
    content_size_code = descriptor >> 6
    content_size_width = 1 << content_size_code if content_size_code else single_segment
    return 6 - single_segment + _DICTIONARY_ID_WIDTHS[descriptor & 3] + content_size_width


def _library() -> Any:
    try:
        import zstandard
    except ImportError:
        raise missing(ZSTD, "zstandard") from None
    return zstandard


@cache
def _context() -> Any:
    """Return what each thread keeps for itself: to make a context takes longer than to decompress a small batch."""
    from threading import local

    return local()


def _decompressor() -> ZstdDecompressor:
    context = _context()
    try:
        decompressor: ZstdDecompressor = context.decompressor
    except AttributeError:
        decompressor = context.decompressor = _library().ZstdDecompressor()
    return decompressor


def _compressor(level: int) -> ZstdCompressor:
    context = _context()
    if getattr(context, "level", None) != level:
        context.compressor = _library().ZstdCompressor(level=level, write_content_size=False)
        context.level = level
    compressor: ZstdCompressor = context.compressor
    return compressor

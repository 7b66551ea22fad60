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
from typing import TYPE_CHECKING, Any

from kdump.errors import CodecError
from kdump.formats.codecs.common import KAFKA_STEP, STEP, ZSTD, Buffer, join, library_text, missing

if TYPE_CHECKING:
    from zstandard import ZstdCompressor, ZstdDecompressor

_MAGIC = 0xFD2FB528
_FIRST_BYTE = 0x28  # of every frame but those to skip
_DICTIONARY_ID_WIDTHS = (0, 1, 2, 4)
_RUN = 1
_JNI_FEED = 131075  # input bytes that zstd-jni takes at once
_DEFAULT_LEVEL = 3

_contexts: Any = None  # a threading.local: a context must never serve two threads


def decompress(data: Buffer, limit: int) -> bytes:
    """The output of all frames. Raises CodecError, LimitError past `limit` bytes."""
    if 0 < len(data) <= _JNI_FEED and data[0] == _FIRST_BYTE:
        zstandard = _library()
        most = min(limit, STEP)
        try:
            # The library allocates what the frame says its content is or, if it does not say, what we say; and of
            # bytes beyond the first frame it tells us only in the former case.
            size = zstandard.get_frame_parameters(data).content_size
            if (size == zstandard.CONTENTSIZE_UNKNOWN or 0 < size <= most) and _frame_end(data, 0) == len(data):
                return _decompressor().decompress(data, max_output_size=most)
        except zstandard.ZstdError:
            pass  # more output or damage: for the stream to find out
    return join(_pieces(data, STEP), limit)


def kafka_pieces(data: Buffer) -> Iterator[bytes]:
    """An empty piece once the stream is open, then the output in the portions that Kafka gets. Raises CodecError."""
    return _pieces(data, KAFKA_STEP)


def compress(data: Buffer, level: int | None) -> bytes:
    """One frame, byte for byte as Kafka writes it: it flushes before it closes, so that an empty block comes last."""
    zstandard = _library()
    stream = _compressor(_DEFAULT_LEVEL if level is None else level).compressobj()
    flushed = stream.compress(data) + stream.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)
    return flushed + stream.flush()


def _pieces(data: Buffer, step: int) -> Iterator[bytes]:
    yield b""
    if not len(data):
        return
    zstandard = _library()
    with _decompressor().stream_reader(data, read_across_frames=True) as reader:
        while True:
            try:
                piece = reader.read(step)
            except zstandard.ZstdError as error:
                raise CodecError(library_text(error)) from None
            if not piece:
                break
            yield piece
    _check_end(data)


def _check_end(data: Buffer) -> None:
    """Raise CodecError if the last frame is cut short; the frames are known to be sound as far as they go.

    zstd-jni does not notice if another frame ended in the same portion of its input.
    """
    total = len(data)
    end = frame_end = 0
    while frame_end < total:
        frame_end = _frame_end(data, frame_end)
        if frame_end <= total:
            end = frame_end
    if end != total and end <= (total - 1) // _JNI_FEED * _JNI_FEED:
        raise CodecError("Truncated source")


def _frame_end(data: Buffer, at: int) -> int:
    """Where the frame at `at` ends; beyond the end of `data` if it is cut short."""
    beyond = len(data) + 1
    if len(data) - at < 8:
        return beyond
    if int.from_bytes(data[at : at + 4], "little") != _MAGIC:
        return at + 8 + int.from_bytes(data[at + 4 : at + 8], "little")
    descriptor = data[at + 4]
    single_segment = descriptor >> 5 & 1
    content_size_code = descriptor >> 6
    at += 6 - single_segment + _DICTIONARY_ID_WIDTHS[descriptor & 3]
    at += 1 << content_size_code if content_size_code else single_segment
    last = 0
    while not last:
        if len(data) - at < 3:
            return beyond
        block = int.from_bytes(data[at : at + 3], "little")
        last = block & 1
        at += 3 + (1 if block >> 1 & 3 == _RUN else block >> 3)
    return at + (4 if descriptor & 0x04 else 0)


def _library() -> Any:
    try:
        import zstandard
    except ImportError:
        raise missing(ZSTD, "zstandard") from None
    return zstandard


def _context() -> Any:
    """What this thread keeps: to make a context takes longer than to decompress a small batch."""
    global _contexts
    if _contexts is None:
        import threading

        _contexts = threading.local()
    return _contexts


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

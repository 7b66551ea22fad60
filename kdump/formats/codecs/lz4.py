"""lz4 payloads: one LZ4 frame (little-endian), of which Kafka reads a part of what the format allows.

| byte | width | meaning |
|---|---|---|
| 0 | 4 | magic 04 22 4D 18 |
| 4 | 1 | FLG: bits 7-6 version, 01; 5 independent blocks, 1; 4 block checksums; 3 content size; 2 content checksum |
| 5 | 1 | BD: bits 6-4 largest block, 4 to 7 for 64 KiB, 256 KiB, 1 MiB, 4 MiB; the others 0 |
| 6 | 0 or 8 | content size; not checked |
| then | 1 | HC: second byte of the xxh32 of the bytes from FLG on; wrong in magic 0, where it is not checked |
| then | uint32 | length of the block, bit 31 set if it is stored as it is; 0 is the end mark |
| then | … | the block, and its xxh32 (4 bytes) if there are block checksums; then the next block's length |
| end | 0 or 4 | content checksum; must be there, is not checked |

Whatever follows is never looked at. Kafka writes blocks of 64 KiB without any of the options, FLG BD HC 60 40 82. In
magic 0 its hash took in the frame's magic, so HC is 1A.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from struct import Struct
from typing import Any

from kdump.errors import BUFFER_UNDERFLOW, RUNTIME, CodecError
from kdump.formats.codecs.common import LZ4, Buffer, StreamError, join, missing

_MAGIC = bytes.fromhex("04224d18")
_HEADER = _MAGIC + bytes.fromhex("604082")
_HEADER_V0 = _MAGIC + bytes.fromhex("60401a")
_INDEPENDENT_BLOCKS, _BLOCK_CHECKSUMS, _CONTENT_SIZE, _CONTENT_CHECKSUM = 0x20, 0x10, 0x08, 0x04
_ENDED = "Stream ended prematurely"
_LENGTH = Struct("<I")
_STORED = 1 << 31
_END_MARK = bytes(4)
_BLOCK_SIZE = 64 << 10
_MIN_BLOCK_CODE = 4
_CONTENT_SIZE_AT = 6
_MAX_EXPANSION = 255
_START = Struct("<7sI")  # a frame's up to its first block
_FRAME_SIZE = _START.size + 4  # of a frame of one block, without the block
_FAST_LEVEL = 9  # Kafka's default, and the fast compressor; every other level is the dense one's


class CorruptBlockError(StreamError):
    """A block of the payload is corrupt: it starts at byte `start`, and its damage is met at byte `damage`.

    Java counts that byte from the start of the batch: `kafka_cause` is what its message says then.
    """

    def __init__(self, start: int, damage: int) -> None:
        super().__init__(f"LZ4 block at byte {start} of the payload is corrupt")
        self.damage = damage

    def kafka_cause(self, payload_at: int) -> str:
        """Return class and message of the cause, the exception's; `payload_at` is relative to the batch."""
        return f"net.jpountz.lz4.LZ4Exception: Error decoding offset {payload_at + self.damage} of input buffer"


class FieldEndError(StreamError):
    """The stream ends before a field that Kafka's reader takes without looking how much is left."""

    def __init__(self) -> None:
        super().__init__(_ENDED, BUFFER_UNDERFLOW, "")


def decompress(data: Buffer, magic: int, limit: int) -> bytes:
    """Return all output, of at most `limit` bytes. Raises CodecError, LimitError."""
    size = len(data) - _FRAME_SIZE
    if size > 0 and limit >= _BLOCK_SIZE and _START.unpack_from(data) == (_HEADER, size):
        # what nearly all batches are: a header without options, a single block, and probably the end mark
        block = memoryview(data)[_START.size :]
        output = _decompress_block(_library(), block[:size], _BLOCK_SIZE)
        if isinstance(output, bytes) and output and block[size:] == _END_MARK:
            return output
    return join(kafka_pieces(data, magic, limit), limit)


def kafka_pieces(data: Buffer, magic: int, _limit: int) -> Iterator[bytes]:
    """Yield an empty piece once the stream is open, then one for each block. Raises CodecError."""
    library = _library()
    view = memoryview(data)
    total = len(view)
    if view[: len(_HEADER)] == _HEADER:
        at, flags, largest = len(_HEADER), 0x60, _BLOCK_SIZE
    else:
        at, flags, largest = _header(view, magic)
    yield b""
    while True:
        if total - at < _LENGTH.size:
            raise _end_error()
        (size,) = _LENGTH.unpack_from(view, at)
        at += _LENGTH.size
        stored = size & _STORED
        size &= ~_STORED
        if not size:
            if flags & _CONTENT_CHECKSUM and total - at < _LENGTH.size:
                raise FieldEndError()
            return
        block = _block_at(view, at, size, largest)
        piece = bytes(block) if stored else _decompress_block(library, block, largest)
        if isinstance(piece, int):
            raise CorruptBlockError(at, at + piece)
        at += size
        if flags & _BLOCK_CHECKSUMS:
            _check_block(block, view[at : at + _LENGTH.size])
            at += _LENGTH.size
        if not piece:  # Kafka's buffered reader takes a block without output for the end
            return
        yield piece


def _block_at(view: memoryview, at: int, size: int, largest: int) -> memoryview:
    if size > largest:
        raise StreamError(f"Block size {size} exceeded max: {largest}")
    if size > len(view) - at:
        raise _end_error()
    return view[at : at + size]


def compress(data: Buffer, magic: int, level: int | None) -> bytes:
    """Return a frame as Kafka's writer frames it, for `magic` 0 with the wrong header checksum of its time."""
    library = _library()
    dense = level is not None and level != _FAST_LEVEL
    options: dict[str, Any] = {"mode": "high_compression", "compression": level} if dense else {}
    out = [_HEADER_V0 if magic == 0 else _HEADER]
    view = memoryview(data)
    for at in range(0, len(view), _BLOCK_SIZE):
        raw = view[at : at + _BLOCK_SIZE]
        block: bytes = library.compress(raw, store_size=False, **options)
        if len(block) < len(raw):
            out += _LENGTH.pack(len(block)), block
        else:
            out += _LENGTH.pack(len(raw) | _STORED), bytes(raw)
    out.append(_END_MARK)
    return b"".join(out)


def _decompress_block(library: Any, block: memoryview, largest: int) -> bytes | int:
    """Return the output of a block, at most `largest` bytes; where the block is corrupt, how far into it that is."""
    try:
        output: bytes = library.decompress(block, uncompressed_size=min(largest, _MAX_EXPANSION * len(block)))
    except (library.LZ4BlockError, ValueError) as error:
        code = re.search(r"Error code: (\d+)", str(error))
        return int(code[1]) if code else 0
    return output


def _library() -> Any:
    try:
        import lz4.block
    except ImportError:
        raise missing(LZ4, "lz4") from None
    return lz4.block


def _header(view: memoryview, magic: int) -> tuple[int, int, int]:
    """Return the frame header's end, its FLG byte and the size of the largest block."""
    if len(view) < _CONTENT_SIZE_AT:
        raise _end_error()
    if view[:4] != _MAGIC:
        raise StreamError("Stream unsupported (invalid magic bytes)")
    flags, sizes = view[4], view[5]
    version, code = flags >> 6, sizes >> 4 & 0x07
    for is_wrong, text in (
        (flags & 0x03, "Reserved bits must be 0"),
        (not flags & _INDEPENDENT_BLOCKS, "Dependent block stream is unsupported"),
        (version != 1, f"Version {version} is unsupported"),
        (sizes & 0x0F, "Reserved2 field must be 0"),
        (code < _MIN_BLOCK_CODE, f"Block size value must be between {_MIN_BLOCK_CODE} and 7"),
        (sizes & 0x80, "Reserved3 field must be 0"),
    ):
        if is_wrong:
            raise StreamError(text, RUNTIME)
    at = _CONTENT_SIZE_AT + (8 if flags & _CONTENT_SIZE else 0)
    if len(view) <= at:
        raise FieldEndError()
    if magic > 0 and _xxh32(view[4:at]) >> 8 & 0xFF != view[at]:
        raise StreamError("Stream frame descriptor corrupted")
    return at + 1, flags, 1 << (2 * code + 8)


def _check_block(block: memoryview, checksum: memoryview) -> None:
    if len(checksum) < _LENGTH.size:
        raise FieldEndError()
    if _LENGTH.unpack(checksum) != (_xxh32(block),):
        raise StreamError("Block checksum mismatch")


def _end_error() -> CodecError:
    return StreamError(_ENDED)


def _xxh32(data: Buffer) -> int:
    """Return the xxh32 with seed 0, taken from an LZ4 frame: its last four bytes can be that of its content."""
    import lz4.frame

    frame: bytes = lz4.frame.compress(data, content_checksum=True)
    return int.from_bytes(frame[-4:], "little")

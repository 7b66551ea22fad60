"""Compression of batch payloads: decompress exactly what Kafka's readers would deliver, compress as its writers do.

The codec id is held by the low three bits of a batch's attributes:

| id | codec | payload |
|---|---|---|
| 0 | none | the records themselves |
| 1 | gzip | members of RFC 1952, one after the other |
| 2 | snappy | a stream of chunks as xerial's snappy-java writes it, or one bare snappy block |
| 3 | lz4 | one LZ4 frame; what follows its end mark is never looked at |
| 4 | zstd | frames, one after the other, normally without the content's size |

Snappy stream (big-endian); the header may come again where a chunk length is due:

| byte | width | meaning |
|---|---|---|
| 0 | 8 | magic 82 53 4E 41 50 50 59 00 |
| 8 | int32 | version, 1 |
| 12 | int32 | oldest version that can read it, 1 |
| 16 | int32 | length of the chunk, then as many bytes: a snappy block; and so on to the end |

LZ4 frame (little-endian):

| byte | width | meaning |
|---|---|---|
| 0 | 4 | magic 04 22 4D 18 |
| 4 | 1 | FLG: bits 7-6 version 01; 5 independent blocks, must be set; 4 block checksums; 3 content size; 2 content checksum |
| 5 | 1 | BD: bits 6-4 largest block, 4 to 7 for 64 KiB, 256 KiB, 1 MiB, 4 MiB; the others 0 |
| 6 | 0 or 8 | content size; not checked |
| then | 1 | HC: second byte of the xxh32 of the bytes from FLG; wrong in, and not checked for, magic 0 |
| then | uint32 | length of the block, bit 31 set for a block stored as it is; 0 is the end mark |
| | … | the block, then its xxh32 (4 bytes) if FLG asks for block checksums; and so on |
| end | 0 or 4 | content checksum: must be there, is not checked |

Nothing is believed before it is checked: output is counted while it comes, and no length field is allocated from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from struct import Struct
from typing import TYPE_CHECKING, Any

from kdump.errors import CodecError, UnknownCodecError

if TYPE_CHECKING:
    from zstandard import ZstdCompressor, ZstdDecompressor

Buffer = bytes | bytearray | memoryview

NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)
NAMES = ("none", "gzip", "snappy", "lz4", "zstd")
LEVELS = {GZIP: (1, 9), LZ4: (1, 17), ZSTD: (-131072, 22)}
"""Lowest and highest level of each codec that has levels."""

DEFAULT_LIMIT = 1 << 30
"""Bytes that one payload may grow to."""

_STEP = 1 << 20  # most output bytes asked of gzip and zstd at once
_JAVA_STEP = 16 << 10  # what Kafka's readers ask of them at once
_FEED = 64 << 10  # input bytes given to gzip at once: it copies what it does not use up
_JAVA_FEED = 8 << 10  # the input buffer that Kafka gives to Java's GZIPInputStream


def codec_name(codec: int) -> str:
    """Kafka's name of a codec id. Raises UnknownCodecError."""
    _check_codec(codec)
    return NAMES[codec]


def decompress(codec: int, data: Buffer, *, magic: int = 2, limit: int = DEFAULT_LIMIT) -> bytes:
    """The bytes that a Kafka consumer's stream over the payload `data` of a batch would deliver up to its end.

    `magic` is that of the batch or wrapper message; it matters to lz4 alone. `limit` bounds the bytes delivered.
    Raises CodecError where Kafka's stream would fail at any point, where the output grows past `limit` and where the
    codec's library is not installed; UnknownCodecError for the ids 5 to 7.
    """
    _check_codec(codec)
    if codec == ZSTD:
        return _zstd(data, limit)
    if codec == LZ4:
        return _collect(_lz4_pieces(data, magic), limit)
    if codec == SNAPPY:
        return _collect(_snappy_pieces(data, limit), limit)
    if codec == GZIP:
        return _gzip(data, limit)
    return _collect((bytes(data),), limit)


def delivered(
    codec: int, data: Buffer, *, magic: int = 2, limit: int = DEFAULT_LIMIT
) -> tuple[bytes | None, CodecError | None]:
    """What a Kafka consumer gets of a payload before its stream fails, and the failure, if there is one.

    For payloads that `decompress` refuses: Kafka reads records from the stream as it goes, so that it meets records
    before the damage, and may never meet the damage. The bytes are None where the stream cannot even be opened, an
    earlier failure than one on reading. They end where Kafka's own buffers end, which for gzip, snappy and zstd holds
    as long as no record is larger than its buffer (16 KiB; snappy 2 KiB). Raises UnknownCodecError.
    """
    _check_codec(codec)
    if codec == ZSTD:
        pieces = _zstd_pieces(data, _JAVA_STEP)
    elif codec == LZ4:
        pieces = _lz4_pieces(data, magic)
    elif codec == SNAPPY:
        pieces = _snappy_pieces(data, limit)
    elif codec == GZIP:
        pieces = _gzip_pieces(data, *_zlib(), _JAVA_FEED, _JAVA_STEP)
    else:
        pieces = iter((bytes(data),))
    got: list[bytes] = []
    try:
        for piece in _bounded(pieces, limit):
            got.append(piece)
    except CodecError as error:
        if not got:
            return None, error
        whole = b"".join(got)
        return whole[: len(whole) // 2048 * 2048] if codec == SNAPPY else whole, error
    return b"".join(got), None


def compress(codec: int, data: Buffer, *, magic: int = 2, level: int | None = None) -> bytes:
    """Compress the records of a batch into the framing of Kafka's writer for this codec and `magic`.

    `level` is the codec's own (`LEVELS`); None is Kafka's default: gzip 6, lz4 9, zstd 3. gzip and zstd give the
    bytes that Kafka gives; snappy and lz4 the same framing around blocks that may differ. Raises CodecError for a
    level that the codec does not have or a library that is not installed, UnknownCodecError for the ids 5 to 7.
    """
    _check_codec(codec)
    if level is not None:
        _check_level(codec, level)
    if codec == GZIP:
        return _gzip_compress(data, 6 if level is None else level)
    if codec == SNAPPY:
        return _snappy_compress(data)
    if codec == LZ4:
        return _lz4_compress(data, magic, 9 if level is None else level)
    if codec == ZSTD:
        return _zstd_compress(data, 3 if level is None else level)
    return bytes(data)


def _check_codec(codec: int) -> None:
    if not 0 <= codec <= ZSTD:
        raise UnknownCodecError(f"Unknown compression type id: {codec}")


def _check_level(codec: int, level: int) -> None:
    lowest, highest = LEVELS.get(codec, (None, None))
    if lowest is None or highest is None:
        raise CodecError(f"{NAMES[codec]} has no compression levels")
    if not lowest <= level <= highest:
        raise CodecError(f"{NAMES[codec]} has the compression levels {lowest} to {highest}, not {level}")


def _missing(codec: int, package: str) -> CodecError:
    return CodecError(f"{NAMES[codec]} needs the package {package}, which is not installed: pip install {package}")


class _LimitError(CodecError):
    """The payload grows past the limit."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"The payload decompresses to more than the limit of {limit} bytes")


def _bounded(pieces: Iterable[bytes], limit: int) -> Iterator[bytes]:
    total = 0
    for piece in pieces:
        total += len(piece)
        if total > limit:
            raise _LimitError(limit)
        yield piece


def _collect(pieces: Iterable[bytes], limit: int) -> bytes:
    """Join `pieces`, which may start with an empty one."""
    got = [piece for piece in _bounded(pieces, limit) if piece]
    return got[0] if len(got) == 1 else b"".join(got)


# The readers below are generators. Each yields one empty piece once Kafka's stream would be open, then the output.


# gzip

_GZIP_TRAILER = Struct("<II")
_GZIP_HEADER = bytes.fromhex("1f8b08000000000000ff")  # as Java has written it since release 16
_FHCRC, _FEXTRA, _FNAME, _FCOMMENT = 2, 4, 8, 16


def _zlib() -> tuple[Callable[[int], Any], Callable[[Buffer, int], int]]:
    from zlib import crc32, decompressobj

    return decompressobj, crc32


def _gzip(data: Buffer, limit: int) -> bytes:
    try:
        from isal.isal_zlib import IsalError, crc32, decompressobj
    except ImportError:
        return _collect(_gzip_pieces(data, *_zlib(), _FEED, _STEP), limit)
    try:
        return _collect(_gzip_pieces(data, decompressobj, crc32, _FEED, _STEP), limit)
    except _LimitError:
        raise
    except (IsalError, CodecError):
        # zlib, which Java uses, has the last word on what is wrong.
        return _collect(_gzip_pieces(data, *_zlib(), _FEED, _STEP), limit)


def _gzip_pieces(
    data: Buffer, decompressobj: Callable[[int], Any], crc32: Callable[[Buffer, int], int], feed: int, step: int
) -> Iterator[bytes]:
    """Java's GZIPInputStream: it ignores what follows a member and is not the header of another one.

    Whether it looks for another one at all depends on how far its input buffer was filled, hence `filled`.
    """
    from zlib import error as zlib_error

    view = memoryview(data)
    total = len(view)
    at = filled = _gzip_header(view, 0)
    yield b""
    while True:
        member = decompressobj(-15)
        crc = size = 0
        while not member.eof:
            if at == total:
                raise CodecError("Unexpected end of ZLIB input stream")
            pending: Buffer = view[at : at + feed]
            at += len(pending)
            more = True
            while more:
                try:
                    piece = member.decompress(pending, step)
                except zlib_error as error:
                    raise CodecError(_library_text(error)) from None
                if piece:
                    crc = crc32(piece, crc)
                    size += len(piece)
                    yield piece
                pending = member.unconsumed_tail
                more = not member.eof and (len(pending) > 0 or len(piece) == step)
        at -= len(member.unused_data)
        if at > filled:
            filled = min(filled - (filled - at) // _JAVA_FEED * _JAVA_FEED, total)
        _check_gzip_trailer(view[at : at + 8], crc, size)
        # 26 bytes are a trailer, the shortest header and another trailer.
        if filled - at <= 26 and max(filled, at + 8) == total:
            return
        try:
            at = _gzip_header(view, at + 8)
        except CodecError:
            return
        filled = max(filled, at)


def _gzip_header(view: memoryview, start: int) -> int:
    """The end of the member header at `start`. Flags that RFC 1952 reserves are ignored, as Java does."""
    fixed = view[start : start + 10]
    known = bytes(fixed[:3])
    if len(known) >= 2 and known[:2] != b"\x1f\x8b":
        raise CodecError("Not in GZIP format")
    if len(known) == 3 and known[2] != 8:
        raise CodecError("Unsupported compression method")
    if len(fixed) < 10:
        raise _gzip_header_end()
    flags = fixed[3]
    at = start + 10
    if not flags & (_FHCRC | _FEXTRA | _FNAME | _FCOMMENT):
        return at
    if flags & _FEXTRA:
        at += 2 + int.from_bytes(view[at : at + 2], "little")
    if flags & _FNAME:
        at = _after_zero(view, at)
    if flags & _FCOMMENT:
        at = _after_zero(view, at)
    if flags & _FHCRC:
        at += 2
    if at > len(view):
        raise _gzip_header_end()
    if flags & _FHCRC:
        from zlib import crc32

        if crc32(view[start : at - 2]) & 0xFFFF != int.from_bytes(view[at - 2 : at], "little"):
            raise CodecError("Corrupt GZIP header")
    return at


def _after_zero(view: memoryview, at: int) -> int:
    while at < len(view):
        zero = bytes(view[at : at + _JAVA_FEED]).find(0)
        if zero >= 0:
            return at + zero + 1
        at += _JAVA_FEED
    raise _gzip_header_end()


def _gzip_header_end() -> CodecError:
    return CodecError("Unexpected end of GZIP header")


def _check_gzip_trailer(trailer: memoryview, crc: int, size: int) -> None:
    if len(trailer) < 8:
        # Java compares the checksum before it reads the length.
        if len(trailer) >= 4 and int.from_bytes(trailer[:4], "little") != crc:
            raise CodecError("Corrupt GZIP trailer")
        raise CodecError("Unexpected end of GZIP trailer")
    if _GZIP_TRAILER.unpack(trailer) != (crc, size & 0xFFFFFFFF):
        raise CodecError("Corrupt GZIP trailer")


def _gzip_compress(data: Buffer, level: int) -> bytes:
    import zlib

    deflate = zlib.compressobj(level, zlib.DEFLATED, -15, 8)
    trailer = _GZIP_TRAILER.pack(zlib.crc32(data), len(data) & 0xFFFFFFFF)
    return b"".join((_GZIP_HEADER, deflate.compress(data), deflate.flush(), trailer))


def _library_text(error: Exception) -> str:
    """What is wrong, without the function of the library that says so."""
    return str(error).rpartition(": ")[2]


# snappy

_XERIAL_MAGIC = bytes.fromhex("82534e4150505900")
_XERIAL_VERSIONS = Struct(">ii")
_XERIAL_HEADER = _XERIAL_MAGIC + _XERIAL_VERSIONS.pack(1, 1)
_XERIAL_AGAIN = int.from_bytes(_XERIAL_MAGIC[:4], "big", signed=True)
_XERIAL_CHUNK = 32 << 10
_INT32 = Struct(">i")


def _snappy_pieces(data: Buffer, limit: int) -> Iterator[bytes]:
    view = memoryview(data)
    total = len(view)
    if not total:
        raise CodecError("Cannot decompress empty stream")
    if total < len(_XERIAL_HEADER) or view[:8] != _XERIAL_MAGIC:
        block = _snappy_block(view, "the snappy block that is the payload", limit)
        yield b""
        yield block
        return
    yield b""
    at = len(_XERIAL_HEADER)
    chunks = delivered = 0
    while total - at >= 4:
        (size,) = _INT32.unpack_from(view, at)
        if size == _XERIAL_AGAIN:
            _check_xerial_header(view[at : at + len(_XERIAL_HEADER)])
            at += len(_XERIAL_HEADER)
            continue
        if size < 0:
            raise CodecError(f"chunkSize is too big or negative : {size}")
        if size > total - at - 4:
            raise CodecError("failed to read chunk")
        chunks += 1
        where = f"snappy chunk {chunks} at byte {at} of the payload"
        piece = _snappy_block(view[at + 4 : at + 4 + size], where, limit, delivered)
        delivered += len(piece)
        yield piece
        at += 4 + size


def _check_xerial_header(header: memoryview) -> None:
    """A header amid the stream. One whose magic is wrong further on is passed over, as snappy-java does."""
    if len(header) < len(_XERIAL_HEADER):
        raise CodecError("Insufficient header size in a concatenated block")
    version, _ = _XERIAL_VERSIONS.unpack_from(header, 8)
    if header[:8] == _XERIAL_MAGIC and version < 1:
        raise CodecError(
            f"Compressed with an incompatible codec version {version}. At least version 1 is required"
        )


def _snappy_block(block: memoryview, where: str, limit: int, delivered: int = 0) -> bytes:
    try:
        import snappy
    except ImportError:
        raise _missing(SNAPPY, "python-snappy") from None
    length = shift = 0
    for byte in block[:5]:
        length |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    else:
        raise CodecError(f"FAILED_TO_UNCOMPRESS(5): no length at the start of {where}")
    # A block's densest element makes 64 bytes out of 3.
    if length > 22 * len(block):
        raise CodecError(f"FAILED_TO_UNCOMPRESS(5): {len(block)} bytes cannot hold the {length} of {where}")
    if delivered + length > limit:
        raise _LimitError(limit)
    try:
        piece: bytes = snappy.uncompress(block)
    except snappy.UncompressError:
        raise CodecError(f"FAILED_TO_UNCOMPRESS(5): {where} is corrupt") from None
    return piece


def _snappy_compress(data: Buffer) -> bytes:
    try:
        import snappy
    except ImportError:
        raise _missing(SNAPPY, "python-snappy") from None
    out = [_XERIAL_HEADER]
    view = memoryview(data)
    for at in range(0, len(view), _XERIAL_CHUNK):
        block: bytes = snappy.compress(bytes(view[at : at + _XERIAL_CHUNK]))
        out += _INT32.pack(len(block)), block
    return b"".join(out)


# lz4

_LZ4_MAGIC = bytes.fromhex("04224d18")
_LZ4_HEADER = _LZ4_MAGIC + bytes.fromhex("604082")  # as Kafka writes it for v1 and v2
_LZ4_HEADER_V0 = _LZ4_MAGIC + bytes.fromhex("60401a")  # and for v0, whose hash takes in the frame's magic
_LZ4_STORED = 1 << 31
_LZ4_BLOCK = 64 << 10
_UINT32 = Struct("<I")


def _lz4_pieces(data: Buffer, magic: int) -> Iterator[bytes]:
    try:
        from lz4.block import LZ4BlockError
        from lz4.block import decompress as decompress_block
    except ImportError:
        raise _missing(LZ4, "lz4") from None
    view = memoryview(data)
    total = len(view)
    if view[:7] == _LZ4_HEADER:
        at, flags, largest = 7, 0x60, _LZ4_BLOCK
    else:
        at, flags, largest = _lz4_header(view, magic)
    yield b""
    while True:
        if total - at < 4:
            raise _lz4_end()
        (size,) = _UINT32.unpack_from(view, at)
        at += 4
        stored = size & _LZ4_STORED
        size &= ~_LZ4_STORED
        if not size:
            if flags & 0x04 and total - at < 4:
                raise _lz4_end()
            return
        if size > largest:
            raise CodecError(f"Block size {size} exceeded max: {largest}")
        if size > total - at:
            raise _lz4_end()
        block = view[at : at + size]
        if stored:
            piece = bytes(block)
        else:
            try:
                # A byte of a block makes 255 at most.
                piece = decompress_block(block, uncompressed_size=min(largest, 255 * size))
            except (LZ4BlockError, ValueError):
                raise CodecError(f"LZ4 block at byte {at} of the payload is corrupt") from None
        at += size
        if flags & 0x10:
            _check_lz4_block(block, view[at : at + 4])
            at += 4
        if not piece:  # Kafka's buffered reader takes an empty block for the end
            return
        yield piece


def _lz4_header(view: memoryview, magic: int) -> tuple[int, int, int]:
    """The frame header's end, its FLG byte and the size of the largest block."""
    if len(view) < 6:
        raise _lz4_end()
    if view[:4] != _LZ4_MAGIC:
        raise CodecError("Stream unsupported (invalid magic bytes)")
    flags, sizes = view[4], view[5]
    if flags & 0x03:
        raise CodecError("Reserved bits must be 0")
    if not flags & 0x20:
        raise CodecError("Dependent block stream is unsupported")
    if flags >> 6 != 1:
        raise CodecError(f"Version {flags >> 6} is unsupported")
    if sizes & 0x0F:
        raise CodecError("Reserved2 field must be 0")
    code = sizes >> 4 & 7
    if code < 4:
        raise CodecError("Block size value must be between 4 and 7")
    if sizes & 0x80:
        raise CodecError("Reserved3 field must be 0")
    at = 14 if flags & 0x08 else 6
    if len(view) <= at:
        raise _lz4_end()
    if magic > 0 and _xxh32(view[4:at]) >> 8 & 0xFF != view[at]:
        raise CodecError("Stream frame descriptor corrupted")
    return at + 1, flags, 1 << (2 * code + 8)


def _check_lz4_block(block: memoryview, checksum: memoryview) -> None:
    if len(checksum) < 4:
        raise _lz4_end()
    if _UINT32.unpack(checksum) != (_xxh32(block),):
        raise CodecError("Block checksum mismatch")


def _lz4_end() -> CodecError:
    return CodecError("Stream ended prematurely")


def _xxh32(data: Buffer) -> int:
    """xxh32 with seed 0, which an LZ4 frame may carry of its content in its last four bytes."""
    from lz4.frame import compress as compress_frame

    frame: bytes = compress_frame(data, content_checksum=True)
    return int.from_bytes(frame[-4:], "little")


def _lz4_compress(data: Buffer, magic: int, level: int) -> bytes:
    try:
        from lz4.block import compress as compress_block
    except ImportError:
        raise _missing(LZ4, "lz4") from None
    # Level 9 stands for the fast compressor in Kafka, every other one for the dense one.
    options: dict[str, Any] = {} if level == 9 else {"mode": "high_compression", "compression": level}
    out = [_LZ4_HEADER_V0 if magic == 0 else _LZ4_HEADER]
    view = memoryview(data)
    for at in range(0, len(view), _LZ4_BLOCK):
        raw = view[at : at + _LZ4_BLOCK]
        block: bytes = compress_block(raw, store_size=False, **options)
        if len(block) < len(raw):
            out += _UINT32.pack(len(block)), block
        else:
            out += _UINT32.pack(len(raw) | _LZ4_STORED), bytes(raw)
    out.append(_UINT32.pack(0))
    return b"".join(out)


# zstd

_ZSTD_MAGIC = 0xFD2FB528
_ZSTD_FIRST_BYTE = 0x28  # of a frame, but not of a skippable one
_ZSTD_JNI_FEED = 131075  # input bytes that zstd-jni takes at once
_DICTIONARY_ID_SIZES = (0, 1, 2, 4)
_zstd_contexts: Any = None  # a threading.local: a context must never serve two threads


def _zstandard() -> Any:
    try:
        import zstandard
    except ImportError:
        raise _missing(ZSTD, "zstandard") from None
    return zstandard


def _zstd_context() -> Any:
    """What this thread keeps: making a context takes longer than decompressing a small batch."""
    global _zstd_contexts
    if _zstd_contexts is None:
        import threading

        _zstd_contexts = threading.local()
    return _zstd_contexts


def _zstd_decompressor() -> ZstdDecompressor:
    context = _zstd_context()
    try:
        decompressor: ZstdDecompressor = context.decompressor
    except AttributeError:
        decompressor = context.decompressor = _zstandard().ZstdDecompressor()
    return decompressor


def _zstd(data: Buffer, limit: int) -> bytes:
    if 0 < len(data) <= _ZSTD_JNI_FEED and data[0] == _ZSTD_FIRST_BYTE:
        zstandard = _zstandard()
        most = min(limit, _STEP)
        try:
            # The decompressor allocates as much as the frame says or, where it says nothing, as we say.
            size = zstandard.get_frame_parameters(data).content_size
            if size == zstandard.CONTENTSIZE_UNKNOWN or 0 < size <= most:
                return _zstd_decompressor().decompress(data, max_output_size=most, allow_extra_data=False)
        except zstandard.ZstdError:
            pass  # more output, more frames or damage: the stream finds out
    return _collect(_zstd_pieces(data, _STEP), limit)


def _zstd_pieces(data: Buffer, step: int) -> Iterator[bytes]:
    """zstd-jni's ZstdInputStreamNoFinalizer."""
    yield b""
    if not len(data):
        return
    zstandard = _zstandard()
    with _zstd_decompressor().stream_reader(data, read_across_frames=True) as reader:
        while True:
            try:
                piece = reader.read(step)
            except zstandard.ZstdError as error:
                raise CodecError(_library_text(error)) from None
            if not piece:
                break
            yield piece
    _check_zstd_end(memoryview(data))


def _check_zstd_end(view: memoryview) -> None:
    """Raise CodecError if the last frame, of frames known to be sound as far as they go, is cut short.

    zstd-jni does not notice that if another frame ended in the same piece of its input.
    """
    total = len(view)
    end = frame = 0
    while frame < total:
        frame = _zstd_frame_end(view, frame)
        if frame <= total:
            end = frame
    if end != total and end <= (total - 1) // _ZSTD_JNI_FEED * _ZSTD_JNI_FEED:
        raise CodecError("Truncated source")


def _zstd_frame_end(view: memoryview, at: int) -> int:
    """Where the frame at `at` ends; beyond the end of the view if it is cut short."""
    beyond = len(view) + 1
    if len(view) - at < 8:
        return beyond
    if int.from_bytes(view[at : at + 4], "little") != _ZSTD_MAGIC:  # a skippable frame
        return at + 8 + int.from_bytes(view[at + 4 : at + 8], "little")
    descriptor = view[at + 4]
    single_segment = descriptor >> 5 & 1
    content_size = 1 << (descriptor >> 6) if descriptor >> 6 else single_segment
    at += 5 + (1 - single_segment) + _DICTIONARY_ID_SIZES[descriptor & 3] + content_size
    last = 0
    while not last:
        if len(view) - at < 3:
            return beyond
        block = int.from_bytes(view[at : at + 3], "little")
        last = block & 1
        run_of_one_byte = block >> 1 & 3 == 1
        at += 3 + (1 if run_of_one_byte else block >> 3)
    return at + (4 if descriptor & 0x04 else 0)


def _zstd_compress(data: Buffer, level: int) -> bytes:
    zstandard = _zstandard()
    context = _zstd_context()
    if getattr(context, "level", None) != level:
        context.compressor = zstandard.ZstdCompressor(level=level, write_content_size=False)
        context.level = level
    compressor: ZstdCompressor = context.compressor
    stream = compressor.compressobj()
    # Kafka flushes its stream before it closes it, so that an empty block comes last.
    flushed = stream.compress(data) + stream.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)
    return flushed + stream.flush()

"""gzip payloads (RFC 1952), read as Java's GZIPInputStream reads them.

A payload is one member, or several; what follows a member and is not the header of another one is ignored
(little-endian):

| byte | width | meaning |
|---|---|---|
| 0 | 2 | magic 1F 8B |
| 2 | 1 | method, 8 |
| 3 | 1 | flags: 2 header checksum, 4 extra field, 8 name, 16 comment; Java ignores the others |
| 4 | 6 | time, extra flags, operating system; Java writes 0, 0 and 255 |
| then | 2 + n | extra field after its length |
| then | … | name and comment, each up to a zero byte |
| then | 2 | low half of the CRC-32 of the header so far |
| then | … | deflate data |
| then | 4 | CRC-32 of the member's output |
| then | 4 | length of the member's output modulo 2^32 |
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from struct import Struct
from types import ModuleType

from kdump.errors import EOF, CodecError
from kdump.formats.codecs.common import KAFKA_STEP, Buffer, LimitError, StreamError, join, library_text

_PLAIN = bytes.fromhex("1f8b0800")
_HEADER = bytes.fromhex("1f8b08000000000000ff")  # as Java has written it since release 16
_HEADER_SIZE = 10
_HEADER_CHECKSUM, _EXTRA, _NAME, _COMMENT = 2, 4, 8, 16
_TRAILER = Struct("<II")
_CRC_SIZE = 4
_TRAILER_SIZE = 8

_STEP = 1 << 20  # most bytes of output asked for at once
_FEED = 64 << 10  # input bytes handed over at once: the libraries copy what they do not use up
_KAFKA_FEED = 8 << 10  # the input buffer that Kafka gives to GZIPInputStream


def decompress(data: Buffer, _magic: int, limit: int) -> bytes:
    """Return the output of all members. Raises CodecError, LimitError past `limit` bytes.

    isal, where it is installed, takes some Huffman codes that leave bit patterns unused and that zlib refuses; such a
    member passes here, though not in Kafka, if its checksum is right.
    """
    try:
        import isal.isal_zlib
    except ImportError:
        return join(_pieces(data, zlib, _FEED, _STEP), limit)
    try:
        return join(_pieces(data, isal.isal_zlib, _FEED, _STEP), limit)
    except LimitError:
        raise
    except CodecError:
        pass  # what is wrong, and whether anything is, is for zlib to say: it is what Java uses
    return join(_pieces(data, zlib, _FEED, _STEP), limit)


def kafka_pieces(data: Buffer, _magic: int, _limit: int) -> Iterator[bytes]:
    """Yield an empty piece once the stream is open, then the output in the portions Kafka gets. Raises CodecError."""
    return _pieces(data, zlib, _KAFKA_FEED, KAFKA_STEP)


def compress(data: Buffer, _magic: int, level: int | None) -> bytes:
    """Return one member, byte for byte as Kafka on a current Java writes it."""
    deflate = zlib.compressobj(6 if level is None else level, zlib.DEFLATED, -zlib.MAX_WBITS, zlib.DEF_MEM_LEVEL)
    trailer = _TRAILER.pack(zlib.crc32(data), len(data) & 0xFFFFFFFF)
    return b"".join((_HEADER, deflate.compress(data), deflate.flush(), trailer))


def _pieces(data: Buffer, library: ModuleType, feed: int, step: int) -> Iterator[bytes]:
    view = memoryview(data)
    total = len(view)
    at = filled = _header_end(view, 0)  # filled: how far Java has taken bytes into its input buffer
    yield b""
    while True:
        member = library.decompressobj(-zlib.MAX_WBITS)
        crc = size = 0
        while not member.eof:
            if at == total:
                raise StreamError("Unexpected end of ZLIB input stream", EOF)
            pending: Buffer = view[at : filled if at < filled else at + feed]
            at += len(pending)
            more = True
            while more:
                try:
                    piece: bytes = member.decompress(pending, step)
                except library.error as error:
                    raise _zip_error(library_text(error)) from None
                if piece:
                    crc = library.crc32(piece, crc)
                    size += len(piece)
                    yield piece
                pending = member.unconsumed_tail
                more = not member.eof and (len(pending) > 0 or len(piece) == step)
        at -= len(member.unused_data)
        if at > filled:
            filled = min(filled - (filled - at) // _KAFKA_FEED * _KAFKA_FEED, total)
        _check_trailer(view[at : at + _TRAILER_SIZE], crc, size)
        # Java looks for another member if there is input outside its buffer, or enough inside for one.
        if max(filled, at + _TRAILER_SIZE) == total and filled - at <= _TRAILER_SIZE + _HEADER_SIZE + _TRAILER_SIZE:
            return
        try:
            at = _header_end(view, at + _TRAILER_SIZE)
        except CodecError:
            return
        filled = max(filled, at)


def _header_end(view: memoryview, start: int) -> int:
    """Return where the deflate data of the member that starts at `start` starts."""
    fixed = view[start : start + _HEADER_SIZE]
    if len(fixed) < _HEADER_SIZE or fixed[:4] != _PLAIN:
        _check_fixed_header(fixed)
    at = start + _HEADER_SIZE
    flags = fixed[3]
    if flags & _EXTRA:
        at += 2 + int.from_bytes(view[at : at + 2], "little")
    if flags & _NAME:
        at = _after_zero(view, at)
    if flags & _COMMENT:
        at = _after_zero(view, at)
    if flags & _HEADER_CHECKSUM:
        at += 2
    if at > len(view):
        raise _header_error()
    if flags & _HEADER_CHECKSUM:
        checksum = int.from_bytes(view[at - 2 : at], "little")
        if zlib.crc32(view[start : at - 2]) & 0xFFFF != checksum:
            raise _zip_error("Corrupt GZIP header")
    return at


def _check_fixed_header(fixed: memoryview) -> None:
    known = bytes(fixed[:3])
    if len(known) >= 2 and known[:2] != _HEADER[:2]:
        raise _zip_error("Not in GZIP format")
    if len(known) > 2 and known[2] != _HEADER[2]:
        raise _zip_error("Unsupported compression method")
    if len(fixed) < _HEADER_SIZE:
        raise _header_error()


def _after_zero(view: memoryview, at: int) -> int:
    while at < len(view):
        zero = bytes(view[at : at + _FEED]).find(0)
        if zero >= 0:
            return at + zero + 1
        at += _FEED
    raise _header_error()


def _header_error() -> CodecError:
    return StreamError("Unexpected end of GZIP header", EOF, "")


def _zip_error(text: str) -> CodecError:
    return StreamError(text, "java.util.zip.ZipException")


def _check_trailer(trailer: memoryview, crc: int, size: int) -> None:
    if len(trailer) == _TRAILER_SIZE:
        if _TRAILER.unpack(trailer) == (crc, size & 0xFFFFFFFF):
            return
    elif len(trailer) < _CRC_SIZE or int.from_bytes(trailer[:_CRC_SIZE], "little") == crc:
        raise StreamError("Unexpected end of GZIP trailer", EOF, "")
    raise _zip_error("Corrupt GZIP trailer")

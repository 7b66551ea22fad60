"""Compression of batch payloads: decompress exactly what Kafka's readers would deliver, compress as its writers do.

The codec id is the low three bits of a batch's attributes. Compressed are a v2 batch's records, or the messages
inside a v0 or v1 wrapper message:

| id | codec | payload |
|---|---|---|
| 0 | none | the records themselves |
| 1 | gzip | members of RFC 1952, one after the other |
| 2 | snappy | a stream of chunks as xerial's snappy-java writes it, or one bare snappy block |
| 3 | lz4 | one LZ4 frame; what follows its end mark is never looked at |
| 4 | zstd | zstd frames, one after the other; v2 alone |

Nothing is believed before it is checked: output is counted while it comes, and nothing is allocated from a length
field alone. The libraries are loaded when they are first needed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING, Protocol, cast

from kdump.errors import CodecError, UnknownCodecError
from kdump.formats.codecs.common import (
    GZIP,
    LZ4,
    NAMES,
    NONE,
    SNAPPY,
    ZSTD,
    Buffer,
    LimitError,
    StreamError,
    bounded,
    join,
)

if TYPE_CHECKING:

    class _Module(Protocol):
        """What the module of each codec has; `magic` is that of the batch or wrapper message."""

        def decompress(self, data: Buffer, magic: int, limit: int, /) -> bytes: ...

        def compress(self, data: Buffer, magic: int, level: int | None, /) -> bytes: ...

        def kafka_pieces(self, data: Buffer, magic: int, limit: int, /) -> Iterator[bytes]: ...


__all__ = [
    "DEFAULT_LIMIT",
    "GZIP",
    "LEVELS",
    "LZ4",
    "NAMES",
    "NONE",
    "SNAPPY",
    "ZSTD",
    "LimitError",
    "StreamError",
    "check_level",
    "codec_name",
    "compress",
    "decompress",
    "delivered",
]

DEFAULT_LIMIT = 1 << 30
"""Bytes that one payload may grow to."""

LEVELS = {GZIP: (1, 9), LZ4: (1, 17), ZSTD: (-131072, 22)}
"""Lowest and highest level of each codec that has levels."""


def codec_name(codec: int) -> str:
    """Return Kafka's name of a codec id; `codec N` for ids that no release knows."""
    return NAMES[codec] if codec < len(NAMES) else f"codec {codec}"


def decompress(codec: int, data: Buffer, *, magic: int = 2, limit: int = DEFAULT_LIMIT) -> bytes:
    """Return the bytes that a Kafka consumer's stream over the payload `data` of a batch would deliver up to its end.

    `magic` is that of the batch or wrapper message; it matters to lz4 alone. `limit` bounds the bytes delivered.
    Raises CodecError where Kafka's stream would fail at any point, where the output grows past `limit` and where the
    codec's library is not installed; UnknownCodecError for the ids 5 to 7.
    """
    return _module(codec).decompress(data, magic, limit) if codec else join((bytes(data),), limit)


def delivered(
    codec: int, data: Buffer, *, magic: int = 2, limit: int = DEFAULT_LIMIT
) -> tuple[bytes | None, CodecError | None]:
    """Return what a Kafka consumer gets of payload `data` before its stream fails, and the failure, if there is one.

    For payloads that `decompress` refuses: Kafka takes records from the stream as it goes, so it meets those before
    the damage, and may be done before it meets the damage. The bytes are None where the stream cannot even be
    opened. They end where Kafka's buffers end; for gzip, snappy and zstd that is only certain as long as no record
    is larger than Kafka's buffer (16 KiB, for snappy 2 KiB). Raises UnknownCodecError.
    """
    try:
        return decompress(codec, data, magic=magic, limit=limit), None
    except UnknownCodecError:
        raise
    except CodecError as error:
        failure = error.with_traceback(None)  # or it would hold on to what was decompressed
    pieces = _module(codec).kafka_pieces(data, magic, limit) if codec else iter(())
    got = []
    with suppress(CodecError):
        for piece in bounded(pieces, limit):
            got.append(piece)
    return b"".join(got) if got else None, failure


def compress(codec: int, data: Buffer, *, magic: int = 2, level: int | None = None) -> bytes:
    """Compress the records of a batch into the framing of Kafka's writer for this codec and `magic`.

    `level` is one of the codec's own (`LEVELS`); None is Kafka's default: gzip 6, lz4 9, zstd 3. gzip and zstd give
    the bytes that Kafka gives; snappy and lz4 the same framing around blocks that may differ. Raises CodecError for
    a level that the codec does not have or a library that is not installed, UnknownCodecError for the ids 5 to 7.
    """
    module = _module(codec) if codec else None
    if level is not None:
        check_level(codec, level)
    return module.compress(data, magic, level) if module else bytes(data)


@cache
def _module(codec: int) -> _Module:
    """Return the module of a codec, which is imported for its first payload. Raises UnknownCodecError."""
    from importlib import import_module

    if not NONE < codec <= ZSTD:
        raise UnknownCodecError(f"Unknown compression type id: {codec}")
    return cast("_Module", import_module(f"{__name__}.{NAMES[codec]}"))


def check_level(codec: int, level: int) -> None:
    """Raise CodecError for a compression level that a codec does not have."""
    if codec not in LEVELS:
        raise CodecError(f"level {level}: {NAMES[codec]} has no levels")
    lowest, highest = LEVELS[codec]
    if not lowest <= level <= highest:
        raise CodecError(f"level {level}: {NAMES[codec]} has the levels {lowest} to {highest}")

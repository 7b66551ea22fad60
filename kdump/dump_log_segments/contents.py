"""How kafka-dump-log prints keys, values and control records under its decoder options."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from kdump.errors import BUFFER_UNDERFLOW, JavaError
from kdump.formats.java_utf8 import java_utf8

if TYPE_CHECKING:
    from kdump.dump_log_segments.options import DumpLogOptions
    from kdump.kernels.portable.text import Contents, ControlText
    from kdump.releases import KafkaRelease

_FIXED = {"LongDecoder": struct.Struct(">q"), "IntegerDecoder": struct.Struct(">i")}


def contents_printer(options: DumpLogOptions) -> Contents | None:
    """Return the function that gives the texts of keys and values; None where both are plain text."""
    if options.topic_decoder:
        return _topic_contents(options.topic_decoder, options.release)
    key_decoder, value_decoder = options.key_decoder, options.value_decoder
    if key_decoder == value_decoder == "StringDecoder":
        return None

    def contents(_offset: int, key: bytes | None, value: bytes | None) -> tuple[bytes | None, bytes | None]:
        return _decoded(key_decoder, key), _decoded(value_decoder, value)

    return contents


def control_printer(release: KafkaRelease) -> ControlText:
    """Return the function that gives the text of a KRaft control record."""

    def control_text(number: int, value: bytes | None) -> bytes:
        from kdump.formats.schemas import dump_text

        return dump_text.control_text(number, value, release).encode()

    return control_text


def _topic_contents(decoder: str, release: KafkaRelease) -> Contents:
    from kdump.formats.schemas import dump_text

    def contents(offset: int, key: bytes | None, value: bytes | None) -> tuple[bytes | None, bytes | None]:
        shown_key, payload = dump_text.parse(decoder, offset, key, value, release)
        return _encoded(shown_key), _encoded(payload)

    return contents


def _encoded(text: str | None) -> bytes | None:
    return None if text is None else text.encode("utf-8", "replace")


def _decoded(decoder: str, data: bytes | None) -> bytes | None:
    if data is None:
        return None
    if decoder == "StringDecoder":
        return java_utf8(data)
    if decoder == "DefaultDecoder":
        # Java prints where the array is in its memory; the length says more
        return f"[B@{len(data):x}".encode()
    number = _FIXED[decoder]
    if len(data) < number.size:
        raise JavaError(BUFFER_UNDERFLOW)
    return str(number.unpack_from(data)[0]).encode()

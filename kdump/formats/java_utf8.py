"""Bytes as Java's UTF-8 decoder would print them.

Kafka's own tools build a `String` from the bytes of keys, values and header keys, and print it. Valid UTF-8 comes out
as it went in; what is malformed becomes U+FFFD, and how many bytes one replacement stands for is the decoder's own: a
surrogate's three bytes, or the first two of them, are one, all else is as in Python.
"""

from __future__ import annotations

import re

REPLACEMENT = "\ufffd".encode()
_SURROGATE = rb"\xed[\xa0-\xbf][\x80-\xbf]?"


def java_utf8(data: bytes) -> bytes:
    """Return `data` decoded by `new String(data, UTF_8)` and encoded again: valid UTF-8, malformed parts as U+FFFD."""
    try:
        str(data, "utf-8")
    except UnicodeDecodeError:
        return re.sub(_SURROGATE, REPLACEMENT, data).decode("utf-8", "replace").encode()
    return data

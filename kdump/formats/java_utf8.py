"""Bytes as Java's UTF-8 decoder would print them.

Kafka's own tools build a `String` from the bytes of keys, values and header keys, and print it. Valid UTF-8 comes out
as it went in; what is malformed becomes U+FFFD, and how many bytes one replacement stands for is the decoder's own (a
surrogate's three bytes, for instance, are one).
"""

from __future__ import annotations

REPLACEMENT = "\ufffd".encode()


def java_utf8(data: bytes) -> bytes:
    """Return `data` decoded by `new String(data, UTF_8)` and encoded again: valid UTF-8, malformed parts as U+FFFD."""
    try:
        str(data, "utf-8")
    except UnicodeDecodeError:
        return _replace_malformed(data)
    return data


def _continues(byte: int) -> bool:
    return byte & 0xC0 == 0x80


def _replace_malformed(data: bytes) -> bytes:
    out = bytearray()
    at = 0
    while at < len(data):
        length, valid = _sequence(data, at)
        out += data[at : at + length] if valid else REPLACEMENT
        at += length
    return bytes(out)


def _sequence(data: bytes, at: int) -> tuple[int, bool]:
    """Return how many bytes from `at` on become one character (or replacement), and whether they are well formed."""
    lead = data[at]
    left = len(data) - at
    if lead < 0x80:
        return 1, True
    if 0xC2 <= lead <= 0xDF:
        return (2, True) if left > 1 and _continues(data[at + 1]) else (1, False)
    if 0xE0 <= lead <= 0xEF:
        return _three(data, at, lead, left)
    if 0xF0 <= lead <= 0xF7:
        return _four(data, at, lead, left)
    return 1, False


def _three(data: bytes, at: int, lead: int, left: int) -> tuple[int, bool]:
    if left == 1:
        return 1, False
    second = data[at + 1]
    if not _continues(second) or (lead == 0xE0 and second < 0xA0):
        return 1, False
    if left == 2 or not _continues(data[at + 2]):
        return 2, False
    return 3, not (lead == 0xED and second >= 0xA0)


def _four(data: bytes, at: int, lead: int, left: int) -> tuple[int, bool]:
    if lead > 0xF4 or left == 1:
        return 1, False
    second = data[at + 1]
    if not _continues(second) or (lead == 0xF0 and second < 0x90) or (lead == 0xF4 and second >= 0x90):
        return 1, False
    if left == 2 or not _continues(data[at + 2]):
        return 2, False
    if left == 3 or not _continues(data[at + 3]):
        return 3, False
    return 4, True

"""Kafka's text form of a uuid: the 16 big-endian bytes as URL-safe base64 without padding, 22 characters."""

from __future__ import annotations

import binascii

from kdump.errors import KdumpError

UUID_SIZE = 16
ZERO_UUID = bytes(UUID_SIZE)
METADATA_TOPIC_ID = bytes(15) + b"\x01"
"""The id of __cluster_metadata: Uuid.METADATA_TOPIC_ID. No broker starts where partition.metadata has another."""

_MAX_TEXT = 24  # with the padding that Java's decoder tolerates
_RESERVED = 100
_TO_STANDARD = {ord("-"): "+", ord("_"): "/"}
_TO_URL_SAFE = bytes.maketrans(b"+/", b"-_")


def format_uuid(raw: bytes) -> str:
    """Return the 22 characters for the 16 bytes `raw`."""
    return binascii.b2a_base64(raw, newline=False).translate(_TO_URL_SAFE).rstrip(b"=").decode()


def parse_uuid(text: str) -> bytes:
    """Return the 16 bytes behind `text` (padding may be there or not).

    Raises KdumpError, with Kafka's text for a string that is too long or stands for another number of bytes.
    """
    if len(text) > _MAX_TEXT:
        raise KdumpError(f"Input string with prefix `{text[:_MAX_TEXT]}` is too long to be decoded as a base64 UUID")
    padding = "" if "=" in text else "=" * (-len(text) % 4)
    try:
        if "+" in text or "/" in text:
            raise ValueError("the alphabet is the URL-safe one")
        raw = binascii.a2b_base64(text.translate(_TO_STANDARD) + padding, strict_mode=True)
    except ValueError:
        raise KdumpError(f"Input string `{text}` is not URL-safe base64") from None
    if len(raw) != len(ZERO_UUID):
        raise KdumpError(
            f"Input string `{text}` decoded as {len(raw)} bytes, "
            "which is not equal to the expected 16 bytes of a base64-encoded UUID"
        )
    return raw


def is_reserved_directory_id(raw: bytes) -> bool:
    """Return whether `raw` is one of the first uuids, which Kafka keeps as marks (unassigned, lost, ...)."""
    return raw[:8] == bytes(8) and int.from_bytes(raw[8:], "big", signed=True) < _RESERVED

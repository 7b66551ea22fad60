"""Uuids as 22 characters of URL-safe base64."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdump.errors import KdumpError
from kdump.formats.uuids import ZERO_UUID, format_uuid, is_reserved_directory_id, parse_uuid


def test_known_texts() -> None:
    assert format_uuid(ZERO_UUID) == "A" * 22
    assert format_uuid(b"\xff" * 16) == "_" * 21 + "w"
    assert parse_uuid("AAAAAAAAAE0AAAAAAAAAWA") == (0x4D).to_bytes(8, "big") + (0x58).to_bytes(8, "big")


@given(st.binary(min_size=16, max_size=16))
def test_round_trip(raw: bytes) -> None:
    text = format_uuid(raw)
    assert len(text) == 22
    assert parse_uuid(text) == raw
    assert parse_uuid(text + "==") == raw


def test_bits_beyond_the_128th_do_not_count() -> None:
    assert parse_uuid("A" * 21 + "P") == ZERO_UUID


@pytest.mark.parametrize("text", ["A" * 21, "A" * 22 + "=", "A" * 21 + "+", "/" * 22, "A" * 21 + "é", "A=" + "A" * 20])
def test_not_base64(text: str) -> None:
    with pytest.raises(KdumpError, match=re.escape(f"Input string `{text}` is not URL-safe base64")):
        parse_uuid(text)


def test_too_long() -> None:
    with pytest.raises(KdumpError) as caught:
        parse_uuid("A" * 25)
    assert str(caught.value) == f"Input string with prefix `{'A' * 24}` is too long to be decoded as a base64 UUID"


@pytest.mark.parametrize(("text", "size"), [("", 0), ("AAAA", 3), ("A" * 23, 17), ("A" * 24, 18)])
def test_another_number_of_bytes(text: str, size: int) -> None:
    with pytest.raises(KdumpError) as caught:
        parse_uuid(text)
    assert str(caught.value) == (
        f"Input string `{text}` decoded as {size} bytes, "
        "which is not equal to the expected 16 bytes of a base64-encoded UUID"
    )


@given(st.text(max_size=26))
def test_any_text_gives_16_bytes_or_the_error(text: str) -> None:
    try:
        raw = parse_uuid(text)
    except KdumpError:
        return
    assert len(raw) == 16


def test_reserved_directory_ids() -> None:
    assert is_reserved_directory_id(ZERO_UUID)
    assert is_reserved_directory_id((99).to_bytes(16, "big"))
    assert not is_reserved_directory_id((100).to_bytes(16, "big"))
    assert not is_reserved_directory_id((1 << 64).to_bytes(16, "big"))

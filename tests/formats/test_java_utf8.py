"""Malformed UTF-8 becomes as many replacement characters as Java's decoder makes of it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdump.formats.java_utf8 import REPLACEMENT, java_utf8

R = "\ufffd"


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", ""),
        (b"plain", "plain"),
        ("é€💡\x00\x7f".encode(), "é€💡\x00\x7f"),
        ("\ud7ff\ue000\uffff\U00010000\U0010ffff".encode(), "\ud7ff\ue000\uffff\U00010000\U0010ffff"),
        # bytes that begin nothing
        (b"\x80", R),
        (b"\xbf\x80", R * 2),
        (b"\xff\xfe", R * 2),
        (b"\xf8\x88\x80\x80\x80", R * 5),
        (b"\xf5\x80\x80\x80", R * 4),
        # characters written longer than they are
        (b"\xc0\x80", R * 2),
        (b"\xc1\xbf", R * 2),
        (b"\xe0\x80\x80", R * 3),
        (b"\xe0\x9f\xbf", R * 3),
        (b"\xf0\x80\x80\x80", R * 4),
        (b"\xf0\x8f\xbf\xbf", R * 4),
        # beyond the last character
        (b"\xf4\x90\x80\x80", R * 4),
        # a surrogate's three bytes are one
        (b"\xed\xa0\x80", R),
        (b"\xed\xbf\xbf", R),
        (b"\xed\xa0\x80\xed\xb0\x80", R * 2),
        (b"\xed\xa0", R),
        (b"\xed\xa0x", f"{R}x"),
        (b"\xed", R),
        # a character cut short by another
        (b"\xc3x", f"{R}x"),
        (b"\xc3\xc3\xa9", f"{R}é"),
        (b"\xe2x\x82", f"{R}x{R}"),
        (b"\xe2\x82x", f"{R}x"),
        (b"\xe2\xe2\x82\xac", f"{R}€"),
        (b"\xf0\x9fx", f"{R}x"),
        (b"\xf0\x9f\x92x", f"{R}x"),
        (b"\xf0x\x9f", f"{R}x{R}"),
        (b"\xf0\x9f\x92\xe2\x82\xac", f"{R}€"),
        (b"\xf4\x8f\xbfx", f"{R}x"),
        # a character cut short by the end
        (b"x\xc3", f"x{R}"),
        (b"x\xe2", f"x{R}"),
        (b"x\xe2\x82", f"x{R}"),
        (b"x\xf0", f"x{R}"),
        (b"x\xf0\x9f", f"x{R}"),
        (b"x\xf0\x9f\x92", f"x{R}"),
        (b"x\xe0\x80", f"x{R * 2}"),
        (b"x\xf0\x80", f"x{R * 2}"),
        (b"x\xf4\x90\x80", f"x{R * 3}"),
    ],
)
def test_replacements(data: bytes, expected: str) -> None:
    assert java_utf8(data).decode() == expected


@given(st.text())
def test_text_stays_as_it_is(text: str) -> None:
    data = text.encode()
    assert java_utf8(data) is data


@given(st.binary())
def test_what_comes_out_is_text(data: bytes) -> None:
    assert java_utf8(java_utf8(data)) == java_utf8(data)
    java_utf8(data).decode()


@given(st.binary(), st.text(min_size=1))
def test_well_formed_parts_survive(damage: bytes, text: str) -> None:
    """Malformed bytes take nothing away from the character that follows them."""
    assert java_utf8(damage + text.encode()).endswith(text.encode())


@given(st.lists(st.one_of(st.text(max_size=3).map(str.encode), st.binary(max_size=4))).map(b"".join))
def test_only_surrogates_differ_from_the_unicode_standards_advice(data: bytes) -> None:
    """Python replaces maximal subparts; Java does the same, but takes the bytes of a surrogate together."""
    if any(data[at] == 0xED and data[at + 1 : at + 2] >= b"\xa0" for at in range(len(data))):
        assert java_utf8(data).count(REPLACEMENT) <= data.decode(errors="replace").encode().count(REPLACEMENT)
    else:
        assert java_utf8(data) == data.decode(errors="replace").encode()

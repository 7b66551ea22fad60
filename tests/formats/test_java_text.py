"""Numbers, lines and fields as Java's readers take them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdump.formats.java_text import parse_int, parse_long, read_lines, split_whitespace


@given(st.integers(-(2**70), 2**70))
def test_numbers_within_their_range(number: int) -> None:
    assert parse_int(str(number)) == (number if -(2**31) <= number < 2**31 else None)
    assert parse_long(str(number)) == (number if -(2**63) <= number < 2**63 else None)


@pytest.mark.parametrize(
    ("text", "number"), [("+5", 5), ("-0", 0), ("-7", -7), ("0" * 5000 + "12", 12), ("+\u0661\uff10", 10)]
)
def test_signs_and_leading_zeros(text: str, number: int) -> None:
    assert parse_int(text) == parse_long(text) == number


@pytest.mark.parametrize(
    "text", ["", "+", "-", "+-1", "--1", " 1", "1 ", "1_0", "0x1", "1.0", "²", "\u0bf0", "\U0001d7ce", "9" * 5000]
)
def test_not_numbers(text: str) -> None:
    assert parse_int(text) is None
    assert parse_long(text) is None


def test_only_three_line_ends_count() -> None:
    assert list(read_lines(b"a\nb\r\nc\rd")) == ["a", "b", "c", "d"]
    assert list(read_lines("a\x0bb\x0cc\x1cd\x85e\u2028f\n".encode())) == ["a\x0bb\x0cc\x1cd\x85e\u2028f"]
    assert list(read_lines(b"a\n\n")) == ["a", ""]
    assert list(read_lines(b"")) == []


def test_a_line_that_is_not_utf_8_ends_the_reading() -> None:
    lines = read_lines(b"good\n\xff\n")
    assert next(lines) == "good"
    with pytest.raises(UnicodeDecodeError):
        next(lines)


@pytest.mark.parametrize(
    ("line", "fields"),
    [
        ("a 1 2", ["a", "1", "2"]),
        ("a \t\x0b 1\x0c2  ", ["a", "1", "2"]),
        (" a 1", ["", "a", "1"]),
        ("a\u00a0b\x1cc", ["a\u00a0b\x1cc"]),
        ("", [""]),
        ("  ", []),
    ],
)
def test_fields_between_white_space(line: str, fields: list[str]) -> None:
    assert split_whitespace(line) == fields

"""Hashes, doubles and JSON as Java writes them; the expected texts were printed by Java 17 and Jackson 2.17."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdump.formats.schemas.java_values import double_text, json_text, string_hash


@pytest.mark.parametrize(
    ("text", "number"),
    [("", 0), ("a", 97), ("__consumer_offsets", -970371369), ("\U0001f600", 1772899), ("\x7fffffff" * 3, -686926753)],
)
def test_string_hash(text: str, number: int) -> None:
    assert string_hash(text) == number


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.0"),
        (-0.0, "-0.0"),
        (42.0, "42.0"),
        (14.625, "14.625"),
        (-0.1, "-0.1"),
        (0.001, "0.001"),
        (1e-4, "1.0E-4"),
        (9999999.0, "9999999.0"),
        (1e7, "1.0E7"),
        (1048576.5, "1048576.5"),
        (1.2345e-7, "1.2345E-7"),
        (2.0**53, "9.007199254740992E15"),
        (9.0500652140522342e18, "9.0500652140522342E18"),
        (9.2233720368547748e18, "9.2233720368547748E18"),
        (2.0**63, "9.223372036854776E18"),
        (1e21, "1.0E21"),
        (1.7976931348623157e308, "1.7976931348623157E308"),
        (2.2250738585072014e-308, "2.2250738585072014E-308"),
        (5e-324, "4.9E-324"),
        (1e-323, "1.0E-323"),
        (1.5e-323, "1.5E-323"),
        (float("nan"), "NaN"),
        (float("-inf"), "-Infinity"),
    ],
)
def test_doubles(value: float, text: str) -> None:
    assert double_text(value) == text


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_doubles_keep_their_value(value: float) -> None:
    assert float(double_text(value)) == value


def test_json_escapes() -> None:
    assert json_text('a"b\\/\x00\x08\t\n\x0b\f\r\x1f\x7fü\u2028\U0001f600') == (
        '"a\\"b\\\\/\\u0000\\b\\t\\n\\u000B\\f\\r\\u001F\x7fü\u2028\U0001f600"'
    )


def test_json_is_compact() -> None:
    value = {"a": [1, -(2**63), None, True, False], "b": {"c": 1e7, "d": []}, "e": {}}
    assert json_text(value) == '{"a":[1,-9223372036854775808,null,true,false],"b":{"c":1.0E7,"d":[]},"e":{}}'


SCALARS = st.none() | st.booleans() | st.integers() | st.text() | st.floats(allow_nan=False, allow_infinity=False)
NAMES = st.text("abcXYZ", min_size=1)


@given(st.recursive(SCALARS, lambda inner: st.lists(inner) | st.dictionaries(NAMES, inner), max_leaves=8))
def test_json_can_be_read_back(value: object) -> None:
    assert json.loads(json_text(value)) == value

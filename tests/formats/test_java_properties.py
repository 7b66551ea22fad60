"""Java properties files: separators, comments, continued lines, escapes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdump.errors import CheckpointError
from kdump.formats.java_properties import parse_properties


def parse(text: str) -> dict[str, str]:
    return parse_properties(text.encode("latin-1"), "some.properties")


@pytest.mark.parametrize(
    "line", ["key=value", "key:value", "key value", "key\t\fvalue", "  key = value", "key : value", "key   :\tvalue"]
)
def test_separators(line: str) -> None:
    assert parse(line + "\n") == {"key": "value"}


def test_only_one_separator_is_taken() -> None:
    assert parse("a==b\nc = : d\ne:\nf") == {"a": "=b", "c": ": d", "e": "", "f": ""}


def test_trailing_blanks_belong_to_the_value() -> None:
    assert parse("a=b  \n") == {"a": "b  "}


def test_comments_and_blank_lines() -> None:
    assert parse("#\n#Tue Nov 14\n  ! x=y\n\n \t\na=1 # not a comment\n") == {"a": "1 # not a comment"}


def test_comments_are_not_continued() -> None:
    assert parse("# comment \\\na=1\n") == {"a": "1"}


def test_continued_lines() -> None:
    assert parse("a=1,\\\n   2,\\\r\n\t3\nb=4") == {"a": "1,2,3", "b": "4"}
    assert parse("a=1\\\\\nb=2") == {"a": "1\\", "b": "2"}
    assert parse("a=1\\\n#2") == {"a": "1#2"}
    assert parse("a=1\\") == {"a": "1"}


def test_escapes() -> None:
    assert parse(r"a\=b\:c\ d=\t\n\r\f\q\\") == {"a=b:c d": "\t\n\r\fq\\"}
    assert parse(r"\u0041\u00e9=\uD83D") == {"A\u00e9": "\ud83d"}


def test_bytes_are_latin_1() -> None:
    assert parse_properties(b"a=\xe9", "p") == {"a": "\u00e9"}


def test_the_last_value_of_a_key_counts() -> None:
    assert parse("a=1\nb=2\na=3") == {"a": "3", "b": "2"}


@pytest.mark.parametrize("text", [r"a=\u12", r"a=\u12g4", "a=\\u123", r"a=\u-123", r"\u"])
def test_malformed_escape(text: str) -> None:
    with pytest.raises(CheckpointError, match=r"Malformed \\uxxxx encoding.*some\.properties"):
        parse(text)


def escape(text: str) -> str:
    named = {"\t": "\\t", "\n": "\\n", "\r": "\\r", "\f": "\\f"}
    return "".join(named.get(character) or f"\\u{ord(character):04x}" for character in text)


@given(st.text(alphabet="ab=:#!\\ \t\f\r\nu0041", max_size=40))
def test_any_text_gives_properties_that_come_back_or_the_error(text: str) -> None:
    try:
        properties = parse(text)
    except CheckpointError:
        return
    assert parse("".join(f"{escape(key)}={escape(value)}\n" for key, value in properties.items())) == properties


PRINTABLE = st.text(alphabet=st.characters(codec="latin-1", exclude_categories=["Cc"]), min_size=1)


@given(st.dictionaries(PRINTABLE, PRINTABLE))
def test_backslashes_before_separators(properties: dict[str, str]) -> None:
    def quote(text: str) -> str:
        return "".join("\\" + character if character in " =:#!\\" else character for character in text)

    assert parse("".join(f"{quote(key)}={quote(value)}\n" for key, value in properties.items())) == properties

"""How Java reads lines and numbers, which decides what Kafka's text readers and file-name parsers accept."""

from __future__ import annotations

from collections.abc import Iterator

INT_MIN, INT_MAX = -(1 << 31), (1 << 31) - 1
LONG_MIN, LONG_MAX = -(1 << 63), (1 << 63) - 1
_LONG_DIGITS = len(str(LONG_MAX))

WHITESPACE = " \t\n\x0b\f\r"  # what \s means in a Java pattern
_TO_SPACE = {ord(character): " " for character in WHITESPACE}


def parse_int(text: str) -> int | None:
    """Return the 32-bit number of `Integer.parseInt`, or None where Java would throw."""
    return _parse(text, INT_MIN, INT_MAX)


def parse_long(text: str) -> int | None:
    """Return the 64-bit number of `Long.parseLong`, or None where Java would throw."""
    return _parse(text, LONG_MIN, LONG_MAX)


def _parse(text: str, low: int, high: int) -> int | None:
    negative = text[:1] == "-"
    digits = text[1:] if negative or text[:1] == "+" else text
    if not digits.isdecimal():
        return None
    if not digits.isascii():  # Java takes the digits of all scripts, but looks at single UTF-16 characters
        if max(digits) > "\uffff":
            return None
        digits = "".join(str(int(digit)) for digit in digits)
    significant = digits.lstrip("0") or "0"
    if len(significant) > _LONG_DIGITS:  # int() refuses thousands of digits
        return None
    value = -int(significant) if negative else int(significant)
    return value if low <= value <= high else None


def read_lines(data: bytes) -> Iterator[str]:
    r"""Yield the lines that `BufferedReader.readLine` gives: ended by \n, \r, \r\n or the end of the data.

    Raises UnicodeDecodeError at the first line that is not UTF-8, as Java's reader fails there.
    """
    for line in data.splitlines():  # of bytes: unlike str's, it knows these three line ends only
        yield line.decode()


def split_whitespace(line: str) -> list[str]:
    r"""Return the fields of `Pattern.compile("\\s+").split(line)`: leading white space gives an empty first field."""
    if not line:
        return [""]
    fields = [field for field in line.translate(_TO_SPACE).split(" ") if field]
    if fields and line[0] in WHITESPACE:
        fields.insert(0, "")
    return fields

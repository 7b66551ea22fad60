"""The values of options that select: from the words of a command line to what the core compares with.

Every function but `read_by` takes the text given and raises ValueError with what is wrong about it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from kdump.errors import KdumpError
from kdump.formats.iso_times import parse_time
from kdump.formats.java_text import LONG_MAX
from kdump.formats.time_units import MS, wall_clock

if TYPE_CHECKING:
    from kdump.query.selection import Test

_SIZE_SHIFTS = {"": 0, "k": 10, "m": 20, "g": 30, "t": 40}


def read_by(read: Callable[[str], Any]) -> Callable[[click.Context, click.Parameter, Any], Any]:
    """Return an option's callback that reads its text (or each of its texts) by a function.

    ValueError, KdumpError and OSError say what is wrong with it.
    """

    def callback(ctx: click.Context, param: click.Parameter, value: Any) -> Any:
        try:
            if isinstance(value, tuple):
                return tuple(map(read, value))
            return None if value is None else read(value)
        except (ValueError, KdumpError, OSError) as error:
            raise click.BadParameter(str(error), ctx, param) from None

    return callback


def offset_range(text: str) -> tuple[int | None, int | None]:
    """Return the first offset that is wanted, the first that is not any more; None for either that is left open.

    `A-B` is inclusive, as ranges are printed; `A:B` ends before B, and either side may be absent; or one offset.
    """
    found = re.fullmatch(r"([0-9]{0,20}):([0-9]{0,20})|([0-9]{1,20})(?:[-\u2013]([0-9]{1,20}))?", text)
    if not found or text == ":":
        raise ValueError(f"{text!r}: expected A-B, A:B, A: or N")
    first, stop, single, last = (int(digits) if digits else None for digits in found.groups())
    if single is not None:
        first, stop = single, (single if last is None else last) + 1
    if max(first or 0, (stop or 1) - 1) > LONG_MAX:
        raise ValueError(f"{text!r}: the largest offset is {LONG_MAX}")
    if stop is not None and (first or 0) >= stop:
        raise ValueError(f"{text!r} is empty: A-B ends with B, A:B before it")
    return first, stop


def time_ms(text: str) -> int:
    """Return the ms of a text: ms since 1970, a date or time in ISO 8601, or so long ago (-15m, -2h, -1d12h).

    Times are UTC where they name no zone, and rounded up.
    """
    if re.fullmatch(r"-?[0-9]{1,19}", text):
        return int(text)
    if re.fullmatch(r"-([0-9]+[dhms])+", text.strip().lower()):
        return wall_clock() - time_span(text.strip()[1:])
    try:
        return parse_time(text)
    except ValueError:
        raise ValueError(
            f"{text!r} is neither a number of milliseconds nor ISO 8601, as in 2023-11-14T22:13:20Z, nor a time ago, as"
            " in -15m"
        ) from None


def content(text: str) -> Test:
    """Return the test that a text asks for.

    It is the bytes as text, or after `hex:` or `base64:`; `re:` and a pattern to be found; `text:` where the text looks
    like those.
    """
    prefix, colon, rest = text.partition(":")
    if not colon or prefix not in ("text", "hex", "base64", "re"):
        return _equals(text.encode("utf-8", "surrogateescape"))
    if prefix == "text":
        return _equals(rest.encode("utf-8", "surrogateescape"))
    if prefix == "re":
        try:
            pattern = re.compile(rest)
        except (re.error, RecursionError, OverflowError) as error:
            raise ValueError(f"{rest!r} is not a regular expression: {error}") from None
        return lambda found: pattern.search(found.decode("utf-8", "surrogateescape")) is not None
    try:
        if prefix == "hex":
            return _equals(bytes.fromhex(rest.removeprefix("0x")))
        from base64 import b64decode

        return _equals(b64decode(rest, validate=True))
    except ValueError as error:
        raise ValueError(f"{rest!r} is not {prefix}: {error}") from None


def header(text: str) -> tuple[bytes, Test | None]:
    """Return the name in UTF-8, and the test of the value, of `NAME` or `NAME=VALUE`, the value as in `content`."""
    name, equals, value = text.partition("=")
    if not name:
        raise ValueError(f"{text!r} names no header: expected NAME or NAME=VALUE")
    return name.encode("utf-8", "surrogateescape"), content(value) if equals else None


def size(text: str) -> int:
    """Return the bytes of a text: a number, or with K, M, G or T that many times 1024."""
    found = re.fullmatch(r"([0-9]{1,15})([kmgt]?)(i?b)?", text.strip().lower())
    if not found or not int(found[1]):
        raise ValueError(f"{text!r} is not a size: expected a number of bytes, or one with K, M, G or T")
    return int(found[1]) << _SIZE_SHIFTS[found[2]]


def time_span(text: str) -> int:
    """Return the ms of a number of days, hours, minutes or seconds, as in 1d, 36h, 90m, 30s or 1d12h."""
    pattern = "".join(rf"(?:([0-9]{{1,9}}){unit})?" for unit in "dhms")
    found = re.fullmatch(pattern, text.strip().lower())
    if not found or not any(found.groups()):
        raise ValueError(f"{text!r} is not a time span: expected a number with d, h, m or s, as in 1d or 12h30m")
    return sum(int(number or 0) * ms for number, ms in zip(found.groups(), MS.values(), strict=False))


def duration_seconds(text: str) -> float:
    """Return the seconds of a length of time, as in 90, 90s, 15m, 2h or 1h30m."""
    try:
        return float(text) if re.fullmatch(r"[0-9]{1,9}", text, re.ASCII) else time_span(text) / MS["s"]
    except ValueError:
        raise ValueError(f"{text!r} is not a duration: expected 90, 90s, 15m or 1h30m") from None


def _equals(wanted: bytes) -> Test:
    return lambda found: found == wanted

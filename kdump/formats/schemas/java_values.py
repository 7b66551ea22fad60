"""What Java's and Jackson's own functions make of a value, for output that must equal Kafka's byte for byte.

`String.hashCode`, `Double.toString` and Jackson's compact JSON each differ in corners from what Python does.
"""

from __future__ import annotations

import math
from typing import Any

from kdump.formats.batch import wrap32

_ESCAPES = {code: f"\\u{code:04X}" for code in range(0x20)} | {
    ord('"'): '\\"',
    ord("\\"): "\\\\",
    ord("\b"): "\\b",
    ord("\t"): "\\t",
    ord("\n"): "\\n",
    ord("\f"): "\\f",
    ord("\r"): "\\r",
}
_WORDS = {None: "null", True: "true", False: "false"}
_PLAIN_EXPONENTS = range(-3, 7)  # the decimal exponents that Double.toString writes without an E
_WITHOUT_EXPONENT = range(-3, 8)  # and those that it takes for such while it still looks for digits


def string_hash(text: str) -> int:
    """Return `String.hashCode`: a signed 32-bit number made of the UTF-16 units."""
    units = text.encode("utf-16-le", "surrogatepass")
    value = 0
    for low, high in zip(units[::2], units[1::2], strict=True):
        value = (value * 31 + (high << 8 | low)) & 0xFFFFFFFF
    return wrap32(value)


def double_text(value: float) -> str:
    """Return `Double.toString` as of the Java releases up to 18, Kafka 4.0's usual ground.

    They show more digits of whole numbers above 2^53 and of the smallest numbers than Java 19 does. Their overflow in
    the last digit of some numbers of 10^19 to 10^26 (1.9999999999999998E23 for 2E23) is not reproduced.
    """
    if math.isnan(value):
        return "NaN"
    sign = "-" if repr(value)[0] == "-" else ""
    if not value:
        return f"{sign}0.0"
    if value in (float("inf"), float("-inf")):
        return f"{sign}Infinity"
    digits, exponent = _digits(abs(value))
    if exponent not in _PLAIN_EXPONENTS:
        return f"{sign}{digits[0]}.{digits[1:] or '0'}E{exponent}"
    if exponent < 0:
        return f"{sign}0.{'0' * (-exponent - 1)}{digits}"
    return f"{sign}{digits[: exponent + 1].ljust(exponent + 1, '0')}.{digits[exponent + 1 :] or '0'}"


def _digits(value: float) -> tuple[str, int]:
    """Return the digits that Java shows of a positive number, and the decimal exponent of the first."""
    numerator, denominator = value.as_integer_ratio()
    if denominator == 1 and numerator < 1 << 63:
        return _whole_digits(numerator)
    return _shortest_digits(value)


def _whole_digits(number: int) -> tuple[str, int]:
    """Return all digits but those that the bits beyond a double's precision cannot tell apart, rounded half up."""
    surplus_bits = number.bit_length() - 55
    unit = 10 ** (len(str(1 << surplus_bits)) - 1) if surplus_bits > 1 else 1
    rounded = str((number + unit // 2) // unit * unit)
    return rounded.rstrip("0"), len(rounded) - 1


def _shortest_digits(value: float) -> tuple[str, int]:
    """Return digits one by one until the number is told from its neighbours, taken to be as far on each side.

    Numbers written with an exponent get two digits at least. All integers are over one denominator, `one`.
    """
    from math import floor, frexp, ulp

    fraction, power = frexp(value)
    # the tangent of the logarithm at 1.5: sometimes 1 too high, and Java's outcome depends on when
    exponent = floor((fraction * 2 - 1.5) * 0.289529654 + 0.176091259 + (power - 1) * 0.301029995663981)
    (rest, one), (margin, margin_one) = value.as_integer_ratio(), ulp(value).as_integer_ratio()
    scale = 4 * max(one, margin_one)
    rest, margin, one = rest * (scale // one), margin * (scale // margin_one) // (4 if fraction * 2 == 1 else 2), scale
    if exponent >= 0:
        one *= 10**exponent
    else:
        rest, margin = rest * 10**-exponent, margin * 10**-exponent
    digits: list[int] = []
    low = high = False
    while not (low or high):
        digit, rest = divmod(rest, one)
        rest, margin = rest * 10, margin * 10
        low, high = rest < margin, rest + margin >= one * 10
        if not digits and digit == 0 and not high:
            exponent -= 1
        else:
            digits.append(digit)
        if len(digits) < 2 and exponent not in _WITHOUT_EXPONENT:
            low = high = False
    if high and (not low or rest * 2 > one * 10 or (rest * 2 == one * 10 and digits[-1] % 2)):
        rounded = str(int("".join(map(str, digits))) + 1).zfill(len(digits))
        return rounded[: len(digits)], exponent + len(rounded) - len(digits)
    return "".join(map(str, digits)), exponent


def json_text(value: Any) -> str:
    """Return the compact JSON that Jackson writes for nested dicts, lists, strings, numbers, booleans and None.

    The names in dicts are taken as they are: fields have names that need no escapes.
    """
    kind = type(value)
    if kind is str:
        return f'"{value.translate(_ESCAPES)}"'
    if kind is int:
        return str(value)
    if kind is dict:
        return "{" + ",".join([f'"{name}":{json_text(item)}' for name, item in value.items()]) + "}"
    if kind is list:
        return "[" + ",".join([json_text(item) for item in value]) + "]"
    return double_text(value) if kind is float else _WORDS[value]

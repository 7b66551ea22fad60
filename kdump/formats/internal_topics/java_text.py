"""What Java's and Jackson's own text functions make of a value, for output that must equal Kafka's byte for byte.

Decoding of malformed UTF-8, `String.hashCode`, `Double.toString` and Jackson's compact JSON each differ in corners from
what Python does.
"""

from __future__ import annotations

from typing import Any

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


def utf8_text(data: bytes) -> str:
    """The text that `new String(data, UTF_8)` holds: U+FFFD stands for each malformed sequence.

    Java takes the (possibly cut) bytes of an encoded surrogate as one malformed sequence, Python each byte as one.
    """
    try:
        return data.decode()
    except UnicodeDecodeError:
        import re

        without_surrogates = re.sub(rb"\xed[\xa0-\xbf][\x80-\xbf]?", b"\xef\xbf\xbd", data)
        return without_surrogates.decode("utf-8", "replace")


def string_hash(text: str) -> int:
    """`String.hashCode`: a signed 32-bit number made of the UTF-16 units."""
    units = text.encode("utf-16-le", "surrogatepass")
    value = 0
    for low, high in zip(units[::2], units[1::2], strict=True):
        value = (value * 31 + (high << 8 | low)) & 0xFFFFFFFF
    return value - 0x100000000 if value >= 0x80000000 else value


def double_text(value: float) -> str:
    """`Double.toString` as of the Java releases up to 18, which Kafka 4.0 is usually run on.

    They write whole numbers of 2^53 up to 2^63 with more digits than needed; every other number with the fewest digits
    that tell it from its neighbours, as all later releases do. (Their few other slips, as 1.9999999999999998E23 for
    2E23, are not reproduced.)
    """
    if value != value:
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "Infinity" if value > 0 else "-Infinity"
    text = repr(value)
    sign = "-" if text[0] == "-" else ""
    if not value:
        return sign + "0.0"
    digits, exponent = _digits(abs(value))
    if exponent in _PLAIN_EXPONENTS:
        if exponent < 0:
            return f"{sign}0.{'0' * (-exponent - 1)}{digits}"
        return f"{sign}{digits[: exponent + 1].ljust(exponent + 1, '0')}.{digits[exponent + 1 :] or '0'}"
    return f"{sign}{digits[0]}.{digits[1:] or '0'}E{exponent}"


def _digits(value: float) -> tuple[str, int]:
    """The significant digits of a positive number and the decimal exponent of the first of them."""
    if 2.0**53 <= value < 2.0**63:
        whole = int(value)
        surplus = whole.bit_length() - 55  # bits beyond what a double can tell apart
        unit = 10 ** (len(str(1 << surplus)) - 1) if surplus > 1 else 1
        rounded = str((whole + unit // 2) // unit * unit)
        return rounded.rstrip("0"), len(rounded) - 1
    mantissa, _, power = repr(value).partition("e")
    if power and "." not in mantissa:
        mantissa, _, power = f"{value:.1e}".partition("e")  # Java gives two digits at least, the nearest two
    whole_part, _, fraction = mantissa.partition(".")
    digits = (whole_part + fraction).lstrip("0")
    leading = len(whole_part) + len(fraction) - len(digits)
    return digits.rstrip("0"), len(whole_part) - 1 - leading + int(power or 0)


def json_text(value: Any) -> str:
    """The compact JSON that Jackson writes for nested dicts, lists, strings, numbers, booleans and None."""
    if isinstance(value, str):
        return f'"{value.translate(_ESCAPES)}"'
    if isinstance(value, dict):
        return "{" + ",".join([f"{json_text(name)}:{json_text(item)}" for name, item in value.items()]) + "}"
    if isinstance(value, list):
        return "[" + ",".join([json_text(item) for item in value]) + "]"
    if isinstance(value, float):
        return double_text(value)
    return _WORDS[value] if value is None or isinstance(value, bool) else str(value)

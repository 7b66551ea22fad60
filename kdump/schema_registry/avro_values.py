"""What values of Avro become, by type and logical type: as JSON shows them, or as Arrow takes them."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Context, Decimal
from enum import StrEnum
from typing import Any
from uuid import UUID

from kdump.formats.iso_times import DAY, clock, iso_date, iso_second
from kdump.formats.printable import base64
from kdump.formats.uuids import UUID_SIZE
from kdump.schema_registry.errors import SchemaError

Json = Any

MAX_DECIMAL = 1000
"""Bytes of a decimal, and its scale: Python makes no text of more than 4,300 digits."""


class Form(StrEnum):
    """What values are made for."""

    SHOWN = "shown"
    NATIVE = "native"


Read = Callable[..., Any]


def _shown_bytes(data: bytes, *_: Any) -> Json:
    return {"base64": base64(data)}


def _shown_number(value: float, *_: Any) -> Json:
    return value if math.isfinite(value) else not_finite(value)


def not_finite(value: float) -> str:
    """Return what JSON has no number for."""
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _unscaled(data: bytes, schema: Json) -> tuple[int, int]:
    """Return the digits of a decimal and its scale. Raises SchemaError for more than Python makes text of."""
    scale = schema.get("scale", 0)
    if len(data) > MAX_DECIMAL or abs(scale) > MAX_DECIMAL:
        raise SchemaError(f"a decimal of {len(data):,} bytes with the scale {scale}: {MAX_DECIMAL:,} is the most")
    return int.from_bytes(data, "big", signed=True), scale


def _shown_decimal(data: bytes, schema: Json, *_: Any) -> str:
    unscaled, scale = _unscaled(data, schema)
    if scale <= 0:
        return str(unscaled * 10**-scale)
    sign = "-" if unscaled < 0 else ""
    digits = str(abs(unscaled)).zfill(scale + 1)
    return f"{sign}{digits[:-scale]}.{digits[-scale:]}"


def _shown_uuid(text: str, *_: Any) -> str:
    try:
        return str(UUID(text))
    except ValueError:
        return text


def _shown_fixed_uuid(data: bytes, *_: Any) -> Json:
    return str(UUID(bytes=data)) if len(data) == UUID_SIZE else _shown_bytes(data)


def _timestamp(digits: int, zone: str) -> Read:
    unit = 10**digits

    def read(value: int, *_: Any) -> str:
        seconds, part = divmod(value, unit)
        return f"{iso_second(seconds)}.{part:0{digits}d}{zone}"

    return read


def _time_of_day(digits: int) -> Read:
    unit = 10**digits

    def read(value: int, *_: Any) -> Json:
        seconds, part = divmod(value, unit)
        return f"{clock(seconds)}.{part:0{digits}d}" if 0 <= seconds < DAY else value

    return read


class Timed(int):
    """A number that is a time: Arrow takes the number, `text` is what JSON has."""

    text: str


def _timed(shown: Read) -> Read:
    def read(value: int, *_: Any) -> Timed:
        made = Timed(value)
        made.text = shown(value)
        return made

    return read


def _native_decimal(data: bytes, schema: Json, *_: Any) -> Decimal:
    unscaled, scale = _unscaled(data, schema)
    return _EXACT.scaleb(Decimal(unscaled), -scale)


_EXACT = Context(prec=100_000, Emin=-999_999, Emax=999_999)


def json_of(value: Any) -> Json:
    """Return a native value as JSON has it."""
    if isinstance(value, dict):
        return {name: json_of(each) for name, each in value.items()}
    if isinstance(value, list):
        return [json_of(each) for each in value]
    if isinstance(value, Timed):
        return value.text
    if isinstance(value, bytes):
        return _shown_bytes(value)
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, float):
        return _shown_number(value)
    return value


def _readers() -> dict[str, Read]:
    shown: dict[str, Read] = {
        "bytes-plain": _shown_bytes,
        "fixed-plain": _shown_bytes,
        "float-plain": _shown_number,
        "double-plain": _shown_number,
        "bytes-decimal": _shown_decimal,
        "fixed-decimal": _shown_decimal,
        "string-uuid": _shown_uuid,
        "fixed-uuid": _shown_fixed_uuid,
        "int-date": lambda days, *_: iso_date(days),
        "int-time-millis": _time_of_day(3),
        "long-time-micros": _time_of_day(6),
    }
    for name, digits in (("millis", 3), ("micros", 6), ("nanos", 9)):
        shown[f"long-timestamp-{name}"] = _timestamp(digits, "Z")
        shown[f"long-local-timestamp-{name}"] = _timestamp(digits, "")
    readers = {}
    for name, read in shown.items():
        kind, _, logical = name.partition("-")
        readers[f"{kind}-kdump-{Form.SHOWN}-{logical}"] = read
        if logical == "decimal":
            readers[f"{kind}-kdump-{Form.NATIVE}-{logical}"] = _native_decimal
        elif logical == "uuid":
            readers[f"{kind}-kdump-{Form.NATIVE}-{logical}"] = read
        elif logical != "plain":
            readers[f"{kind}-kdump-{Form.NATIVE}-{logical}"] = _timed(read)
    return readers


READERS = _readers()
"""By what fastavro looks them up: type and our logical type."""

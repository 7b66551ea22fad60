"""JSON Schema: the payload is JSON; the schema only says what is in it."""

from __future__ import annotations

import json
import re
from math import isfinite
from typing import Any

from kdump.schemas.avro_values import not_finite
from kdump.schemas.errors import SchemaError
from kdump.schemas.nesting import MAX_NESTING, check_nesting


def decode_json(payload: bytes) -> Any:
    """Return the value of a payload. Raises SchemaError."""
    try:
        value = json.loads(payload, parse_constant=_constant, parse_float=_number if _MAY_BE_HUGE(payload) else None)
    except (ValueError, RecursionError) as error:
        raise SchemaError(f"not JSON: {error}") from None
    if payload.count(b"[") + payload.count(b"{") > MAX_NESTING:
        check_nesting(value)
    return value


_MAY_BE_HUGE = re.compile(rb"[eE]\+?[0-9]{3}|[0-9]{200}|\0").search
"""Finds numbers beyond those of 64 bits, and text of more bytes a letter, in which they are not looked for."""


def _number(text: str) -> float | str:
    """Return a number, as text where it is one that is not finite by now."""
    value = float(text)
    return value if isfinite(value) else not_finite(value)


def _constant(text: str) -> str:
    """Return NaN and the infinities, which some serializers write and JSON has not."""
    return not_finite(float(text))

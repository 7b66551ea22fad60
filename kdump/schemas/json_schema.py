"""JSON Schema: the payload is JSON; the schema only says what is in it."""

from __future__ import annotations

import json
from typing import Any

from kdump.schemas.avro_values import not_finite
from kdump.schemas.errors import SchemaError
from kdump.schemas.nesting import MAX_NESTING, check_nesting


def decode_json(payload: bytes) -> Any:
    """Return the value of a payload. Raises SchemaError."""
    try:
        value = json.loads(payload, parse_constant=_constant)
    except (ValueError, RecursionError) as error:
        raise SchemaError(f"not JSON: {error}") from None
    if payload.count(b"[") + payload.count(b"{") > MAX_NESTING:
        check_nesting(value)
    return value


def _constant(text: str) -> str:
    """Return NaN and the infinities, which some serializers write and JSON has not."""
    return not_finite(float(text))

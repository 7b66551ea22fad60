"""Kafka's isolation levels."""

from __future__ import annotations

from enum import StrEnum


class Isolation(StrEnum):
    """Kafka's isolation levels."""

    READ_UNCOMMITTED = "read_uncommitted"
    READ_COMMITTED = "read_committed"

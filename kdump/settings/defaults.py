"""Kafka's defaults, in ms, for those who need no more of a setting: `settings.table` has them from here."""

from __future__ import annotations

MAX_TIMEOUT_MS = 900_000
"""transaction.max.timeout.ms"""

OFFSETS_RETENTION_MS = 7 * 24 * 60 * 60 * 1000
"""offsets.retention.minutes"""

RETENTION_MS = 7 * 24 * 60 * 60 * 1000
"""retention.ms (log.retention.hours)"""

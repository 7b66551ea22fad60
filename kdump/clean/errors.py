"""Why a partition cannot be cleaned."""

from __future__ import annotations

from kdump.errors import KdumpError


class CleaningError(KdumpError):
    """The cleaner cannot get on: damage, or what makes Kafka's own cleaner give the partition up."""

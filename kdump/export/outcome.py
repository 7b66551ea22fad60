"""What becomes of a unit of an export."""

from __future__ import annotations

from kdump.errors import KdumpError
from kdump.export.journal import Result
from kdump.export.plan import Unit

Failure = KdumpError | OSError
Outcome = tuple[Unit, Result | Failure]
"""A unit, and what it became or why there is nothing."""

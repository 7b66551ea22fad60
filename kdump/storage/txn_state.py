"""How transactions end."""

from __future__ import annotations

from enum import StrEnum


class TxnState(StrEnum):
    """How the transaction ended that records belong to; `read_committed` consumers get those of NONE and COMMITTED.

    UNKNOWN is said where the markers may be elsewhere, as of a log alone, or cannot be read.
    """

    NONE = "none"
    COMMITTED = "committed"
    ABORTED = "aborted"
    OPEN = "open"
    UNKNOWN = "unknown"

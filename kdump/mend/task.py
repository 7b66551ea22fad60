"""What is asked of a repair, and what it makes of one partition, as plain data."""

from __future__ import annotations

import os
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from kdump.change.guard import NOTHING_DROPPED, Dropped
from kdump.change.plan import KINDS, ORPHANS, Cut, Plan
from kdump.errors import check_number, check_several, check_type, check_word
from kdump.formats.codecs import DEFAULT_LIMIT
from kdump.formats.names import parse_file_name
from kdump.formats.printable import command_line
from kdump.formats.uuids import parse_uuid
from kdump.recovery.outcome import LEAVE_OUT, TRUNCATE, Failure, LoadOutcome

if TYPE_CHECKING:
    from kdump.mend.decision import Damaged, Decision
    from kdump.mend.salvage_partition import Salvaged


class Strategy(StrEnum):
    """How a repair deals with damage (kdump.mend.strategies)."""

    SAFE = "safe"
    TRUNCATE_LOG = "truncate"
    SALVAGE = "salvage"
    FIX_BIT = "fix-bit"


class LostMarkers(StrEnum):
    """What becomes of a transaction that may have lost its marker (kdump.mend.lost_markers)."""

    OPEN = "open"
    """It stays open."""
    ABORTED = "abort"
    """It is aborted."""


OPEN, ABORTED = LostMarkers
SAFE, TRUNCATE_LOG, SALVAGE, FIX_BIT = Strategy
STRATEGIES = (SAFE, TRUNCATE_LOG, SALVAGE)

CHECKPOINTS = "checkpoints"
ALL_KINDS = (*KINDS, CHECKPOINTS, ORPHANS)
INDEX_KINDS = ("indexes", "timeindexes", "txnindexes")


class Request(NamedTuple):
    """What is asked for.

    `kinds` are those of ALL_KINDS that may be changed; None: everything. `limit` bounds what one batch may decompress
    to, in bytes. `topic_id` is the topic's, where an operator names it.
    """

    strategy: Strategy = SAFE
    kinds: frozenset[str] | None = None
    limit: int = DEFAULT_LIMIT
    lost_markers: LostMarkers = OPEN
    topic_id: str | None = None

    def check(self) -> None:
        """Raise ValueError, TypeError, KdumpError for what nothing can be repaired by."""
        check_word("strategy", self.strategy, Strategy)
        check_several("kinds", self.kinds, str, may_be_none=True)
        for kind in self.kinds or ():
            check_word("kinds", kind, ALL_KINDS)
        check_number("limit", self.limit, 1)
        check_word("lost_markers", self.lost_markers, LostMarkers)
        check_type("topic_id", self.topic_id, str, may_be_none=True)
        if self.topic_id is not None:
            parse_uuid(self.topic_id)


class Task(NamedTuple):
    """What is to be done with the partition directory `path`.

    `plan` is None where nothing can be done: `failure` says what the broker's loading ends in, `problems` what else is
    in the way. It is empty where a `decision` is needed first. `extent` is the log's start and end offset (absolute)
    afterwards, None where it is not known. `dropped` are the valid batches that the plan drops, by the guard. `outcome`
    and `salvaged` are what the plan was made from, `fixed` the bits that it flips back, `notes` what else to know of
    it. `was_closed` tells that the broker's next start checks no segment.
    """

    path: str
    plan: Plan | None
    extent: tuple[int, int] | None = None
    cuts: tuple[Cut, ...] = ()
    problems: tuple[str, ...] = ()
    outcome: LoadOutcome | None = None
    salvaged: Salvaged | None = None
    dropped: Dropped = NOTHING_DROPPED
    decision: Decision | None = None
    fixed: tuple[Damaged, ...] = ()
    notes: tuple[str, ...] = ()
    was_closed: bool = False

    @property
    def failure(self) -> Failure | None:
        """The exception in which the broker's log loading ends, if it does."""
        return self.outcome.failure if self.outcome else None


def first_damage(outcome: LoadOutcome | None) -> tuple[str, str] | None:
    """Return which .log is cut first, where and why; later segments, told of earlier, go because of it."""
    steps = outcome.steps if outcome else ()
    cut = next((step for step in steps if step.action in (TRUNCATE, LEAVE_OUT) and step.position is not None), None)
    return (cut.file, f"byte {cut.position}: {cut.why}") if cut else None


def not_rebuilt(path: str, damage: str) -> str:
    """Return why indexes are left: `damage` names the .log in the partition's `path`, and what is wrong with it."""
    repair = command_line("kdump", "repair", path)
    return f"{os.path.join(path, damage)}. Indexes were not rebuilt. First: {repair}"


def changed_log(plan: Plan) -> str:
    """Return the first live .log that a plan changes; "" for none."""
    return next((each.name for each in plan.operations if parse_file_name(each.name).is_live_log), "")

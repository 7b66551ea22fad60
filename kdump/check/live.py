"""Which findings beside a running broker count: what it is in the middle of is none, and all else must come twice."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator

from kdump.disk.reading import is_named
from kdump.findings.finding import Finding
from kdump.findings.kind import NOTE
from kdump.formats import names
from kdump.formats.names import parse_file_name
from kdump.storage.partition import PartitionLog

PAUSE = 0.3
"""Seconds between the two looks."""

_OF_GROWING_LOGS = frozenset({"KD-LOG-TORN", "KD-LOG-ZEROS", "KD-LOG-PREALLOCATED", "KD-LOG-EMPTY"})
"""What the log that is written to may be like at any moment."""

_OF_GROWING_INDEXES = ("KD-IDX-", "KD-TIDX-")
"""Its indexes come with their first entry, keep room, and keep what a truncation has left behind in that."""

_OF_CHECKPOINTS = frozenset({"KD-CKPT-STALE", "KD-CKPT-BEHIND", "KD-CKPT-ORDER"})
"""A running broker writes its checkpoints down every few seconds or minutes: they lag behind."""

_STATES = ("KD-FILE-", "KD-DIR-DELETE", "KD-DIR-FUTURE")
"""Files and directories that the broker is at work with, or has put aside for itself to delete."""

_LOCAL = ("KD-LOG-", "KD-BATCH-", "KD-IDX-", "KD-TIDX-", "KD-TIME-")
"""Codes whose findings follow from a segment and the one before it."""

_OF_CLUSTERS = frozenset({"KD-DIR-UNASSIGNED", "KD-META-TOPIC-CLUSTER"})
"""Codes whose findings follow from the cluster's metadata, which was read at another moment than the directory."""

_IN_TRANSIT = frozenset({"KD-DIR-UNASSIGNED"})
"""A broker sets such a directory aside when it starts: while it runs, the directory's topic comes or goes."""

Key = tuple[str, str, int | None, int | None]


def key_of(finding: Finding) -> Key:
    """Return what two findings of the same thing have in common."""
    return finding.code, finding.path, finding.position, finding.offset


def judged(findings: Iterable[Finding], log: PartitionLog | None = None) -> Iterator[Finding]:
    """Yield the findings without what a running broker's files may be at any moment; its leftovers become notes."""
    newest = _newest_snapshot(log) if log is not None else None
    active = log.segments[-1].base_offset if log is not None and log.segments else None
    for finding in findings:
        if finding.code in _OF_CHECKPOINTS:
            continue
        parsed = parse_file_name(os.path.basename(finding.path))
        is_growing = active is not None and parsed.kind in names.SEGMENT_KINDS and parsed.offset == active
        if is_growing and finding.code in _OF_GROWING_LOGS:
            continue
        if is_growing and finding.code.startswith(_OF_GROWING_INDEXES):
            finding = finding._replace(severity=NOTE)
        if finding.code == "KD-SNAP-CORRUPT" and os.path.basename(finding.path) == newest:
            continue
        if finding.code.startswith(_STATES):
            finding = finding._replace(severity=NOTE)
        yield finding


def is_doubtful(finding: Finding) -> bool:
    """Return whether a finding has to come twice."""
    return finding.severity != NOTE


def confirmed(
    first: Iterable[Finding], check_again: Callable[[list[Finding]], Iterable[Finding]], since: float
) -> Iterator[Finding]:
    """Yield those of the findings of a first look that a second one finds as well, and the notes among them.

    `since` is when the first look ended (time.monotonic()); `check_again` is given what is in doubt.
    """
    found = list(first)
    doubtful = list(filter(is_doubtful, found))
    again: set[Key] = set()
    if doubtful:
        time.sleep(max(0.0, since + PAUSE - time.monotonic()))
        again = set(map(key_of, check_again(doubtful)))
    for finding in found:
        if key_of(finding) in again or (not is_doubtful(finding) and is_named(finding.path)):
            yield finding._replace(severity=NOTE) if finding.code in _IN_TRANSIT else finding


def need_metadata(doubtful: Iterable[Finding]) -> bool:
    """Return whether a second look has to go by the cluster's metadata of its own moment."""
    return any(finding.code in _OF_CLUSTERS for finding in doubtful)


def segments_in_doubt(doubtful: Iterable[Finding], log: PartitionLog) -> tuple[int, int | None] | None:
    """Tell from which base offset on, and before which one (None: to the end), a second look is to go.

    None where it has to go over the whole partition, because something follows from more than a segment.
    """
    bases = [segment.base_offset for segment in log.segments]
    offsets = []
    for finding in doubtful:
        offset = parse_file_name(os.path.basename(finding.path)).offset
        if not finding.code.startswith(_LOCAL) or offset not in bases:
            return None
        offsets.append(offset)
    first, last = bases.index(min(offsets)), bases.index(max(offsets))
    beyond = bases[last + 2 : last + 3]
    return bases[max(0, first - 1)], beyond[0] if beyond else None


def _newest_snapshot(log: PartitionLog) -> str | None:
    """Return the name of the producer snapshot that may be in the middle of being written."""
    found = names.producer_snapshots(log.files)
    return found[max(found)] if found else None

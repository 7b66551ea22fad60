"""KRaft snapshots (.checkpoint): batches from offset 0 on, a header record first and a footer record last.

A bootstrap.checkpoint is one of them, but a broker reads it in its own way.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from kdump.check.batch_rows import Piece, Reading, walk
from kdump.check.log import LogCheck
from kdump.check.markers import Marker
from kdump.findings.finding import Finding, found, unreadable
from kdump.findings.kind import IGNORES, REFUSES, SERVES_WRONG_DATA, BrokerEffect, Remedy
from kdump.findings.remedies import BOOTSTRAP, CLUSTER_METADATA, KRAFT_SNAPSHOT, OLDER_SNAPSHOT
from kdump.formats import names
from kdump.formats.batch import SNAPSHOT_FOOTER, SNAPSHOT_HEADER
from kdump.formats.names import parse_file_name
from kdump.recovery.bootstrap import bootstrap_failure
from kdump.recovery.newest_snapshot import read_snapshot
from kdump.storage.damage import Damage
from kdump.storage.directory import LogDirectory
from kdump.storage.partition import PartitionLog
from kdump.storage.segment import Segment
from kdump.topics.metadata_log import live_snapshots

_THEN = "; a node that reads it treats what is left as complete, and sets the other partitions aside"


def check_bootstrap(directory: LogDirectory) -> Iterator[Finding]:
    """Yield whether a broker can read the bootstrap.checkpoint of the directory that has its cluster's metadata."""
    path = os.path.join(directory.path, names.BOOTSTRAP_CHECKPOINT)
    if names.CLUSTER_METADATA_DIR not in directory.directories:
        return
    try:
        failure = bootstrap_failure(path)
    except OSError as error:
        yield unreadable(path, error)
        return
    if failure is not None:
        yield found("KD-KRAFT-SNAPSHOT", path, failure.text)._replace(ways=BOOTSTRAP)


def check_start(log: PartitionLog) -> Iterator[Finding]:
    """Yield whether a metadata log that does not begin at 0 lacks the snapshot of what came before."""
    first = log.segments[0].base_offset if log.segments else 0
    newest = next(live_snapshots(log), None)
    reached = 0 if newest is None else parse_file_name(os.path.basename(newest)).offset or 0
    if reached < first:
        finding = found("KD-KRAFT-SNAPSHOT", log.path, f"there is no snapshot of the records before offset {first}")
        yield finding._replace(ways=CLUSTER_METADATA[1:])


def check_kraft_snapshot(path: str, reading: Reading) -> Iterator[Finding]:
    """Yield all of one snapshot. What cannot be read is a finding."""
    known = None
    for finding in _all_of(path, reading):
        if finding.code != "KD-KRAFT-SNAPSHOT":
            yield finding
            continue
        known = known or damage_effect(path)
        then = _THEN if known.effect is SERVES_WRONG_DATA and finding.position is None else ""
        yield finding._replace(text=finding.text + then, effect=known.effect, ways=known.ways)


class DamageEffect(NamedTuple):
    """What a node does about a damaged snapshot, and what to do about it."""

    effect: BrokerEffect
    ways: tuple[Remedy, ...]


def damage_effect(path: str) -> DamageEffect:
    """Return what becomes of a damaged snapshot or bootstrap.checkpoint: a node reads the newest of its log alone."""
    folder, name = os.path.split(path)
    if parse_file_name(name).kind == names.BOOTSTRAP_CHECKPOINT:
        return DamageEffect(REFUSES, BOOTSTRAP)
    try:
        newest, *older = live_snapshots(PartitionLog(folder or os.curdir))
        if os.path.basename(newest) != name:
            return DamageEffect(IGNORES, OLDER_SNAPSHOT)
        read = read_snapshot(path)
        is_needed = not _starts_without(PartitionLog(folder or os.curdir), older)
    except OSError:
        return DamageEffect(REFUSES, KRAFT_SNAPSHOT)
    ways = CLUSTER_METADATA[1:] if is_needed else KRAFT_SNAPSHOT
    if read.failure is not None:
        return DamageEffect(REFUSES, ways)
    return DamageEffect(SERVES_WRONG_DATA if read.ends_early else IGNORES, ways)


def _starts_without(log: PartitionLog, older: list[str]) -> bool:
    """Return whether a node comes to the same state by an older snapshot, or by the log alone. Raises OSError."""
    first = log.segments[0].base_offset if log.segments else None
    if first is None:
        return False
    sound = (path for path in older if read_snapshot(path).has_footer)
    return first == 0 or any((parse_file_name(os.path.basename(path)).offset or 0) >= first for path in sound)


def _all_of(path: str, reading: Reading) -> Iterator[Finding]:
    segment = Segment(path)
    check = LogCheck(holds_metadata=True)
    first: Marker | None = None
    last: Marker | None = None
    has_batches = False
    try:
        check.open_segment(path, 0, None, was_closed=True)
        for part in walk(Piece(segment, 0, None, reading)):
            if isinstance(part, Damage):
                yield from _of_snapshot(check.bad_bytes(part))
                continue
            yield from _of_snapshot(check.take(part))
            if not has_batches:
                first = part.markers.get(0)
            has_batches = True
            last = part.markers.get(len(part.position) - 1)
    except OSError as error:
        yield unreadable(path, error)
        return
    if first is None or first.type != SNAPSHOT_HEADER:
        yield found("KD-KRAFT-SNAPSHOT", path, "the first batch is not a snapshot header", 0)
    if last is None or last.type != SNAPSHOT_FOOTER:
        yield found("KD-KRAFT-SNAPSHOT", path, "the last batch is not a snapshot footer")


def _of_snapshot(findings: Iterable[Finding]) -> Iterator[Finding]:
    """Yield findings about batches as those of a snapshot: no broker cuts it there, and `repair` leaves it alone."""
    for finding in findings:
        is_damage = any(remedy.command for remedy in finding.remedies)
        if is_damage:
            finding = found("KD-KRAFT-SNAPSHOT", finding.path, finding.message, finding.position,
                            length=finding.length, details=finding.details)  # fmt: skip
        yield finding

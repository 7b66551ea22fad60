"""KRaft snapshots (.checkpoint): batches from offset 0 on, a header record first and a footer record last.

A bootstrap.checkpoint is one of them, but a broker reads it in its own way.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

from kdump.findings.finding import Finding, found
from kdump.findings.remedies import BOOTSTRAP
from kdump.formats import names
from kdump.formats.batch import SNAPSHOT_FOOTER, SNAPSHOT_HEADER
from kdump.recovery.bootstrap import bootstrap_failure
from kdump.storage.damage import Damage
from kdump.storage.directory import LogDirectory
from kdump.storage.segment import Segment
from kdump.verify.log import LogCheck
from kdump.verify.markers import Marker
from kdump.verify.sheets import Piece, Reading, walk


def check_bootstrap(directory: LogDirectory) -> Iterator[Finding]:
    """Yield whether a broker can read the bootstrap.checkpoint of the directory that has its cluster's metadata."""
    path = os.path.join(directory.path, names.BOOTSTRAP_CHECKPOINT)
    if names.CLUSTER_METADATA_DIR not in directory.directories:
        return
    try:
        failure = bootstrap_failure(path)
    except OSError as error:
        yield found("KD-READ", path, error.strerror or str(error))
        return
    if failure is not None:
        yield found("KD-KRAFT-SNAPSHOT", path, failure.text)._replace(ways=BOOTSTRAP)


def check_kraft_snapshot(path: str, reading: Reading) -> Iterator[Finding]:
    """Yield all of one snapshot. What cannot be read is a finding."""
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
            yield from _of_snapshot(check.sheet(part))
            if not has_batches:
                first = part.markers.get(0)
            has_batches = True
            last = part.markers.get(len(part.position) - 1)
    except OSError as error:
        yield found("KD-READ", path, error.strerror or str(error))
        return
    if first is None or first.type != SNAPSHOT_HEADER:
        yield found("KD-KRAFT-SNAPSHOT", path, "the first batch is not a snapshot header", 0)
    if last is None or last.type != SNAPSHOT_FOOTER:
        yield found("KD-KRAFT-SNAPSHOT", path, "the last batch is not a snapshot footer")


def _of_snapshot(findings: Iterable[Finding]) -> Iterator[Finding]:
    """Yield findings about batches as what they are in a snapshot: no broker cuts it there, and `repair` leaves it
    alone.
    """
    for finding in findings:
        is_damage = any(remedy.command for remedy in finding.remedies)
        path, position, text = finding.path, finding.position, finding.message
        yield found("KD-KRAFT-SNAPSHOT", path, text, position) if is_damage else finding

"""KRaft snapshots (.checkpoint): batches from offset 0 on, a header record first and a footer record last."""

from __future__ import annotations

from collections.abc import Iterator

from kdump.findings.finding import Finding, found
from kdump.formats.batch import SNAPSHOT_FOOTER, SNAPSHOT_HEADER
from kdump.storage.damage import Damage
from kdump.storage.segment import Segment
from kdump.verify.log import LogCheck
from kdump.verify.markers import Marker
from kdump.verify.sheets import Piece, Reading, walk


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
                yield from check.bad_bytes(part)
                continue
            yield from check.sheet(part)
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

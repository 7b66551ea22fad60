"""What a controller or a broker makes of the newest KRaft snapshot, which it reads before the log at every start.

    KRaftControlRecordStateMachine    reads all of it: damage ends the process before anything is served
    MetadataLoader, QuorumController  take its records for the cluster's whole state, without asking for a footer

So one that ends early is not noticed: topics behind its end are gone, and their partitions are set aside. (Seen with
3.9.2 and 4.3.1.)
"""

from __future__ import annotations

from typing import NamedTuple

from kdump.errors import ILLEGAL_STATE, NO_SUCH_ELEMENT, LoadError
from kdump.formats.batch import SNAPSHOT_FOOTER, SNAPSHOT_HEADER
from kdump.recovery.outcome import Failure
from kdump.recovery.raft_records import raft_records


class SnapshotRead(NamedTuple):
    """How reading a snapshot ends: what ends the process, None where nothing does; and whether there is a footer."""

    failure: Failure | None
    has_footer: bool = False

    @property
    def ends_early(self) -> bool:
        """Whether a node takes a part of the cluster's state for all of it."""
        return self.failure is None and not self.has_footer


def read_snapshot(path: str) -> SnapshotRead:
    """Read a snapshot as a node does whose newest it is. Raises OSError.

    Records that contradict each other are not looked for.
    """
    last = None
    try:
        for record in raft_records(path, checks_crcs=True):
            if last is None and record.control_type != SNAPSHOT_HEADER:
                text = "First batch is not a control batch with at least one record"
                return SnapshotRead(Failure(ILLEGAL_STATE, text, path, offline=False))
            last = record
    except LoadError as error:
        return SnapshotRead(Failure(error.exception, str(error), error.file, offline=False))
    if last is None:
        return SnapshotRead(Failure(NO_SUCH_ELEMENT, "No value present", path, offline=False))
    return SnapshotRead(None, last.control_type == SNAPSHOT_FOOTER)

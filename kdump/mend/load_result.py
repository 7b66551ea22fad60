"""What a load outcome leaves behind, looked at: the logs, what they hold, their leader epochs and open transactions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING

from kdump.errors import KdumpError
from kdump.formats import names
from kdump.formats.checkpoints import EpochEntry, parse_leader_epochs
from kdump.formats.names import offset_in_name, parse_file_name
from kdump.formats.producer_snapshot import ProducerEntry, decode_producer_snapshot
from kdump.mend.leader_epochs import runs_of
from kdump.recovery.loader import load_log
from kdump.recovery.outcome import LoadOutcome, Loss, total_loss
from kdump.recovery.startup import Startup
from kdump.storage.partition import PartitionLog
from kdump.storage.planned import PlannedPartition
from kdump.storage.planned_log import LogView

if TYPE_CHECKING:
    from kdump.mend.lost_markers import NewMarker

_MAX_STARTS = 3


def directory_after_load(log: PartitionLog, outcome: LoadOutcome) -> PlannedPartition:
    """Return the files that an outcome leaves."""
    directory = PlannedPartition(log)
    directory.files = dict(outcome.files or {})
    return directory


def at_rest(log: PartitionLog, startup: Startup, before: PlannedPartition, outcome: LoadOutcome) -> LoadOutcome:
    """Return an outcome after which another start changes nothing more; `before` is the directory that was loaded.

    It is loaded again where one start is not enough. Where all records are below the log start, it takes two to drop
    the leader epochs, and epochs above the log end are dropped before others are learnt from the batches. A producer
    snapshot at the log start is dropped only after producers, and transactions, have been taken from it. With a message
    format older than leader epochs, snapshots are written empty, and only then told from strays. Raises OSError.
    """
    for _ in range(_MAX_STARTS):
        if not outcome.ok or _is_at_rest(startup, before, outcome):
            return outcome
        before = directory_after_load(log, outcome)
        again = load_log(log, startup, before.copy())
        outcome = again._replace(steps=(*outcome.steps, *again.steps))
        if again.files == before.files:
            return outcome
    return outcome


def _is_at_rest(startup: Startup, before: PlannedPartition, outcome: LoadOutcome) -> bool:
    parsed = map(parse_file_name, before.names())
    snapshots = (each.offset for each in parsed if each.kind == names.PRODUCER_SNAPSHOT)
    start, epochs = outcome.log_start_offset, names.LEADER_EPOCH_CHECKPOINT
    assert outcome.files is not None
    return (
        startup.config.has_epochs
        and start != outcome.log_end_offset
        and all(offset is None or offset > start for offset in snapshots)
        and outcome.files.get(epochs) == before.files.get(epochs)
    )


def views(log: PartitionLog, outcome: LoadOutcome) -> Iterator[tuple[int, LogView]]:
    """Yield the .log files that an outcome leaves, in order, each with its base offset. Raises OSError."""
    directory = directory_after_load(log, outcome)
    for base, name in names.live_logs(directory.names()):
        with LogView(directory, name) as view:
            yield base, view


def holding(log: PartitionLog, outcome: LoadOutcome) -> Loss:
    """Return what the .log files that an outcome leaves hold."""
    from kdump.recovery.losses import count_loss

    return total_loss(count_loss(view, base, 0)[0] for base, view in views(log, outcome))


def epoch_runs(log: PartitionLog, outcome: LoadOutcome) -> Iterator[tuple[int, int, int]]:
    """Yield leader epoch, first and last offset of every run of batches of one epoch; those without one left out."""
    runs = (
        (epoch, block.base_offset[row], block.last_offset[stop - 1])
        for _, view in views(log, outcome)
        for block in view.blocks()
        for epoch, row, stop in runs_of(block)
        if epoch >= 0
    )
    for epoch, (run, *more) in groupby(runs, key=itemgetter(0)):
        yield epoch, run[1], (more[-1] if more else run)[2]


def epoch_contradiction(log: PartitionLog, outcome: LoadOutcome) -> str | None:
    """Return where the leader-epoch-checkpoint of an outcome and the batches disagree; None if not. Raises OSError."""
    directory, name = directory_after_load(log, outcome), names.LEADER_EPOCH_CHECKPOINT
    if not directory.exists(name):
        return None
    entries = parse_leader_epochs(directory.read(name), name)
    return next(contradictions(entries, epoch_runs(log, outcome), outcome.log_start_offset), None)


def contradictions(
    entries: Sequence[EpochEntry], runs: Iterator[tuple[int, int, int]], log_start_offset: int
) -> Iterator[str]:
    """Yield where leader-epoch-checkpoint says another epoch than the batches that the log has for its readers."""
    for epoch, first, last in runs:
        for offset in (first, last):
            epoch_there = max((entry.epoch for entry in entries if entry.start_offset <= offset), default=-1)
            if epoch_there != epoch and offset >= log_start_offset:
                yield f"it leads to epoch {epoch_there} at offset {offset}, the batch there has leader epoch {epoch}"


def open_txns(log: PartitionLog, outcome: LoadOutcome) -> Iterator[ProducerEntry]:
    """Yield the producers with an open transaction in the last snapshot that an outcome leaves."""
    directory = directory_after_load(log, outcome)
    snapshots = [name for name in directory.names() if parse_file_name(name).kind == names.PRODUCER_SNAPSHOT]
    if not snapshots:
        return
    with suppress(KdumpError):
        last = max(snapshots, key=lambda name: offset_in_name(name) or 0)
        yield from (entry for entry in decode_producer_snapshot(directory.read(last)) if entry.has_open_txn)


def without_markers(kept: Loss, markers: Sequence[NewMarker]) -> Loss:
    """Return what is kept without the markers that are new."""
    new_bytes, number = sum(len(each.encoded()) for each in markers), len(markers)
    return kept._replace(bytes=kept.bytes - new_bytes, batches=kept.batches - number, records=kept.records - number)

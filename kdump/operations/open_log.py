"""Open a log that is there already, in the state in which a broker that starts now would have it.

    with open_log("/tmp/data/orders-0", WritingSettings()) as log:
        log.append(...)

This looks at the partition directory alone; kdump.operations.append opens one as part of its log directory.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from kdump.change.apply import apply_plan
from kdump.change.journal import unfinished
from kdump.change.place import new_change
from kdump.errors import KdumpError
from kdump.formats import names
from kdump.formats.faults import END
from kdump.formats.java_text import LONG_MAX
from kdump.formats.names import parse_file_name, segment_file_name
from kdump.formats.printable import command_line
from kdump.formats.time_units import wall_clock
from kdump.mend.as_broker import plan_recovery
from kdump.recovery.outcome import LoadOutcome
from kdump.recovery.producer_state import ProducerStates
from kdump.recovery.startup import LastShutdown, Startup
from kdump.settings.writing import WritingSettings
from kdump.storage.checkpoint_files import read_leader_epochs
from kdump.storage.leader_epochs import EpochCache
from kdump.storage.log_reader import LogFile
from kdump.storage.partition import PartitionLog
from kdump.write.log_writer import LogWriter
from kdump.write.segment import ResumedSegment
from kdump.write.snapshots import SnapshotsOnDisk
from kdump.write.written_log import Clock, Jitter, draw_jitter, random_jitter


class NotAppendableError(KdumpError):
    """The log is not in a state in which a broker would append to it without loss."""


def open_log(
    path: str,
    config: WritingSettings | None = None,
    shutdown: LastShutdown | None = None,
    *,
    clock: Clock = wall_clock,
    jitter: Jitter = random_jitter,
    durable: bool = True,
    backup: bool = True,
    begin: Callable[[], None] = lambda: None,
) -> LogWriter:
    """Open the log in the partition directory `path`, doing what a broker does when it starts.

    `shutdown` is what the log directory's files say of the last one; in order unless given. After an unclean one
    indexes, snapshots and left-over files are put in order as a broker does it, as a repair that can be taken back
    (unless not `backup`). A log whose loading would fail or throw data away, or whose last segment is damaged, is
    refused untouched; `begin` is called before the first change. Raises NotAppendableError, OSError.
    """
    config, shutdown = config or WritingSettings(), shutdown or LastShutdown()
    path = os.path.abspath(path)
    log = PartitionLog(path)
    if not log.segments:
        raise NotAppendableError(f"{path}: there is no .log in it; kdump append --create begins one")
    check_files(path, log)
    now = clock()
    outcome, plan = plan_recovery(log, Startup(now, *shutdown, config.loading))
    _check_outcome(path, outcome)
    logs = (parsed for parsed in map(parse_file_name, outcome.files or ()) if parsed.kind == names.LOG)
    base_offset = max(parsed.offset or 0 for parsed in logs)
    if shutdown.clean:  # else all of it has been checked
        _check_segment(log, base_offset)
    begin()
    keeps = backup and not shutdown.clean  # after a clean shutdown there is nothing but what every start removes
    change = apply_plan(plan, new_change(path), command="append", keep_old=keeps) if plan else None
    like = os.stat(os.path.join(path, segment_file_name(base_offset, ".log")))
    epochs = None
    if config.record_version >= 2:
        checkpoint = os.path.join(path, names.LEADER_EPOCH_CHECKPOINT)
        epochs = EpochCache(read_leader_epochs(checkpoint))
    states = ProducerStates(SnapshotsOnDisk(path, durable=durable, like=like))
    # who has expired was decided while the log was loaded
    states.truncate_and_reload(outcome.log_start_offset, outcome.log_end_offset, 0, LONG_MAX)
    states.map_end_offset = outcome.log_end_offset
    active = ResumedSegment(path, base_offset, config, now, draw_jitter(config, jitter), like)
    end, start = outcome.log_end_offset, outcome.log_start_offset
    writer = LogWriter(active, states, epochs, end, start, clock=clock, jitter=jitter, durable=durable)
    writer.recovery_point = outcome.recovery_point
    writer.change = change.id if change and keeps else None
    return writer


def check_files(path: str, log: PartitionLog) -> None:
    """Refuse a directory in which nothing should be written. Raises NotAppendableError, OSError."""
    for change in unfinished(path):
        raise NotAppendableError(
            f"{path}: change {change.id} ({change.command}) was interrupted; finish it first, with kdump repair --apply"
        )
    for name in log.files:
        if os.path.islink(os.path.join(path, name)):
            raise NotAppendableError(f"{os.path.join(path, name)}: a symbolic link, through which nothing is written")


def _check_outcome(path: str, outcome: LoadOutcome) -> None:
    if outcome.failure:
        raise NotAppendableError(f"{path}: a broker could not load this log: {outcome.failure.text}; {_advice(path)}")
    if outcome.loss.has_data:
        cut = next(step for step in outcome.steps if step.loss and step.loss.has_data)
        at = "" if cut.position is None else f" from byte {cut.position} of {cut.file} on"
        text = f"a broker would cut {outcome.loss.bytes} bytes of this log{at} when it starts"
        raise NotAppendableError(f"{path}: {text}; {_advice(path)}")


def _check_segment(log: PartitionLog, base_offset: int) -> None:
    """Refuse a segment that is not sound up to its end, behind which the next batch would come."""
    segment = next((each for each in log.segments if each.base_offset == base_offset), None)
    if segment is None:
        return
    with LogFile(segment.log_path) as file:
        position = 0
        for block in file.blocks(whole=False):
            valid = block.valid[: block.length]
            if not all(valid):
                raise _damaged(segment.log_path, block.position[valid.index(0)])
            position = block.next_position
            if block.status > END:
                raise _damaged(segment.log_path, position)
        if position != file.size:
            raise _damaged(segment.log_path, position)


def _damaged(path: str, position: int) -> NotAppendableError:
    return NotAppendableError(f"{path}: no valid batch at byte {position}; {_advice(os.path.dirname(path))}")


def _advice(path: str) -> str:
    return f"first: {command_line('kdump', 'repair', path)}"

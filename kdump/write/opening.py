"""Open a log that is there already, in the state in which a broker that starts now would have it."""

from __future__ import annotations

import os

from kdump.errors import KdumpError
from kdump.formats import names
from kdump.formats.checkpoints import parse_leader_epochs
from kdump.formats.java_text import LONG_MAX
from kdump.formats.names import parse_file_name
from kdump.recovery.config import Startup
from kdump.recovery.directory import content_of
from kdump.recovery.epoch_cache import EpochCache
from kdump.recovery.loader import load_log
from kdump.recovery.outcome import LoadOutcome, Recipe, SourceBytes
from kdump.recovery.producer_state import ProducerStates
from kdump.repair.files import truncate
from kdump.storage.files import read_small
from kdump.storage.partition_log import PartitionLog
from kdump.write.config import LogConfig
from kdump.write.files import replace_file, sync_directory
from kdump.write.log_writer import Clock, Jitter, LogWriter, draw_jitter, random_jitter, wall_clock
from kdump.write.segment import ResumedSegment
from kdump.write.snapshots import SnapshotsOnDisk


class NotAppendableError(KdumpError):
    """The log is not in a state in which a broker would append to it without loss."""


def open_log(
    path: str,
    config: LogConfig | None = None,
    *,
    clean: bool = True,
    recovery_point: int = 0,
    log_start_offset: int = 0,
    clock: Clock = wall_clock,
    jitter: Jitter = random_jitter,
    durable: bool = True,
) -> LogWriter:
    """Open the log in the partition directory `path`, doing what a broker does when it starts.

    `clean`, `recovery_point` and `log_start_offset` (absolute) are what the log directory's files say of the last
    shutdown. A log whose loading would fail, or throw away or rewrite data, is refused: it has to be repaired first.
    Raises NotAppendableError, OSError.
    """
    config = config or LogConfig()
    path = os.path.abspath(path)
    log = PartitionLog(path)
    if not log.segments:
        raise NotAppendableError(f"{path}: there is no .log in it")
    now = clock()
    outcome = load_log(log, Startup(now, clean, recovery_point, log_start_offset, config.for_loading()))
    _check(path, outcome)
    _settle(path, log, outcome)
    epochs = None
    if config.record_version >= 2:
        checkpoint = os.path.join(path, names.LEADER_EPOCH_CHECKPOINT)
        epochs = EpochCache(parse_leader_epochs(read_small(checkpoint), checkpoint))
    states = ProducerStates(SnapshotsOnDisk(path, durable=durable))
    # who has expired was decided while the log was loaded
    states.truncate_and_reload(outcome.log_start_offset, outcome.log_end_offset, 0, LONG_MAX)
    states.map_end_offset = outcome.log_end_offset
    base_offset = max(says.offset or 0 for says in map(parse_file_name, outcome.files or ()) if says.kind == names.LOG)
    active = ResumedSegment(path, base_offset, config, now, draw_jitter(config, jitter))
    writer = LogWriter(
        path,
        config,
        active,
        states,
        epochs,
        outcome.log_end_offset,
        outcome.log_start_offset,
        clock=clock,
        jitter=jitter,
        durable=durable,
    )
    writer.recovery_point = outcome.recovery_point
    return writer


def _check(path: str, outcome: LoadOutcome) -> None:
    advice = "repair it first (kdump repair)"
    if outcome.failure:
        raise NotAppendableError(f"{path}: a broker could not load this log: {outcome.failure.text}; {advice}")
    if outcome.loss.has_data:
        raise NotAppendableError(
            f"{path}: a broker would throw away {outcome.loss.bytes} bytes of this log when it starts; {advice}"
        )


def _settle(path: str, log: PartitionLog, outcome: LoadOutcome) -> None:
    """Make the files beside the .log files what loading and closing the log leaves. Raises NotAppendableError."""
    files = outcome.files or {}
    changed = {name: recipe for name, recipe in files.items() if _is_changed(path, name, recipe)}
    gone = [name for name in log.files if name not in files]
    for name in (*gone, *(name for name, recipe in changed.items() if not isinstance(recipe, SourceBytes))):
        if parse_file_name(name).kind == names.LOG and os.path.exists(os.path.join(path, name)):
            raise NotAppendableError(f"{path}: a broker would replace {name} when it starts; repair it first")
    for name, recipe in changed.items():
        target = os.path.join(path, name)
        if isinstance(recipe, SourceBytes) and (recipe.name, recipe.start) == (name, 0):
            truncate(target, recipe.size)
        elif isinstance(recipe, SourceBytes):
            raise NotAppendableError(f"{path}: an interrupted swap left {recipe.name} behind; repair it first")
        else:
            replace_file(target, b"".join(content_of(path, recipe)), durable=True)
    for name in gone:
        os.remove(os.path.join(path, name))
    if changed or gone:
        sync_directory(path)


def _is_changed(path: str, name: str, recipe: Recipe) -> bool:
    if not isinstance(recipe, SourceBytes) or (recipe.name, recipe.start) != (name, 0):
        return True
    return os.path.getsize(os.path.join(path, name)) != recipe.size

"""What retention does to one partition: what goes, what stays and why, when the next goes, what blocks the rest."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from kdump.errors import KdumpError
from kdump.formats import names
from kdump.formats.printable import command_line
from kdump.formats.time_units import unit_of
from kdump.recovery.loader import load_log
from kdump.recovery.outcome import LoadOutcome
from kdump.recovery.startup import Startup
from kdump.retention.blocking_batch import BlockingBatch, find_blocking_batch
from kdump.retention.doubts import Doubt, doubts_about, log_start_doubts
from kdump.retention.policy import Bounds, Next, Policy, deletions, is_empty_last, is_old, next_to_go
from kdump.retention.segments import SegmentState, Shutdown, segment_states
from kdump.retention.tombstones import Tombstones, tombstones_of
from kdump.settings.retention import RetentionSettings
from kdump.storage.checkpoints import PartitionCheckpoints
from kdump.storage.partition import PartitionLog
from kdump.storage.timestamps import TimestampSource


class BlockReason(StrEnum):
    """What blocks a segment."""

    TIMESTAMP = "timestamp"
    HIGH_WATERMARK = "highWatermark"


TIMESTAMP, HIGH_WATERMARK = BlockReason

class DeletedAmount(NamedTuple):
    """What a policy deletes: segments, and the bytes of all their files."""

    segments: int = 0
    space: int = 0


class CheckpointChange(NamedTuple):
    """What a checkpoint file of the log directory has for the partition, and shall have: absolute offsets, or None."""

    file: str
    old: int | None
    new: int | None


@dataclass(frozen=True, slots=True)
class Block:
    """Segments that are old enough to go and do not.

    `blocker` is the oldest segment that stays: for its `reason` all later ones do.
    `held` are the old ones (with the blocker itself, where the high watermark is the reason). `batch` is the one
    that makes the blocker too young. `free_offset` (absolute) is where the log would have to start for everything to
    go that is old, or only held by timestamps of the future.
    """

    blocker: SegmentState
    reason: BlockReason
    held: tuple[SegmentState, ...]
    batch: BlockingBatch | None
    free_offset: int

    @property
    def space(self) -> int:
        """The bytes of the files of all held segments."""
        return sum(state.space for state in self.held)


@dataclass(frozen=True, slots=True)
class PartitionRetention:
    """What becomes of a partition; offsets are absolute, times in ms.

    `log_start_offset` and `high_watermark` are those before anything is deleted; `previous_start` is the former without
    what the operator asks for. `is_watermark_known` where a checkpoint or the operator says the latter, else it is the
    log's end. `reasons` has a policy for each segment that goes, from the oldest on; `alone` is what each policy would
    delete without the others. `future` are the segments that stay with timestamps later than a broker lets pass now.
    `config` are the topic's settings, `shutdown` is how the broker stopped, `checkpoints` what the files say of the
    partition, `problems` what a broker would do first when it starts. `doubts` are deletions among those that the log
    does not prove.
    """

    log: PartitionLog
    shutdown: Shutdown
    checkpoints: PartitionCheckpoints
    config: RetentionSettings
    now: int
    previous_start: int
    log_start_offset: int
    high_watermark: int
    is_watermark_known: bool
    end_offset: int
    segments: tuple[SegmentState, ...]
    reasons: tuple[Policy, ...]
    alone: dict[Policy, DeletedAmount]
    next: Next | None
    block: Block | None
    future: tuple[SegmentState, ...]
    tombstones: Tombstones | None
    problems: tuple[str, ...]
    doubts: tuple[Doubt, ...] = ()

    @property
    def going(self) -> tuple[SegmentState, ...]:
        """The segments that go."""
        return self.segments[: len(self.reasons)]

    @property
    def staying(self) -> tuple[SegmentState, ...]:
        """The segments that stay."""
        return self.segments[len(self.reasons) :]

    @property
    def is_live(self) -> bool:
        """Whether the directory is named as one that a broker serves."""
        return self.log.name is not None and self.log.name.state == names.LIVE

    @property
    def has_work(self) -> bool:
        """Whether anything changes."""
        return bool(self.reasons) or self.moves_start or bool(self.checkpoint_changes())

    @property
    def moves_start(self) -> bool:
        """Whether the log starts later than the files say, because an operator asks for it."""
        return self.log_start_offset > self.previous_start

    @property
    def rolls(self) -> bool:
        """Whether a new segment has to be begun, because none stays."""
        return bool(self.segments) and not self.staying

    @property
    def new_log_start_offset(self) -> int:
        """Where the log starts afterwards."""
        first = self.staying[0].base_offset if self.staying else self.end_offset
        return max(self.log_start_offset, first) if self.reasons else self.log_start_offset

    @property
    def space(self) -> int:
        """The bytes of the files that go."""
        return sum(state.space for state in self.going)

    def checkpoint_changes(self) -> tuple[CheckpointChange, ...]:
        """Return what changes in the log directory's checkpoints, as a broker writes them.

        A log start offset is only told where it lies behind the first segment's base offset, and neither the recovery
        point nor the high watermark lies before it.
        """
        if not self.is_live or not self.segments or self.config.has_remote_storage:
            return ()
        start, said = self.new_log_start_offset, self.checkpoints
        first = self.staying[0].base_offset if self.staying else self.end_offset
        point, watermark = said.recovery_point, said.high_watermark
        wanted = (
            CheckpointChange(names.LOG_START_CHECKPOINT, said.log_start, start if start > first else None),
            CheckpointChange(names.RECOVERY_POINT_CHECKPOINT, point, None if point is None else max(point, start)),
            CheckpointChange(
                names.REPLICATION_CHECKPOINT, watermark, None if watermark is None else max(watermark, start)
            ),
        )
        return tuple(each for each in wanted if each.old != each.new)

    def shares(self) -> dict[Policy, DeletedAmount]:
        """Return what each policy deletes, in the broker's order."""
        return {
            policy: _share(state for state, reason in zip(self.going, self.reasons, strict=True) if reason == policy)
            for policy in Policy
        }

    def wrong_unit(self, state: SegmentState) -> str | None:
        """Return the unit that a segment's largest timestamp seems to be in, where that is not ms."""
        return unit_of(state.largest_timestamp, self.now)

    @property
    def dated_by_file(self) -> tuple[SegmentState, ...]:
        """The segments whose age is that of their file, for want of timestamps; none where nothing goes by age."""
        if not self.config.deletes:
            return ()
        return tuple(
            state for state in self.segments if state.source == TimestampSource.MTIME and not is_empty_last(state)
        )

    @property
    def other_future(self) -> tuple[SegmentState, ...]:
        """The segments with timestamps of the future, without the one that blocks the others now."""
        return tuple(state for state in self.future if not self.block or state is not self.block.blocker)


class Circumstances(NamedTuple):
    """How the broker stopped, what the checkpoints say of the partition, and the clock (ms).

    `wanted_start` is the log start offset that an operator asks for, `high_watermark` the one that counts in place of
    the checkpoint's. Without either the log's end counts.
    """

    shutdown: Shutdown
    checkpoints: PartitionCheckpoints
    now: int
    wanted_start: int | None = None
    high_watermark: int | None = None


def examine(
    log: PartitionLog, circumstances: Circumstances, config: RetentionSettings, *, tombstones: bool = True
) -> PartitionRetention:
    """Return what a broker's retention does to a partition. With `tombstones` a compacted log is read as a whole.

    Raises OSError, and KdumpError where the log would start behind its end or behind the high watermark.
    """
    shutdown, checkpoints, now, wanted, watermark = circumstances
    states = segment_states(log, shutdown)
    end = states[-1].end_offset if states else 0
    previous = checkpoints.log_start_offset(states[0].base_offset if states else 0)
    if states and previous > end:
        raise KdumpError(
            f"{log.path}: the log start offset {previous} is above the log end offset {end}: a broker that starts"
            " removes all segments and begins with an empty log (kdump startup shows how)"
        )
    known = checkpoints.high_watermark if watermark is None else watermark
    high_watermark = end if known is None else min(max(known, previous), end)
    start = max(previous, wanted or 0)
    if start > high_watermark:
        raise KdumpError(
            f"{log.path}: the log cannot start at {start}, for its high watermark is {high_watermark}: a broker answers"
            " with OffsetOutOfRange"
        )
    bounds = Bounds(now, start, high_watermark)
    startup = Startup(now, shutdown.clean, shutdown.recovery_point, checkpoints.log_start or 0)
    reasons = tuple(deletions(states, bounds, config))
    alone = {policy: _share(states[: len(deletions(states, bounds, config, (policy,)))]) for policy in Policy}
    doubts = doubts_about(log, states, reasons, bounds, config)
    if start == previous and wanted is None:
        doubts = (*log_start_doubts(log, states, reasons, checkpoints), *doubts)
    left = states[len(reasons) :]
    latest = now + config.timestamp_after_max_ms
    return PartitionRetention(
        log=log,
        shutdown=shutdown,
        checkpoints=checkpoints,
        config=config,
        now=now,
        previous_start=previous,
        log_start_offset=start,
        high_watermark=high_watermark,
        is_watermark_known=known is not None,
        end_offset=end,
        segments=states,
        reasons=reasons,
        alone=alone,
        next=next_to_go(left, config),
        block=_block(left, bounds, config),
        future=tuple(state for state in left if state.largest_timestamp > latest and not is_empty_last(state)),
        tombstones=tombstones_of(log, now) if tombstones and config.compacts else None,
        problems=tuple(_problems(log, states, load_log(log, startup))),
        doubts=doubts,
    )


def _share(states: Sequence[SegmentState] | Iterator[SegmentState]) -> DeletedAmount:
    spaces = [state.space for state in states]
    return DeletedAmount(len(spaces), sum(spaces))


def _problems(log: PartitionLog, states: Sequence[SegmentState], start: LoadOutcome) -> Iterator[str]:
    """Yield what comes before retention when the broker starts; `start` is what it then makes of the log."""
    for name in (*log.in_state(names.SWAP), *log.in_state(names.CLEANED)):
        yield (
            f"{os.path.join(log.path, name)}: segments were being replaced: a broker that starts finishes or undoes"
            " that first (kdump startup shows how)"
        )
    for state in states:
        if state.damage:
            yield (
                f"{state.segment.log_path} at byte {state.damage.position}: {state.damage.text}. The broker cuts"
                f" the log there at its next start: {command_line('kdump', 'doctor', log.path)}"
            )
    if start.failure:
        yield f"{log.path}: a broker that starts does not load the log: {start.failure.exception}: {start.failure.text}"
    elif start.loss.has_data and not any(state.damage for state in states):
        yield f"{log.path}: a broker that starts drops {start.loss.bytes} bytes (kdump startup shows which)"


def _block(left: Sequence[SegmentState], bounds: Bounds, config: RetentionSettings) -> Block | None:
    """Return what keeps old segments from going; None where none is kept, or the oldest to stay is where it should."""
    if not left or is_empty_last(left[0]):
        return None
    blocker = left[0]
    if bounds.high_watermark < blocker.end_offset:
        unbounded = bounds._replace(high_watermark=left[-1].end_offset)
        held = left[: len(deletions(left, unbounded, config))]
        return Block(blocker, HIGH_WATERMARK, tuple(held), None, bounds.high_watermark) if held else None
    if not config.deletes or config.time_limit_ms < 0:
        return None
    old = tuple(
        state
        for state in left[1:]
        if bounds.high_watermark >= state.end_offset and is_old(state, bounds, config)
    )
    if not old and blocker.largest_timestamp <= bounds.now + config.timestamp_after_max_ms:
        return None
    blocking = find_blocking_batch(blocker, bounds.now, config.time_limit_ms)
    return Block(blocker, TIMESTAMP, old, blocking, _free_offset(left, bounds, config))


def _free_offset(left: Sequence[SegmentState], bounds: Bounds, config: RetentionSettings) -> int:
    """Return the offset behind the last old segment that only segments of the future separate from the blocker."""
    free = left[0].end_offset
    for state in left[1:]:
        if bounds.high_watermark < state.end_offset or is_empty_last(state):
            break
        if is_old(state, bounds, config):
            free = state.end_offset
        elif state.largest_timestamp <= bounds.now:
            break
    return free

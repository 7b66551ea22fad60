"""Deletions that the log itself does not prove: what decides them is damaged, or contradicted by the batches.

A broker deletes all the same. kdump says so before it starts, and does not delete such segments itself.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from enum import StrEnum
from typing import NamedTuple

from kdump.errors import ConfigError, CorruptIndexError, KdumpError
from kdump.formats import names
from kdump.formats.iso_times import shown
from kdump.formats.printable import command_line
from kdump.formats.time_units import unit_of
from kdump.formats.words import number_words
from kdump.recovery.startup import Startup
from kdump.releases import KafkaRelease
from kdump.retention.policy import LOG_START, SIZE, TIME, Bounds, Policy, deletions, is_old
from kdump.retention.segments import SegmentState, Shutdown, segment_states
from kdump.settings.retention import RetentionSettings
from kdump.settings.sources import Settings
from kdump.storage.checkpoints import PartitionCheckpoints
from kdump.storage.damage import only_zeros
from kdump.storage.facts import segment_info
from kdump.storage.partition import PartitionLog
from kdump.storage.scan import MAX_OFFSET
from kdump.storage.segment import Segment
from kdump.storage.timestamps import (
    TimestampRule,
    TimestampSource,
    has_zero_tail,
    largest_timestamp,
    scanned,
)

_LAST_BYTES = 61
"""A batch header of format v2: so many zeros at the end of a .log are none."""


class DoubtReason(StrEnum):
    """What a deletion is decided by that the log does not prove."""

    TIME_INDEX = "timeIndex"
    LOG_DAMAGE = "logDamage"
    UNIT = "unit"
    ZEROS = "zeros"
    LOG_START = "logStart"


class Doubt(NamedTuple):
    """Segments that retention deletes and the log does not prove to be due.

    They have the offsets from `first` to before `stop` (absolute). `text` is what is wrong, with the file; `advice` is
    what keeps the records, and `command` the command for that (empty: a person does it). `deletes`: the records can be
    deleted all the same, by their offsets.
    """

    reason: DoubtReason
    first: int
    stop: int
    text: str
    advice: str
    command: tuple[str, ...] = ()
    deletes: bool = False

    @property
    def command_line(self) -> str:
        """The command as a shell takes it; "" for none."""
        return command_line(*self.command)

    def deleting_command_line(self, path: str) -> str:
        """Return the command that deletes the records of the partition at `path` all the same; "" for none."""
        words = "kdump", "retain", path, "--log-start-offset", str(self.stop), "--apply"
        return command_line(*words) if self.deletes else ""

    def sentences(self, path: str) -> str:
        """Return what is wrong and what to do about it."""
        command = f": {self.command_line}" if self.command else ""
        deleting = self.deleting_command_line(path)
        return f"{self.text}. {self.advice}{command}{deleting and f'. To delete them all the same: {deleting}'}"


def doubts_about(
    log: PartitionLog,
    states: Sequence[SegmentState],
    reasons: Sequence[Policy],
    bounds: Bounds,
    config: RetentionSettings,
    *,
    reads_all: bool = True,
) -> tuple[Doubt, ...]:
    """Return what is doubtful about the deletion of the first segments by time and by size, from the oldest on.

    All batches of those that go by time are read, or (unless `reads_all`) those after the last entry of the offset
    index, which have the largest timestamps as a rule. Raises OSError.
    """
    by_reason: dict[DoubtReason, list[Doubt]] = {}
    for doubt in _of_time(log, states, reasons, bounds, config, reads_all=reads_all):
        by_reason.setdefault(doubt.reason, []).append(doubt)
    if SIZE in reasons:
        by_reason[DoubtReason.ZEROS] = list(_of_size(log, states, reasons, bounds, config))
    return tuple(_joined(doubts) for doubts in by_reason.values() if doubts)


def _joined(doubts: Sequence[Doubt]) -> Doubt:
    """Return doubts of one reason as one, in the words of the first."""
    first, more = doubts[0], len(doubts) - 1
    text = f"{first.text} (and {number_words(more, 'more segment')})" if more else first.text
    return first._replace(stop=doubts[-1].stop, text=text)


def log_start_doubts(
    log: PartitionLog, states: Sequence[SegmentState], reasons: Sequence[Policy], checkpoints: PartitionCheckpoints
) -> Iterator[Doubt]:
    """Yield whether the checkpoint's log start offset, by which segments go, is contradicted by other files.

    A broker moves it up to the high watermark at most, and the first leader epoch with it
    (LeaderEpochFileCache.truncateFromStart). Raises OSError.
    """
    going = [state for state, reason in zip(states, reasons, strict=False) if reason == LOG_START]
    start, mark = checkpoints.log_start, checkpoints.high_watermark
    if not going or start is None:
        return
    text = ""
    first = min((entry.start_offset for entry in log.known_epochs), default=None)
    if mark is not None and mark < start:
        text = f"is above the high watermark {mark}"
    elif first is not None and first < start:
        text = f"and {names.LEADER_EPOCH_CHECKPOINT}, which a broker cuts there, begins at {first}"
    if text:
        yield Doubt(
            DoubtReason.LOG_START,
            going[0].base_offset,
            going[-1].end_offset,
            f"{names.LOG_START_CHECKPOINT}: {start} {text}",
            "Correct the line before a broker starts, unless the records up to there were deleted on purpose",
            deletes=True,
        )


def deleted_after_start(
    log: PartitionLog, startup: Startup, log_end_offset: int, settings: Settings, release: KafkaRelease
) -> tuple[Doubt, ...]:
    """Return the segments that a broker deletes soon after this start although the log does not prove them to be due.

    The time index of the active segment is left out: the broker resizes it. Raises OSError.
    """
    if log.name is None or log.name.topic == names.CLUSTER_METADATA_TOPIC:
        return ()
    checkpoints = startup.checkpoints.of(log.name) if startup.checkpoints else PartitionCheckpoints()
    try:
        config = RetentionSettings.of(settings.of(log.name.topic, was_cleaned=checkpoints.cleaner is not None), release)
        states = segment_states(log, Shutdown(startup.clean, startup.recovery_point))
    except (ConfigError, KdumpError):
        return ()
    bounds = Bounds(startup.now, startup.log_start_offset, log_end_offset)
    reasons = deletions(states, bounds, config)
    doubts = doubts_about(log, states, reasons, bounds, config, reads_all=False)
    sealed = (doubt for doubt in doubts if doubt.reason is not DoubtReason.TIME_INDEX or doubt.stop < log_end_offset)
    return (*log_start_doubts(log, states, reasons, checkpoints), *sealed)


def _of_time(
    log: PartitionLog,
    states: Sequence[SegmentState],
    reasons: Sequence[Policy],
    bounds: Bounds,
    config: RetentionSettings,
    *,
    reads_all: bool,
) -> Iterator[Doubt]:
    for state, reason in zip(states, reasons, strict=False):
        if reason != TIME or state.size == 0:
            continue
        unit = unit_of(state.largest_timestamp, bounds.now) if state.source != TimestampSource.MTIME else None
        if state.source != TimestampSource.BATCHES:
            largest, damage = scanned(state.segment) if reads_all else (_largest_at_end(state.segment), None)
            unit = unit if largest == state.largest_timestamp else None
            largest = max(largest, _before_zeros(state))
            if damage is not None:
                text = f"byte {damage.position}: {damage.text}: later records may be damaged there"
                yield _doubt(DoubtReason.LOG_DAMAGE, state, text, "See how to repair it", ("doctor", log.path))
                continue
            if largest >= 0 and not is_old(replace(state, largest_timestamp=largest), bounds, config):
                text = f"{_index_words(state)}; its records have timestamps up to {shown(largest)}"
                command = ("rebuild-index", log.path, "--apply")
                advice = "Rebuild the index first (loses nothing)"
                yield _doubt(DoubtReason.TIME_INDEX, state, text, advice, command)
                continue
        if unit:
            text = f"its timestamps, such as {state.largest_timestamp}, are in {unit}, and Kafka expects milliseconds"
            advice = "To keep the records, set retention.ms=-1 for the topic before a broker starts"
            yield _doubt(DoubtReason.UNIT, state, text, advice)._replace(deletes=True)


def _doubt(reason: DoubtReason, state: SegmentState, text: str, advice: str, command: tuple[str, ...] = ()) -> Doubt:
    name = os.path.basename(state.segment.log_path)
    words = ("kdump", *command) if command else ()
    return Doubt(reason, state.base_offset, state.end_offset, f"{name}: {text}", advice, words)


def _index_words(state: SegmentState) -> str:
    if state.source == TimestampSource.MTIME:
        return f"its time index is empty or missing, so the time of the file counts, {shown(state.largest_timestamp)}"
    if has_zero_tail(state.segment):
        return "its time index ends in zeros, so it counts as written in 1970"
    return f"its time index ends with {shown(state.largest_timestamp)}"


def _before_zeros(state: SegmentState) -> int:
    """Return the timestamp of the last time index entry before zeros; -1 without one. Raises OSError.

    It may be of a message whose timestamp is nowhere else: 0.10 converted them to a format without timestamps.
    """
    with suppress(CorruptIndexError):
        known = largest_timestamp(state.segment, TimestampRule.TRIMMED)
        return -1 if known is None else known
    return -1


def _largest_at_end(segment: Segment) -> int:
    """Return the largest timestamp after the last entry of a segment's offset index. Raises OSError.

    It is that of all its batches where that entry leads to none.
    """
    largest = -1
    with segment.open_log() as log:
        for block in log.blocks(segment.position_of(log, MAX_OFFSET), whole=False):
            if block.length:
                largest = max(largest, max(block.max_timestamp))
    return scanned(segment)[0] if largest < 0 else largest


def _of_size(
    log: PartitionLog,
    states: Sequence[SegmentState],
    reasons: Sequence[Policy],
    bounds: Bounds,
    config: RetentionSettings,
) -> Iterator[Doubt]:
    """Yield the segments that stay if the zeros at the ends of .log files do not count."""
    zeros = {state.base_offset: size for state in states[:-1] if (size := _zeros_at_end(state.segment))}
    if not zeros:
        return
    used = [replace(state, size=state.size - zeros.get(state.base_offset, 0)) for state in states]
    proven = len(deletions(used, bounds, config))
    going = states[proven : len(reasons)]
    if going:
        text = f"{number_words(sum(zeros.values()), 'zero byte')} at the ends of .log files count for retention.bytes"
        command = ("kdump", "trim", log.path, "--apply")
        first, stop = going[0].base_offset, going[-1].end_offset
        yield Doubt(DoubtReason.ZEROS, first, stop, text, "Cut them first (loses nothing)", command)


def _zeros_at_end(segment: Segment) -> int:
    """Return how many zero bytes follow a segment's last batch. Raises OSError."""
    with segment.open_log() as log:
        if log.size < _LAST_BYTES or not only_zeros(log, log.size - _LAST_BYTES, log.size):
            return 0
    info = segment_info(segment, is_last=False)
    return info.size - info.used_size if info.has_zero_tail and info.used_size is not None else 0

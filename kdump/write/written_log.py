"""A partition's log open for writing: its segments, its leader epochs, where it starts, how it is closed."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Self

from kdump.disk.durable import make_directories, remove_file, replace_file, sync_directory
from kdump.errors import KdumpError
from kdump.formats import names
from kdump.formats.metadata_files import PartitionMetadata, format_partition_metadata
from kdump.formats.names import segment_file_name
from kdump.formats.time_units import wall_clock
from kdump.recovery.producer_state import ProducerStates
from kdump.settings.writing import WritingSettings
from kdump.storage.leader_epochs import EpochCache
from kdump.storage.partition import base_offsets
from kdump.write.assign import OffsetAssigner
from kdump.write.errors import FencedLeaderEpochError, OffsetOutOfRangeError, RollError
from kdump.write.segment import ActiveSegment
from kdump.write.snapshots import SnapshotsOnDisk

Clock = Callable[[], int]
"""Tells the time in ms."""

Jitter = Callable[[int], int]
"""A number of ms from 0 up to, but without, the one that it gets."""


def random_jitter(limit: int) -> int:
    """Return a number of ms from 0 up to, but without, `limit`."""
    import random

    return random.randrange(limit)


def draw_jitter(config: WritingSettings, jitter: Jitter) -> int:
    """Return how much earlier (ms) than segment.ms a new segment is rolled."""
    limit = min(config.segment_jitter_ms, config.segment_ms)
    return jitter(limit) if limit else 0


class WrittenLog:
    """An open log; make one with `create` (a new log) or `opening.open_log` (one that is there).

    Offsets are absolute. `end_offset` is the one that the next record gets, `log_start_offset` the first that a
    client may read, `recovery_point` the one before which everything is on the disk. `leader_epoch` is that of the
    batches of producers, unless an append says otherwise. `clock` tells the time in ms. `change` is the id of the
    change that keeps what had to be replaced to open the log, None for nothing. `next_producer_id` is the first that
    the cluster has still to give out, None where that is not known: a producer of it would get it later, and find
    sequence numbers in use.
    `durable` has segments, snapshots and checkpoints put on the disk when they are complete. After a change that ended
    in its middle, as by an I/O error (`has_failed`), nothing can be appended, and the log cannot be closed cleanly.
    """

    def __init__(
        self,
        active: ActiveSegment,
        states: ProducerStates,
        epochs: EpochCache | None,
        end_offset: int,
        log_start_offset: int,
        *,
        clock: Clock = wall_clock,
        jitter: Jitter = random_jitter,
        durable: bool = True,
    ) -> None:
        self.path = active.folder
        self.partition = os.path.basename(active.folder)
        self.config = active.config
        self.active = active
        self.states = states
        self.epochs = epochs
        self.end_offset = self.recovery_point = end_offset
        self.log_start_offset = log_start_offset
        self.leader_epoch = max(0, epochs.latest_epoch) if epochs else 0
        self.clock = clock
        self.jitter = jitter
        self.durable = durable
        self.is_open = True
        self.has_failed = False
        self.change: str | None = None
        self.next_producer_id: int | None = None
        self._high_watermark: int | None = None
        self._assigner = OffsetAssigner(self.config, self.partition)

    @classmethod
    def create(
        cls,
        path: str,
        config: WritingSettings | None = None,
        *,
        start_offset: int = 0,
        topic_id: bytes | None = None,
        clock: Clock = wall_clock,
        jitter: Jitter = random_jitter,
        durable: bool = True,
        like: os.stat_result | None = None,
    ) -> Self:
        """Return a new log in the directory `path`, which must not have one yet; it starts at `start_offset`.

        With a `topic_id` (16 bytes) it gets a partition.metadata. Files get the owner and mode of `like`, the
        directory its owner. Raises OSError.
        """
        config = config or WritingSettings()
        path = os.path.abspath(path)
        states, epochs = _new_files(path, config, start_offset, topic_id, durable=durable, like=like)
        active = ActiveSegment(path, start_offset, config, clock(), draw_jitter(config, jitter), like)
        return cls(active, states, epochs, start_offset, start_offset, clock=clock, jitter=jitter, durable=durable)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *exc: object) -> None:
        if self.is_open:
            self.close(clean=not self.has_failed)

    @property
    def high_watermark(self) -> int:
        """The offset up to which all replicas have the log: its end, as there is but this one, unless it was set."""
        return self.end_offset if self._high_watermark is None else self._high_watermark

    @high_watermark.setter
    def high_watermark(self, offset: int | None) -> None:
        """Say how far the others have got; None: as far as this one. Raises OffsetOutOfRangeError."""
        if offset is not None and not self.log_start_offset <= offset <= self.end_offset:
            raise OffsetOutOfRangeError(
                f"The high watermark of {self.partition} cannot be {offset}: the log is from offset"
                f" {self.log_start_offset} to {self.end_offset}"
            )
        self._high_watermark = offset

    def roll(self, expected_offset: int = 0) -> int:
        """Begin a new segment at the log end offset (or `expected_offset`, if that is larger); its base offset.

        An empty active segment of that base offset is made again. Raises RollError, OSError.
        """
        self._check_usable()
        base_offset = max(expected_offset, self.end_offset)
        active = self.active
        if base_offset < active.base_offset or (base_offset == active.base_offset and active.size):
            raise RollError(
                f"Trying to roll a new log segment for topic partition {self.partition} with start offset"
                f" {base_offset}, but the active segment already begins at {active.base_offset}"
            )
        with self._changing():
            active.close(durable=self.durable)
            self.active = ActiveSegment(
                self.path, base_offset, self.config, self.clock(), draw_jitter(self.config, self.jitter), active.like
            )
            self.states.map_end_offset = base_offset
            self.states.take_snapshot()
            if self.durable:
                sync_directory(self.path)
        self.recovery_point = base_offset
        return base_offset

    def become_leader(self, epoch: int) -> None:
        """Begin a leader epoch at the log end offset, as a broker does that is elected.

        Raises FencedLeaderEpochError, OSError.
        """
        self._check_usable()
        self.leader_epoch = self._leader_epoch(epoch)
        if self.epochs is not None:
            self.epochs.assign(epoch, self.end_offset, names.LEADER_EPOCH_CHECKPOINT)
            self._write_epochs(self.epochs)

    def reconfigure(self, config: WritingSettings) -> None:
        """Go on with another configuration of the topic. Raises OSError."""
        self._check_usable()
        self.config = self.active.config = config
        self._assigner = OffsetAssigner(config, self.partition)
        checkpoint = os.path.join(self.path, names.LEADER_EPOCH_CHECKPOINT)
        with self._changing():
            if config.record_version < 2 and self.epochs is not None:
                remove_file(checkpoint)
                self.epochs = None
            elif config.record_version >= 2 and self.epochs is None:
                self.epochs = EpochCache(())
                replace_file(checkpoint, b"", durable=self.durable, like=self.active.like)

    def advance_log_start(self, offset: int) -> None:
        """Let the log start at `offset` for its readers, as after a DeleteRecords request; segments stay.

        The leader epoch that goes on there begins there then. Raises OffsetOutOfRangeError beyond the high watermark,
        OSError.
        """
        self._check_usable()
        if offset > self.high_watermark:
            raise OffsetOutOfRangeError(
                f"Cannot increment the log start offset to {offset} of partition {self.partition} since it is larger"
                f" than the high watermark {self.high_watermark}"
            )
        if offset <= self.log_start_offset:
            return
        self.log_start_offset = offset
        if self.epochs is not None:
            self.epochs.truncate_from_start(offset)
            self._write_epochs(self.epochs)

    def delete_old_segments(self) -> list[int]:
        """Delete the segments that end before the log start offset, as retention does; their base offsets.

        Raises OSError.
        """
        bases = base_offsets(os.listdir(self.path))
        gone = [base for base, following in pairwise(bases) if following <= self.log_start_offset]
        with self._changing():
            for base_offset in gone:
                self.states.snapshots.delete(base_offset, "the segment is deleted")
                for kind in (names.LOG, *names.INDEX_KINDS):
                    remove_file(os.path.join(self.path, segment_file_name(base_offset, f".{kind}")))
        return gone

    def close(self, *, clean: bool = True) -> None:
        """Close the log: with its last snapshot and trimmed indexes, or as a broker that is killed leaves it.

        Raises OSError, KdumpError for a clean close after an I/O error.
        """
        if clean:
            self._check_usable()
        self.is_open = False
        self.has_failed |= not clean
        with self._changing():
            self.active.close(clean=clean, durable=self.durable)
            if not clean:
                return
            self.states.map_end_offset = self.end_offset
            self.states.take_snapshot()
            self.recovery_point = self.end_offset
            if self.durable:
                sync_directory(self.path)

    def _leader_epoch(self, wanted: int | None) -> int:
        latest = self.epochs.latest_epoch if self.epochs is not None else -1
        if wanted is None:
            return max(self.leader_epoch, latest)
        if wanted < latest:
            raise FencedLeaderEpochError(f"Leader epoch {wanted} is lower than that of {self.partition}, {latest}")
        return wanted

    def _check_usable(self) -> None:
        if not self.is_open:
            raise KdumpError(f"{self.path}: the log is closed")
        if self.has_failed:
            raise KdumpError(f"{self.path}: the log failed in an earlier write and cannot be used any more")

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """Have a change that ends in its middle keep the log from being closed cleanly."""
        try:
            yield
        except BaseException:
            self.has_failed = True
            raise

    def _write_epochs(self, epochs: EpochCache) -> None:
        if epochs.is_written:
            path = os.path.join(self.path, names.LEADER_EPOCH_CHECKPOINT)
            with self._changing():
                replace_file(path, epochs.content(), durable=self.durable, like=self.active.like)
            epochs.is_written = False


def _new_files(
    path: str,
    config: WritingSettings,
    start_offset: int,
    topic_id: bytes | None,
    *,
    durable: bool,
    like: os.stat_result | None,
) -> tuple[ProducerStates, EpochCache | None]:
    """Make the directory of a log that is not there yet; return its producers and epochs, which are none.

    Raises OSError, FileExistsError where there is a log already.
    """
    make_directories(path, like)
    if any(names.parse_file_name(name).kind in names.SEGMENT_KINDS for name in os.listdir(path)):
        raise FileExistsError(17, "There is a log already", path)
    if topic_id is not None:
        metadata = format_partition_metadata(PartitionMetadata(0, topic_id))
        replace_file(os.path.join(path, names.PARTITION_METADATA), metadata, durable=durable, like=like)
    epochs = None
    if config.record_version >= 2:
        epochs = EpochCache(())
        replace_file(os.path.join(path, names.LEADER_EPOCH_CHECKPOINT), b"", durable=durable, like=like)
    states = ProducerStates(SnapshotsOnDisk(path, durable=durable, like=like))
    states.map_end_offset = states.snapshot_offset = start_offset
    return states, epochs

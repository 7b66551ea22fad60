"""Load the log of a partition directory as Kafka's LogLoader does when the broker starts, in the plan alone.

1. leftovers and swaps  2. open every segment, recover those without an index  3. after an unclean shutdown recover
the segments from the recovery point on  4. leader epochs, log start offset  5. producer state and its snapshots.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from kdump.disk.reading import MAX_SMALL
from kdump.errors import (
    KAFKA,
    NUMBER_FORMAT,
    STORAGE,
    CheckpointError,
    CorruptIndexError,
    InvalidOffsetError,
    LoadError,
    OffsetOverflowError,
)
from kdump.formats import names
from kdump.formats.checkpoints import parse_leader_epochs
from kdump.formats.index_entries import UnknownTxnVersionError
from kdump.formats.java_text import LONG_MAX
from kdump.formats.metadata_files import parse_partition_metadata
from kdump.formats.names import parse_file_name
from kdump.recovery.outcome import CREATE, DELETE, DROP, EMPTY, HIDE, RECOVER, WARN, Failure, LoadOutcome, Step
from kdump.recovery.producer_rebuild import rebuild_producer_state
from kdump.recovery.producer_state import ProducerStates
from kdump.recovery.report import report_changes
from kdump.recovery.segment_recovery import SegmentRecovery
from kdump.recovery.segments import LoadedSegment, Segments, file_name
from kdump.recovery.snapshots import SnapshotFiles
from kdump.recovery.startup import Startup
from kdump.recovery.swaps import clear_leftovers
from kdump.storage.leader_epochs import EpochCache
from kdump.storage.partition import PartitionLog
from kdump.storage.planned import PlannedPartition

_Result = TypeVar("_Result")


def load_log(log: PartitionLog, startup: Startup, directory: PlannedPartition | None = None) -> LoadOutcome:
    """Return what a broker that starts like this does with the log, or with `directory`. Raises OSError."""
    loader = _Loader(log, startup, directory or PlannedPartition(log))
    try:
        return loader.load()
    except LoadError as error:
        offline = error.takes_directory_offline and not loader.is_cluster_metadata
        failure = Failure(error.exception, str(error), error.file, offline, error.batch)
        return LoadOutcome(tuple(loader.steps), failure)


class _Loader:
    def __init__(self, log: PartitionLog, startup: Startup, directory: PlannedPartition) -> None:
        self.log = log
        self.startup = startup
        self.config = startup.config
        self.directory = directory
        self.segments = Segments()
        self.steps: list[Step] = []
        self.partition = f"{log.name.topic}-{log.name.partition}" if log.name else "unknown"
        self.is_being_deleted = log.name is not None and log.name.state == names.DELETE
        self.is_cluster_metadata = log.is_cluster_metadata
        self._recovering: SegmentRecovery | None = None
        self._noted: set[Step] = set()

    def load(self) -> LoadOutcome:
        """Load, close, and tell. Raises LoadError, OSError."""
        self.epochs = self._open_epochs()
        self.states = self._no_producers()
        clear_leftovers(self.directory, self.config, self.steps)
        self._splitting(self._load_segments)
        recovery_point = end_offset = 0
        if self.is_being_deleted:
            if not len(self.segments):
                self._start_empty(0)
        else:
            recovery_point, end_offset = self._splitting(self._recover_log)
            self._report_hidden(end_offset)
            self.segments.last().resize_indexes()
        checkpoint = self.startup.log_start_offset
        start_offset = checkpoint if self.config.has_remote_storage else max(checkpoint, self.segments.bases()[0])
        if self.epochs:
            self.epochs.truncate_from_end(end_offset)
            self.epochs.truncate_from_start(checkpoint)
        self._rebuild_producers(start_offset, end_offset)
        if self.is_cluster_metadata:
            from kdump.recovery.metadata_log import check_quorum_state, recover_kraft_snapshots

            recover_kraft_snapshots(self.directory, start_offset, end_offset, self.steps)
            check_quorum_state(self.directory)
        self._check_metadata()
        self._close()
        report_changes(self.directory, self.steps)
        files = {name: self.directory.files[name] for name in self.directory.names()}
        offsets, has_open_txn = (start_offset, end_offset, recovery_point), bool(self.states.open_txns)
        return LoadOutcome(tuple(self.steps), None, *offsets, files, has_open_txn, self.directory.present)

    def _open_epochs(self) -> EpochCache | None:
        name = names.LEADER_EPOCH_CHECKPOINT
        if not self.config.has_epochs:
            if self.directory.exists(name):
                self._delete(name, "the topic's message.format.version is older than leader epochs")
            return None
        if not self.directory.exists(name):
            self.directory.write(name, b"")
        try:
            if self._is_as_parsed(name):
                return EpochCache(self.log.leader_epochs)
            return EpochCache(parse_leader_epochs(self.directory.read(name), self.directory.full(name)))
        except CheckpointError as error:
            raise _unread(error, name) from None

    def _is_as_parsed(self, name: str) -> bool:
        """Return whether a file is the one that the partition parses once, and no larger than it reads."""
        return self.directory.size(name) <= MAX_SMALL and not self.directory.is_changed(name)

    def _splitting(self, load: Callable[[], _Result]) -> _Result:
        """Return what `load` gives; called again after every segment that had to be split."""
        while True:
            try:
                return load()
            except OffsetOverflowError:
                from kdump.recovery.split import split_segment

                assert self._recovering is not None
                old = self._recovering.segment
                gone = split_segment(self.directory, self.segments, old, self.config, self.steps)
                for base_offset in gone:
                    self.states.snapshots.delete(base_offset, "the segment that begins there is split")

    # --- every segment is opened -----------------------------------------------------------------------------------

    def _load_segments(self) -> None:
        for segment in self.segments.all():
            segment.close()
        self.segments.clear()
        for name in self.directory.names():
            parsed = parse_file_name(name)
            if parsed.state != names.LIVE or parsed.kind not in (names.LOG, *names.INDEX_KINDS):
                continue
            if parsed.offset is None:
                raise LoadError(NUMBER_FORMAT, f'For input string: "{name.partition(".")[0]}"', name)
            if parsed.kind == names.LOG:
                self._load_segment(parsed.offset)
            elif not self.directory.exists(file_name(parsed.offset, names.LOG)):
                self._delete(name, "there is no .log that it belongs to")

    def _load_segment(self, base_offset: int) -> None:
        segment = self._segment(base_offset)
        index, time_index = segment.file(names.OFFSET_INDEX), segment.file(names.TIME_INDEX)
        if not self.directory.exists(index):
            self._recover(segment, f"its index {index} is missing")
        else:
            if not self.directory.exists(time_index):
                segment.make_empty_time_index()
                why = "missing: an empty one is made, and lookups by time and retention go by the .log's file time"
                self._note(Step(CREATE, time_index, why, size=0))
            self._check_txn_index(segment)
        self.segments.add(segment)

    def _check_txn_index(self, segment: LoadedSegment) -> None:
        try:
            segment.check_txn_index(is_int16=self.config.txn_version_int16)
        except UnknownTxnVersionError as error:
            raise LoadError(KAFKA, str(error), segment.file(names.TXN_INDEX)) from None
        except CorruptIndexError as error:
            self._recover(segment, str(error))

    def _segment(self, base_offset: int) -> LoadedSegment:
        config = self.config
        return LoadedSegment(self.directory, base_offset, config.segment_index_bytes, search=config.offset_search)

    # --- recovery ----------------------------------------------------------------------------------------------------

    def _no_producers(self) -> ProducerStates:
        return ProducerStates(
            SnapshotFiles(self.directory),
            short_markers_end=self.config.short_markers_end,
            max_producers=self.config.max_producers,
        )

    def _recover(self, segment: LoadedSegment, why: str) -> Step | None:
        """Recover one segment; the step that cuts it, if it is cut."""
        self._note(Step(RECOVER, segment.file(names.LOG), why, size=segment.size))
        states = self._no_producers()
        checkpoint = self.startup.log_start_offset
        recovery = SegmentRecovery(segment, self.config, states, self.epochs, self.partition)
        self._recovering = recovery
        rebuild_producer_state(
            states, self.segments, self.startup, checkpoint, segment.base_offset, self.partition, clean=False
        )
        cut = recovery.run()
        states.take_snapshot()
        if cut:
            self.steps.append(cut)
        return cut

    def _recover_log(self) -> tuple[int, int]:
        """Recover what may not have reached the disk; the new recovery point and the log end offset."""
        if not self.startup.clean:
            self._recover_unflushed()
        end_offset = self.segments.last().next_offset() if len(self.segments) else None
        checkpoint = self.startup.log_start_offset
        if end_offset is not None and end_offset < checkpoint:
            self._start_over(end_offset)
            end_offset = None
        if not len(self.segments):
            self._start_empty(checkpoint)
        if end_offset is not None and self.startup.clean:
            return end_offset, end_offset
        if end_offset is None:
            end_offset = self.segments.last().next_offset()
        return min(self.startup.recovery_point, end_offset), end_offset

    def _report_hidden(self, end_offset: int) -> None:
        """Say what the last segment holds where its index leads to no batch, so that the log ends at its beginning."""
        segment = self.segments.last()
        if segment.base_offset != end_offset or not segment.size:
            return
        from kdump.recovery.losses import count_loss

        with segment.open_log() as log:
            loss, _ = count_loss(log, segment.base_offset, 0)
        if loss.last_offset is not None and loss.last_offset >= end_offset:
            why = (
                f"the last entry of {segment.file(names.OFFSET_INDEX)} leads to no batch, so the log ends at offset"
                f" {end_offset}; what is written next gets offsets that are taken"
            )
            self.steps.append(Step(HIDE, segment.file(names.LOG), why, loss=loss))

    def _recover_unflushed(self) -> None:
        point = self.startup.recovery_point
        unflushed = self.segments.between(point, LONG_MAX)
        why = f"the shutdown was not clean and the recovery point is {point}"
        for number, segment in enumerate(unflushed, 1):
            try:
                cut = self._recover(segment, why)
                lost_bytes = cut.loss.bytes if cut and cut.loss else 0
            except InvalidOffsetError as error:
                lost_bytes = self._empty(segment, error)
            if lost_bytes:
                self._drop(unflushed[number:], f"{segment.file(names.LOG)} before it is cut, so later ones are removed")
                return

    def _empty(self, segment: LoadedSegment, error: InvalidOffsetError) -> int:
        """Cut a segment to nothing because its offsets do not increase; the number of bytes cut."""
        assert self._recovering is not None
        lost_bytes, loss = self._recovering.empty()
        size = segment.size
        self.steps.append(Step(EMPTY, segment.file(names.LOG), str(error), position=size, size=size, loss=loss))
        return lost_bytes

    def _start_over(self, end_offset: int) -> None:
        """Remove all segments because they end before the log starts."""
        checkpoint = self.startup.log_start_offset
        self._drop(
            self.segments.all(), f"the log ends at offset {end_offset}, before the log start offset {checkpoint}"
        )
        if self.epochs:
            self.epochs.clear()
        self.states.truncate_fully(checkpoint)

    def _drop(self, segments: list[LoadedSegment], why: str) -> None:
        from kdump.recovery.losses import count_loss

        for segment in segments:
            name = segment.file(names.LOG)
            with segment.open_log() as log:
                loss, _ = count_loss(log, segment.base_offset, 0)
            self.steps.append(Step(DROP, name, why, loss=loss))
            for kind in (names.LOG, *names.INDEX_KINDS):
                self.directory.delete(segment.file(kind), why)
            self.segments.remove(segment.base_offset)
            self.states.snapshots.delete(segment.base_offset, f"the segment {name} is removed")

    def _start_empty(self, base_offset: int) -> None:
        segment = self._segment(base_offset)
        self.segments.add(segment)
        self._note(Step(CREATE, segment.file(names.LOG), "the log has no segment: it starts with an empty one", size=0))

    # --- the end -----------------------------------------------------------------------------------------------------

    def _rebuild_producers(self, start_offset: int, end_offset: int) -> None:
        self.states.snapshots.remove_stray(self.segments.bases())
        where = start_offset, end_offset, self.partition
        rebuild_producer_state(self.states, self.segments, self.startup, *where, clean=self.startup.clean)

    def _check_metadata(self) -> None:
        name = names.PARTITION_METADATA
        if not self.directory.exists(name):
            why = "missing: a broker in KRaft mode does not know the topic's id and sets the directory aside as -stray"
            self._note(Step(WARN, name, why))
            return
        try:
            if self._is_as_parsed(name):
                _ = self.log.metadata
            else:
                parse_partition_metadata(self.directory.read(name), self.directory.full(name))
        except CheckpointError as error:
            raise _unread(error, name) from None

    def _close(self) -> None:
        for segment in self.segments.all():
            segment.close()
        if self.epochs and self.epochs.is_written:
            self.directory.write(names.LEADER_EPOCH_CHECKPOINT, self.epochs.content())

    def _delete(self, name: str, why: str) -> None:
        self.directory.delete(name, why)
        self._note(Step(DELETE, name, why))

    def _note(self, step: Step) -> None:
        """Add a step, once even where loading begins again after a split."""
        if step not in self._noted:
            self._noted.add(step)
            self.steps.append(step)


def _unread(error: CheckpointError, name: str) -> LoadError:
    """Return what comes of a file that cannot be parsed: only an IOException becomes the fault of a disk."""
    return LoadError(STORAGE, str(error), name) if error.is_io else LoadError(error.exception, error.kafka_text, name)

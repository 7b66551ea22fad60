"""From the directory of __cluster_metadata, or one of its .checkpoint files, to the state of the cluster."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from kdump.disk.reading import is_file, status_of
from kdump.errors import KdumpError, NewerError, Problem, Report
from kdump.formats import names
from kdump.formats.batch import CONTROL, KRAFT_VERSION, KRAFT_VOTERS, LEADER_CHANGE, SNAPSHOT_FOOTER, SNAPSHOT_HEADER
from kdump.formats.control import control_type_of
from kdump.formats.control import decode_value as decode_control
from kdump.formats.schemas.cluster_metadata import decode_value
from kdump.formats.schemas.framing import Decoded
from kdump.query.contents import Content, contents_in, runs
from kdump.releases import NEWEST, KafkaRelease, NewerThanKnown, of_metadata_version
from kdump.storage.directory import LogDirectory
from kdump.storage.live import held
from kdump.storage.partition import PartitionLog
from kdump.storage.segment import Segment
from kdump.topics.cluster_image import ClusterImage

_BEGIN, _END, _ABORT = "BeginTransactionRecord", "EndTransactionRecord", "AbortTransactionRecord"


@dataclass(slots=True)
class MetadataState:
    """The cluster's state up to absolute offset `end_offset` (exclusive), of epoch `epoch`.

    `snapshot` is the .checkpoint that it starts from, None without one; the log's records from `log_start` on follow.
    `timestamp` (ms) is that of the last record. `leader`, `voters` (VotersRecord or LeaderChangeMessage) and
    `kraft_version` are what the quorum's control records say. `held_back` counts the records of a metadata transaction
    that has not ended: they do not count yet. `newer_records` counts those of which only a newer kdump knows what they
    say.
    """

    image: ClusterImage = field(default_factory=ClusterImage)
    snapshot: str | None = None
    end_offset: int = 0
    epoch: int = -1
    timestamp: int = -1
    records: int = 0
    leader: int | None = None
    voters: list[dict[str, Any]] = field(default_factory=list)
    kraft_version: int = 0
    held_back: int = 0
    held_back_since: int = -1
    newer_records: int = 0


def state_of_directory(log: PartitionLog, report: Report, at: int | None = None) -> MetadataState:
    """Return the state after the newest usable snapshot and the log behind it; with `at`, after that offset's record.

    A snapshot with damaged batches or one that is not complete is reported, and the one before it taken. Raises
    KdumpError where neither a snapshot nor the log's beginning leads to the offset, OSError.
    """
    with held(log.path) as now:
        if now is None:
            raise FileNotFoundError(2, "the broker has deleted it", log.path)
        return _state_of(now, report, at)


def _state_of(log: PartitionLog, report: Report, at: int | None) -> MetadataState:
    most = None if at is None else at + 1
    state = None
    for path in live_snapshots(log, most):
        state = state_of_snapshot(path, report)
        if state is not None:
            break
    first = log.segments[0].base_offset if log.segments else None
    if state is None:
        is_new = first == 0 == log.segments[-1].base_offset and not status_of(log.segments[0].log_path).size
        if first is None or first > 0 or is_new:
            return _bootstrap(log, report, first, at)
        state = MetadataState()
    reader = _Reader(state, report)
    if first is not None:
        if first > state.end_offset:
            reader.report(
                Problem(log.path, None, f"the records from offset {state.end_offset} up to {first} are missing")
            )
        reader.read(log.segments_from(state.end_offset), most)
    reader.finish()
    if at is not None and state.end_offset <= at:
        raise KdumpError(f"{log.path}: there is no offset {at}, the log ends before {state.end_offset}")
    return state


def state_up_to(log: PartitionLog, end_offset: int, report: Report) -> MetadataState:
    """Return the state of a node whose metadata log ends at an offset, as after recovery: nothing behind it counts.

    The newest snapshot counts, and where it ends early, what is there counts as all of it: one that a node can read
    (`recovery.newest_snapshot`). Raises KdumpError where neither a snapshot nor the log's beginning leads there,
    OSError.
    """
    path = next(live_snapshots(log), None)
    state = MetadataState() if path is None else _read_snapshot(path, report, on_damage=lambda _problem: None)[0]
    first = log.segments[0].base_offset if log.segments else end_offset
    if first > state.end_offset:
        raise KdumpError(f"{log.path}: the log starts at offset {first} and there is no usable snapshot to start from")
    reader = _Reader(state, report)
    reader.read(log.segments_from(state.end_offset), end_offset)
    reader.finish()
    return state


def state_beside(directory: LogDirectory, report: Report) -> MetadataState | None:
    """Return the state that the metadata log in a log directory gives; None where there is none, or none to be trusted.

    What is wrong with it is reported, and then it is not trusted: whoever asks of partitions and settings must not be
    misled by a record that could not be read. Records newer than kdump are counted (`newer_records`), and no fault.
    """
    if names.CLUSTER_METADATA_DIR not in directory.directories:
        return None
    path = os.path.join(directory.path, names.CLUSTER_METADATA_DIR)
    problems: list[Problem] = []
    state = None
    try:
        state = state_of_directory(PartitionLog(path), problems.append)
    except (KdumpError, OSError) as error:
        problems.append(Problem.failed(path, error))
    faults = [problem for problem in problems if not problem.is_newer]
    for fault in faults:
        report(fault)
    return None if faults else state


def release_of_level(level: int | None) -> KafkaRelease:
    """Return the release that supports metadata.version up to a level.

    The oldest release known stands for the older ones, the last known for the newer ones, and the newest that is out
    for what nobody knows (None).
    """
    if level is None:
        return NEWEST
    release = of_metadata_version(level)
    oldest, *_, last = KafkaRelease
    return oldest if release is None else last if isinstance(release, NewerThanKnown) else release


def state_in(place: PartitionLog | LogDirectory, report: Report, at: int | None = None) -> MetadataState | None:
    """Return the state by what a log directory has, or the directory of __cluster_metadata, as `state_of_directory`.

    A cluster that has never run has a bootstrap.checkpoint alone; None where that is not complete. Raises OSError,
    KdumpError.
    """
    if isinstance(place, PartitionLog):
        return state_of_directory(place, report, at)
    if names.CLUSTER_METADATA_DIR in place.directories:
        return state_of_directory(PartitionLog(os.path.join(place.path, names.CLUSTER_METADATA_DIR)), report, at)
    if names.BOOTSTRAP_CHECKPOINT in place.files and at is None:
        return state_of_snapshot(os.path.join(place.path, names.BOOTSTRAP_CHECKPOINT), report)
    raise KdumpError(f"{place.path}: there is no {names.CLUSTER_METADATA_DIR} in it")


def state_of_snapshot(path: str, report: Report) -> MetadataState | None:
    """Return the state in a .checkpoint or bootstrap.checkpoint; None, and a report, where the file is not complete."""
    faults: list[Problem] = []
    misfits: list[Problem] = []
    state, reader = _read_snapshot(path, misfits.append, faults.append)
    parsed = names.parse_file_name(os.path.basename(path))
    if parsed.kind == names.KRAFT_SNAPSHOT and not (reader.has_header and reader.has_footer):
        end = "footer" if reader.has_header else "header"
        faults.append(Problem(path, None, f"the snapshot has no {end} record: it is not complete"))
    for problem in faults or misfits:
        report(problem)
    return None if faults else state


def _read_snapshot(path: str, report: Report, on_damage: Report) -> tuple[MetadataState, _Reader]:
    parsed = names.parse_file_name(os.path.basename(path))
    state = MetadataState(snapshot=path)
    reader = _Reader(state, report, on_damage)
    reader.read([Segment(path)], None)
    if parsed.offset is not None:
        state.end_offset = parsed.offset
        state.epoch = parsed.epoch or 0
    return state, reader


def live_snapshots(log: PartitionLog, most: int | None = None) -> Iterator[str]:
    """Yield the paths of the snapshots that end at offset `most` or before, the newest first."""
    found = [
        (parsed.offset or 0, parsed.epoch or 0, name)
        for name, parsed in log.files.items()
        if parsed.kind == names.KRAFT_SNAPSHOT and parsed.state == names.LIVE
    ]
    usable = [entry for entry in found if most is None or entry[0] <= most]
    for _, _, name in sorted(usable, reverse=True):
        yield os.path.join(log.path, name)


def _bootstrap(log: PartitionLog, report: Report, first: int | None, at: int | None) -> MetadataState:
    """Return the state of a cluster that has never run, which its bootstrap.checkpoint gives."""
    for folder in (log.path, os.path.dirname(os.path.abspath(log.path))):
        path = os.path.join(folder, names.BOOTSTRAP_CHECKPOINT)
        if not first and at is None and is_file(path):
            state = state_of_snapshot(path, report)
            if state is not None:
                return state
    if first is None:
        raise KdumpError(f"{log.path}: neither a usable snapshot nor a log of the cluster's metadata")
    if first == 0 and at is None:
        return MetadataState()
    wanted = "usable snapshot" if at is None else f"usable snapshot of offset {at} or before"
    raise KdumpError(f"{log.path}: the log starts at offset {first} and there is no {wanted} to start from")


def _misfit(record: Decoded, text: str) -> KdumpError:
    """Return the error of a record: a version newer than kdump may mean something else than what is known of it."""
    return NewerError(text) if record.is_newer else KdumpError(text)


class _Reader:
    """Takes records into a state."""

    def __init__(self, state: MetadataState, report: Report, on_damage: Report | None = None) -> None:
        self.report = report
        self.has_header = False
        self.has_footer = False
        self._state = state
        self._on_damage = on_damage or report
        self._held: list[tuple[Decoded, Problem]] | None = None

    def read(self, segments: Iterable[Segment], most: int | None) -> None:
        """Take the records from the state's end offset on, up to offset `most`, without that."""
        state = self._state
        if most is not None and state.end_offset >= most:
            return
        for segment, run in runs(segments, self._on_damage):
            block = run.block
            for content in contents_in(segment, run, self._on_damage):
                if content.offset < state.end_offset:
                    continue
                if most is not None and content.offset >= most:
                    return
                state.end_offset = content.offset + 1
                state.epoch = block.leader_epoch[content.row]
                state.timestamp = content.timestamp
                state.records += 1
                # where the record is, should it turn out to be wrong
                place = Problem(segment.log_path, block.position[content.row], f"offset {content.offset}: ")
                try:
                    if block.attributes[content.row] & CONTROL:
                        self._control(content)
                    else:
                        self._take(content, place)
                except NewerError as error:
                    state.newer_records += 1
                    self.report(place._replace(text=place.text + str(error), is_newer=True))
                except KdumpError as error:
                    self.report(place._replace(text=place.text + str(error)))
                if state.end_offset == most:
                    return

    def finish(self) -> None:
        """Say what a transaction that never ended has held back."""
        self._state.held_back = len(self._held or ())

    def _take(self, content: Content, place: Problem) -> None:
        if content.value is None:
            raise KdumpError("the record has no value")
        record = decode_value(content.value)
        if record.name == _BEGIN:
            if self._held is not None:
                raise _misfit(record, "a transaction begins inside of another one")
            self._held = []
            self._state.held_back_since = content.offset
        elif record.name in (_END, _ABORT):
            held, self._held = self._held, None
            if held is None:
                raise _misfit(record, f"{record.name} without a transaction")
            self._state.held_back_since = -1
            if record.name == _END:
                for inner, inner_place in held:
                    self._apply(inner, inner_place)
        elif self._held is not None:
            self._held.append((record, place))
        else:
            self._apply(record, place)

    def _apply(self, record: Decoded, place: Problem) -> None:
        try:
            self._state.image.apply(record)
        except KdumpError as error:
            # A version newer than kdump may mean something else than what is known of it.
            self._state.newer_records += record.is_newer
            self.report(place._replace(text=f"{place.text}{record.name}: {error}", is_newer=record.is_newer))

    def _control(self, content: Content) -> None:
        number = control_type_of(content.key)
        if not LEADER_CHANGE <= number <= KRAFT_VOTERS:
            return
        if content.value is None:
            raise KdumpError("the control record has no value")
        fields = decode_control(number, content.value).fields
        state = self._state
        if number == LEADER_CHANGE:
            state.leader = fields["leaderId"]
            if not state.kraft_version:
                state.voters = fields["voters"]
        elif number == KRAFT_VOTERS:
            state.voters = fields["voters"]
        elif number == KRAFT_VERSION:
            state.kraft_version = fields["kRaftVersion"]
        elif number == SNAPSHOT_HEADER:
            self.has_header = True
            state.timestamp = fields["lastContainedLogTimestamp"]
        elif number == SNAPSHOT_FOOTER:
            self.has_footer = True

"""Write down the records that a choice of leader loses, before it is made."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from kdump.disk import durable
from kdump.disk.rights import rights_of
from kdump.errors import KdumpError, Problem, ProblemError, RefusedError, Report
from kdump.formats.batch import CONTROL
from kdump.formats.printable import escape_json
from kdump.interchange.jsonl import JsonLines
from kdump.interchange.rows import Origin
from kdump.operations.compared import PartitionReplicas
from kdump.operations.replicas import Replicas
from kdump.query.selection import Selection
from kdump.query.sweep import Selected, Sweep
from kdump.replication.choice import Choice
from kdump.replication.loss import LostKeys, LostRange
from kdump.storage.directory import LogDirectory
from kdump.storage.live import held
from kdump.storage.open import check_not_kafkas
from kdump.storage.partition import PartitionLog
from kdump.storage.records import batch_at
from kdump.txns.states import TransactionStates


@dataclass(frozen=True, slots=True)
class LostRecords:
    """What was written of a partition: the file's path (None: nothing is lost), and how many records are in it."""

    topic: str
    partition: int
    path: str | None
    records: int


def lost_records(
    places: Iterable[LogDirectory | PartitionLog],
    leader: int,
    folder: str,
    now: int,
    report: Report,
    chosen: Callable[[str], bool] = lambda _topic: True,
) -> Iterator[LostRecords]:
    """Write what each partition loses if this broker leads it into a new folder.

    `now` is the brokers' clock (ms), `chosen` names the topics. Damage is reported, and a partition that the broker
    cannot lead. Raises RefusedError where something is in the folder, OSError; KdumpError where there is no partition.
    """
    check_not_kafkas(folder)
    places = list(places)
    durable.make_directories(folder, rights=rights_of(place.path for place in places))
    if os.listdir(folder):
        raise RefusedError(f"{folder} is not empty")
    is_any = False
    for found in Replicas(places, now, report).partitions(chosen):
        is_any = True
        try:
            yield write_lost(found, leader, folder, report)
        except ProblemError:
            raise
        except KdumpError as error:
            report(Problem.unreadable(found.copies[0].path, error))
    if not is_any:
        raise KdumpError("there is no such partition in these PATHs")


def write_lost(found: PartitionReplicas, leader: int, folder: str, report: Report) -> LostRecords:
    """Write the records that are in no log any more once this broker leads, as JSON lines; damage is reported.

    Of a compacted topic only the latest ones of keys are lost: an older one must not be produced again. The file is
    <topic>-<partition>.jsonl, with the objects that `kdump dump` prints of records. Raises KdumpError where the broker
    is no choice, OSError.
    """
    topic, partition = found.key.topic, found.key.partition
    choice = next((each for each in found.choices if each.leader.broker == leader), None)
    if choice is None:
        brokers = ", ".join(str(each.leader.broker) for each in found.choices if each.leader.broker is not None)
        raise KdumpError(f"broker {leader} cannot lead {topic}-{partition}: its replicas are on {brokers or 'none'}")
    if not choice.loss.figures.lost:
        return LostRecords(topic, partition, None, 0)
    path = os.path.join(folder, f"{topic}-{partition}.jsonl")
    lines = _Lines(report)
    rights = rights_of(copy.path for copy in found.copies)
    durable.write_file(path, lines.of(found, choice), rights=rights)
    return LostRecords(topic, partition, path, lines.records)


class _Lines:
    """The lines of records; `records` counts them."""

    def __init__(self, report: Report) -> None:
        self.records = 0
        self._report = report
        self._written: list[str] = []
        self._writer = JsonLines(self._written.append)

    def of(self, found: PartitionReplicas, choice: Choice) -> Iterator[bytes]:
        """Yield the lines of what a choice loses."""
        for lost in choice.loss.ranges:
            with held(found.copies[lost.copy].path) as log:
                if log is None:
                    continue
                for first, last in _spans(lost):
                    for _ in self._write(log, first, last, lost.keys):
                        yield "".join(map(escape_json, self._written)).encode("utf-8", "backslashreplace")
                        self._written.clear()

    def _write(self, log: PartitionLog, first: int, last: int, keys: LostKeys | None) -> Iterator[None]:
        """Write the records with these offsets (inclusive), step by step; with `keys` only the latest ones of these."""
        selection = Selection(first, last + 1)
        states = TransactionStates(log)
        for segment in selection.segments(log):
            with segment.open_log() as file:
                name = log.name
                topic, partition = (name.topic, name.partition) if name else (None, None)
                self._writer.begin(Origin(segment.log_path, topic, partition, segment.base_offset), file.size)
                for event in Sweep(segment, file, selection, selection.start(segment, file)):
                    if not isinstance(event, Selected):
                        self._report(Problem(event.path or segment.log_path, event.position, event.text))
                    elif not event.block.attributes[event.row] & CONTROL:
                        picks = event.picks if keys is None else _latest(event, keys)
                        if not picks:
                            continue
                        batch = batch_at(event.block, event.row)
                        self._writer.records(batch, states.of(batch), event._replace(picks=picks))
                        self.records += len(picks)
                        yield


def _spans(lost: LostRange) -> Sequence[tuple[int, int]]:
    if lost.keys is None:
        return lost.spans
    offsets = lost.keys.offsets
    return ((offsets[0], offsets[-1]),) if offsets else ()


def _latest(event: Selected, keys: LostKeys) -> list[int]:
    offsets = event.records.offset
    return [at for at in event.picks if keys.has(offsets[at], offsets[at])]

"""What a change drops: batches with a valid CRC that no log of its result has. It is asked below all plans.

Nothing of the plan is believed but its operations. Every file that does not stay whole is searched for valid batches,
whatever its name and offsets say (storage.valid_batches), and each of them has to be in the planned logs: as it is,
with another base offset or leader epoch, or record by record. What is not was dropped, for a reason that is proven
here, or it is lost.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from stat import S_ISREG
from typing import NamedTuple

from kdump.blocks import BatchBlock
from kdump.change.compacted import Cleaned
from kdump.change.kept_records import Identity, KeptRecord, Overlap, ResultLogs, identity_of, offsets_of, records_of
from kdump.change.plan import REMOVE, RENAME, REPLACE, TRUNCATE, Operation
from kdump.errors import KdumpError, RefusedError
from kdump.formats import names
from kdump.formats.batch import LEADER_EPOCH_AT, LENGTH_AT, LOG_OVERHEAD, MAGIC_AT
from kdump.formats.names import FileName, parse_file_name
from kdump.formats.words import number_words, offset_words
from kdump.storage.log_reader import LogFile
from kdump.storage.planned import PlannedFiles, content_of
from kdump.storage.planned_log import LogView
from kdump.storage.recipe import Recipe, SourceBytes, parts_of, piece_of
from kdump.storage.scan import valid_entry
from kdump.storage.valid_batches import valid_runs

Batch = tuple[Identity, int]
"""A batch, and its last offset (absolute)."""


class DropKind(StrEnum):
    """Why a valid batch is in no log of the result."""

    LOST = "lost"
    """Nothing has its records any more."""
    OLDER_EPOCH = "older-epoch"
    """The same: but at its offsets stay records of a later leader epoch, for which a broker truncates it."""
    DUPLICATE = "duplicate"
    """The same batch stays at the same offsets."""
    REPACKED = "repacked"
    """All of its records stay, in other batches."""
    COMPACTED = "compacted"
    """What does not stay of it is superseded by later records of the same keys, or was deleted or aborted."""
    RETENTION = "retention"
    """It is below the log start offset that the change declares."""
    SET_ASIDE = "set-aside"
    """It is in a file that a broker deletes when it starts (.deleted, .tmp, .part)."""


LOSSES = (DropKind.LOST, DropKind.OLDER_EPOCH)
_DELETED_BY_BROKER = (names.DELETED, names.TMP, names.PART)
_NO_LOGS = (*names.INDEX_KINDS, names.PRODUCER_SNAPSHOT)
_CHUNK_RECORDS = 10_000
"""Records of dropped batches that are compared with the result at a time."""


class DroppedBatches(NamedTuple):
    """How many batches and records; their offsets (absolute) are from `first_offset` to `last_offset`."""

    batches: int = 0
    records: int = 0
    first_offset: int | None = None
    last_offset: int | None = None

    def plus(self, other: DroppedBatches) -> DroppedBatches:
        """Return both together."""
        firsts = [each for each in (self.first_offset, other.first_offset) if each is not None]
        lasts = [each for each in (self.last_offset, other.last_offset) if each is not None]
        return DroppedBatches(
            self.batches + other.batches,
            self.records + other.records,
            min(firsts, default=None),
            max(lasts, default=None),
        )


NOTHING = DroppedBatches()


class Dropped(dict[DropKind, DroppedBatches]):
    """The valid batches that a change drops, by kind; a kind without any is not there."""

    def add(self, kind: DropKind, batches: DroppedBatches) -> None:
        """Count more of a kind."""
        self[kind] = self.get(kind, NOTHING).plus(batches)

    @property
    def lost(self) -> DroppedBatches:
        """Those whose loss has to be accepted."""
        return self.get(DropKind.LOST, NOTHING).plus(self.get(DropKind.OLDER_EPOCH, NOTHING))


NOTHING_DROPPED = Dropped()


class Allowance(NamedTuple):
    """What a change may drop.

    `records`: how many valid records may be lost, exactly (None: any number). `below`: everything below this offset
    (absolute), which becomes the log start offset. `compacts`: what a cleaner drops.
    """

    records: int | None = 0
    below: int | None = None
    compacts: bool = False

    def allows(self, dropped: Dropped) -> bool:
        """Return whether the change may be made."""
        lost = dropped.lost
        return not lost.batches or self.records is None or lost.records == self.records


NO_LOSS = Allowance()
ANY_LOSS = Allowance(None)


class DropsError(RefusedError):
    """A change drops valid batches that it may not drop."""

    def __init__(self, path: str, dropped: Dropped) -> None:
        """`path` is the directory, `dropped` what goes."""
        lost = dropped.lost
        super().__init__(
            f"{path}: this change drops {number_words(lost.records, 'valid record')}"
            f" ({offset_words(lost.first_offset, lost.last_offset)}), which it must not"
        )
        self.dropped = dropped


def dropped_batches(
    path: str, operations: Sequence[Operation], recipes: Mapping[str, Recipe], allowance: Allowance = NO_LOSS
) -> Dropped:
    """Return the valid batches that these operations on the files of directory `path` drop.

    `recipes` are what each REPLACE puts in place, by file name. Raises OSError, and RefusedError where it cannot be
    told what is dropped.
    """
    before = _files_in(path, operations)
    after = _files_after(before, operations, recipes)
    kept = _KeptRanges(path, after)
    changed = [name for name, recipe in before.items() if not kept.is_whole(name, recipe)]
    search = _Search(path, before, kept, allowance)
    for name in sorted(changed):
        with LogFile(os.path.join(path, name)) as log:
            if _may_have_batches(name, log):
                search.file(name, log)
    return search.dropped


def _files_in(path: str, operations: Iterable[Operation]) -> dict[str, Recipe]:
    """Return the regular files of a directory; none where no operation concerns a file that is there."""
    touched = any(each.action in (REMOVE, RENAME, REPLACE, TRUNCATE) for each in operations)
    files: dict[str, Recipe] = {}
    if touched and os.path.isdir(path):
        with os.scandir(path) as entries:
            for entry in entries:
                status = entry.stat(follow_symlinks=False)
                if S_ISREG(status.st_mode):
                    files[entry.name] = SourceBytes(entry.name, 0, status.st_size)
    return files


def _files_after(
    before: Mapping[str, Recipe], operations: Iterable[Operation], recipes: Mapping[str, Recipe]
) -> dict[str, Recipe]:
    """Return the files that the operations leave."""
    files = dict(before)
    for operation in operations:
        name = operation.name
        if operation.action == REMOVE:
            files.pop(name, None)
        elif operation.action == TRUNCATE and name in files:
            files[name] = piece_of(files[name], 0, min(operation.size, files[name].size))
        elif operation.action == RENAME and operation.source in files:
            files[name] = files.pop(operation.source)
        elif operation.action == REPLACE:
            files[name] = recipes[name]
    return files


def _may_have_batches(name: str, log: LogFile) -> bool:
    """Return whether a file is searched: of those that are no logs by their names, one that begins with a batch is."""
    parsed = parse_file_name(name)
    is_no_log = parsed.kind in _NO_LOGS or (parsed.is_kafkas and parsed.offset is None)
    return not is_no_log or valid_entry(log, 0, log.size) is not None


class _KeptRanges:
    """Which bytes of the present files the planned logs have.

    `logs` are the planned logs by name. A file that keeps its name keeps its bytes as well, whatever it is.
    """

    def __init__(self, path: str, after: Mapping[str, Recipe]) -> None:
        self.path = path
        self.logs = {name: recipe for name, recipe in after.items() if _is_log(parse_file_name(name))}
        self._after = after
        self._ranges: dict[str, list[tuple[int, int, str, int]]] = {}
        for name, recipe in self.logs.items():
            position = 0
            for part in parts_of(recipe):
                if isinstance(part, SourceBytes):
                    where = part.start, part.start + part.size, name, position
                    self._ranges.setdefault(part.name, []).append(where)
                position += part.size
        for ranges in self._ranges.values():
            ranges.sort()

    def is_whole(self, name: str, recipe: Recipe) -> bool:
        """Return whether a file stays as it is, or a log is one under another name."""
        return self._after.get(name) == recipe or recipe in self.logs.values()

    def has(self, name: str, start: int, stop: int) -> bool:
        """Return whether one range has the bytes from `start` to `stop` of a file."""
        return any(first <= start and stop <= end for first, end, _, _ in self._up_to(name, start))

    def has_restored(self, name: str, start: int, stop: int) -> bool:
        """Return whether a batch of a file stays but for its base offset, or its leader epoch.

        What its CRC covers, from its magic on, has to stay, behind a frame with the same size.
        """
        content = start + MAGIC_AT
        for first, end, log, position in self._up_to(name, content):
            if stop <= end and (begin := position + content - first - MAGIC_AT) >= 0:
                frame = b"".join(content_of(self.path, piece_of(self.logs[log], begin, LEADER_EPOCH_AT)))
                if int.from_bytes(frame[LENGTH_AT:LOG_OVERHEAD], "big") == stop - start - LOG_OVERHEAD:
                    return True
        return False

    def _up_to(self, name: str, start: int) -> Sequence[tuple[int, int, str, int]]:
        """Return the ranges of a file that begin at byte `start` or before."""
        ranges = self._ranges.get(name, [])
        return ranges[: bisect_right(ranges, start, key=lambda each: each[0])]


def _is_log(parsed: FileName) -> bool:
    """Return whether batches in a file of this name are in service: those of a segment, or of a metadata snapshot."""
    return parsed.is_live_log or (parsed.kind in names.METADATA_SNAPSHOT_KINDS and parsed.state == names.LIVE)


class _Search:
    """The search of the files that change; `dropped` is what it has come to."""

    def __init__(self, path: str, before: Mapping[str, Recipe], kept: _KeptRanges, allowance: Allowance) -> None:
        self.dropped = Dropped()
        self._kept = kept
        self._allowance = allowance
        planned = PlannedFiles(path, dict(kept.logs))
        self._result = ResultLogs(planned)
        logs = sorted(name for name in before if parse_file_name(name).is_live_log)
        paths = [planned.full(name) for name in logs]
        self._cleaned = Cleaned(paths, planned, is_declared=allowance.compacts)
        self._spans = None if allowance.compacts else list(_replacements(planned, paths))

    def file(self, name: str, log: LogFile) -> None:
        """Search one file. Raises OSError, RefusedError."""
        is_deleted = parse_file_name(name).state in _DELETED_BY_BROKER
        for block, first, stop in valid_runs(log):
            end = block.position[stop - 1] + block.size[stop - 1]
            if not self._kept.has(name, block.position[first], end):
                rows = [row for row in range(first, stop) if not self._stays(name, block, row)]
                for chunk in _chunks(block, rows):
                    self._count(log, block, chunk, is_deleted=is_deleted)

    def _stays(self, name: str, block: BatchBlock, row: int) -> bool:
        start = block.position[row]
        stop = start + block.size[row]
        return self._kept.has(name, start, stop) or self._kept.has_restored(name, start, stop)

    def _count(self, log: LogFile, block: BatchBlock, rows: Sequence[int], *, is_deleted: bool) -> None:
        """Count batches whose bytes do not stay, by why they go; `rows` are theirs."""
        below = self._allowance.below
        kind: DropKind | None
        held = [log.held(block, row) for row in rows]
        spans = [offsets_of(*batch) for batch in held]
        overlap = self._result.between(min(first for first, _ in spans), max(last for _, last in spans))
        for (batch, row), (first, last) in zip(held, spans, strict=True):
            records = _number_of_records(batch, row)
            if below is not None and last < below:
                kind = DropKind.RETENTION
            elif (last, identity_of(batch, row)) in overlap.batches:
                kind = DropKind.DUPLICATE
            else:
                kind, records = self._reason(batch, row, overlap, records, is_deleted=is_deleted)
            if kind is not None:
                self.dropped.add(kind, DroppedBatches(1, records, first, last))

    def _reason(
        self, block: BatchBlock, row: int, overlap: Overlap, records: int, *, is_deleted: bool
    ) -> tuple[DropKind | None, int]:
        """Return why a batch goes that the result does not have at its offsets, and how many records go with it.

        None where new content has it somewhere else.
        """
        producer = block.last_offset[row], block.producer_id[row], block.producer_epoch[row]
        if block.count[row] == 0 and producer in overlap.producers:
            return DropKind.REPACKED, 0
        may_be_cleaned = self._spans is None or bool(self._spans)
        if overlap.records or may_be_cleaned:
            try:
                contents = records_of(block, row)
            except KdumpError:
                contents = {}
            missing = {offset: record for offset, record in contents.items() if overlap.records.get(offset) != record}
            if contents and not missing:
                return DropKind.REPACKED, records
            if contents and all(self._is_cleaned(block, row, *record) for record in missing.items()):
                return DropKind.COMPACTED, len(missing)
            records = len(missing) or records
        if self._result.take_new(identity_of(block, row)):
            return None, 0
        if is_deleted:
            return DropKind.SET_ASIDE, records
        kind = DropKind.LOST
        if overlap.has_later_epoch(*offsets_of(block, row), block.leader_epoch[row]):
            kind = DropKind.OLDER_EPOCH
        return kind, records

    def _is_cleaned(self, block: BatchBlock, row: int, offset: int, kept: KeptRecord) -> bool:
        """Return whether a cleaner has dropped a record: this one, or the one whose .swap takes the log's place."""
        if self._spans is not None and not any(first <= offset <= last for first, last in self._spans):
            return False
        return self._cleaned.explains(block, row, offset, kept.record)


def _chunks(block: BatchBlock, rows: Sequence[int]) -> Iterator[Sequence[int]]:
    """Yield rows that follow each other, with not too many records to be compared at a time."""
    start = number = 0
    for index, row in enumerate(rows):
        number += max(1, block.count[row])
        if number >= _CHUNK_RECORDS:
            yield rows[start : index + 1]
            start, number = index + 1, 0
    if start < len(rows):
        yield rows[start:]


def _number_of_records(block: BatchBlock, row: int) -> int:
    """Return how many records a batch has; a v0/v1 wrapper that cannot be read counts as one."""
    if block.magic[row] >= 2 or block.count[row] >= 0:
        return max(0, block.count[row])
    try:
        return len(records_of(block, row))
    except KdumpError:
        return 1


def _replacements(planned: PlannedFiles, logs: Iterable[str]) -> Iterator[tuple[int, int]]:
    """Yield the base offset and the last offset (absolute) of each .swap that becomes a log, if a cleaner has made it.

    No batch of it may stand at other offsets in the present `logs` (paths): no CRC covers those, and one that is
    damaged would seem to be in the place of records that it is not in the place of.
    """
    for name, recipe in planned.files.items():
        states = {parse_file_name(part.name).state for part in parts_of(recipe) if isinstance(part, SourceBytes)}
        if names.SWAP not in states:
            continue
        with LogView(planned, name) as log:
            batches = _batches_of(log)
        standing: set[Batch] = set()
        for path in logs:
            with LogFile(path) as log:
                standing |= _batches_of(log)
        displaced = {identity for identity, _ in standing} & {identity for identity, _ in batches - standing}
        if batches and not displaced:
            yield parse_file_name(name).offset or 0, max(offset for _, offset in batches)


def _batches_of(log: LogFile) -> set[Batch]:
    """Return the valid batches of a log. Raises OSError."""
    return {
        (identity_of(block, row), block.last_offset[row])
        for block, first, stop in valid_runs(log)
        for row in range(first, stop)
    }

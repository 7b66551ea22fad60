"""Read the records of logs in order, past their damage, which goes to a function of the caller's."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

from kdump.blocks import BatchBlock
from kdump.errors import InvalidRecordError, KdumpError, Problem, Report
from kdump.formats.faults import DamageError, fault_error
from kdump.storage.control_batches import Marker, control_record, end_of_transaction, is_control
from kdump.storage.damage import Damage
from kdump.storage.decoded import BadBatch, decode_rows
from kdump.storage.scan import Run, scan
from kdump.storage.segment import Segment

if TYPE_CHECKING:
    from kdump.storage.replica import Replica

_columns = attrgetter("row", "offset", "timestamp", "key_position", "key_length", "value_position", "value_length")


def runs(segments: Iterable[Segment], report: Report, *, whole: bool = True) -> Iterator[tuple[Segment, Run]]:
    """Yield the valid batches of segments, in order; `whole` as for LogFile.blocks."""
    for segment in segments:
        try:
            with segment.open_log() as log:
                for part in scan(log, segment.base_offset, whole=whole):
                    if isinstance(part, Damage):
                        report(Problem(segment.log_path, part.position, part.text))
                    else:
                        yield segment, part
        except OSError as error:
            report(Problem.unreadable(segment.log_path, error))


class Content(NamedTuple):
    """What a record holds: the row of its batch, absolute offset, timestamp in ms, key and value (None: null)."""

    row: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None


def contents_in(segment: Segment, run: Run, report: Report) -> Iterator[Content]:
    """Yield the records of a run's batches; where those of a batch break off the next one follows."""
    data = bytes(run.block.data)
    for rows in decode_rows(*run):
        if isinstance(rows, BadBatch):
            report(Problem(segment.log_path, rows.position, str(rows.error)))
            continue
        for row, offset, timestamp, key, key_size, value, value_size in zip(
            *(column[: rows.records.length] for column in _columns(rows.records)), strict=True
        ):
            source = rows.payloads[row - rows.first] or data
            yield Content(
                row,
                offset,
                timestamp,
                source[key : key + key_size] if key_size >= 0 else None,
                source[value : value + value_size] if value_size >= 0 else None,
            )


def replay(replica: Replica, take: Callable[[bytes, bytes | None], object], report: Report) -> None:
    """Give keys and values of a coordinator's partition to `take`, without control records (CoordinatorLoader).

    Damage, and what `take` raises a KdumpError for, is reported and skipped.
    """
    start = replica.log_start_offset
    for segment, run in runs(replica.log.segments_from(start), report):
        for content in contents_in(segment, run, report):
            if content.offset < start or is_control(run.block, content.row):
                continue
            try:
                if content.key is None:
                    raise InvalidRecordError("the record has no key")
                take(content.key, content.value)
            except KdumpError as error:
                position = run.block.position[content.row]
                report(Problem.of_record(segment.log_path, position, content.offset, error))


def marker_in(block: BatchBlock, row: int) -> Marker | None:
    """Return the marker in a control batch of a producer; None where compaction has taken it out. Raises KdumpError."""
    if not block.holds(row):
        raise InvalidRecordError(f"a control batch of {block.size[row]} bytes")
    try:
        record = control_record(block, row)
    except DamageError as damage:
        raise fault_error(damage.fault) from None
    return None if record is None else end_of_transaction(record)


def share_of_batch(block: BatchBlock, row: int) -> int:
    """Return the bytes that one record of a batch stands for: an equal part of the batch's, header included.

    Of a v0/v1 wrapper, which does not say how many messages it holds, the whole is one's share.
    """
    return block.size[row] // max(1, block.count[row])

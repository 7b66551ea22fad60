"""Everything that a kernel says about a buffer, as a stream of labelled values that two kernels must agree on."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from types import ModuleType
from typing import NamedTuple

from kdump.blocks import BATCH_COLUMNS, RECORD_COLUMNS, BatchBlock, RecordBlock
from kdump.formats.batch import CODEC_MASK
from kdump.formats.faults import BLOCK_FULL, fault_error
from kdump.kernels.portable.records import headers
from kdump.kernels.portable.text import LogText
from kdump.storage.payloads import inflate

LIMIT = 1 << 20
CHECKED_ROWS = 2
GATHERED = ("offset", "batch.producer_id")

Observation = tuple[str, object]


class Case(NamedTuple):
    """One buffer, and how it is looked at.

    `data` lies at byte `base` of a log that ends at byte `end` of a file that ends at byte `file_end`. `payload`
    stands for what compressed entries decompress to; None: decompress. `rows` and `records` are the capacities of the
    blocks. `text` is a bit set: 1 deep, 2 print data, 4 skip metadata; None: no text. `search` are the arguments of
    find_batch behind the data; None: no search.
    """

    data: bytes
    end: int
    file_end: int
    base: int = 0
    payload: bytes | None = None
    rows: int = 8
    records: int = 16
    text: int | None = None
    search: tuple[int, int, int, int, int] | None = None


class Difference(NamedTuple):
    """What one kernel says and the other does not."""

    case: Case
    expected: Observation | None
    found: Observation | None


def observe(case: Case, kernel: ModuleType) -> Iterator[Observation]:
    """What `kernel` makes of the case. An exception that must not be ends the stream as an observation of its own."""
    try:
        yield from _walk(case, kernel)
        if case.search:
            yield "find_batch", kernel.find_batch(case.data, *case.search)
    except Exception as error:
        yield "raised", f"{type(error).__name__}: {error}"


def _walk(case: Case, kernel: ModuleType) -> Iterator[Observation]:
    block = BatchBlock(case.rows)
    block.data = case.data
    block.data_position = case.base
    block.available = len(case.data)
    records = RecordBlock(case.records)
    text = kernel.LogText(*(bool(case.text & bit) for bit in (1, 2, 4)), _control) if case.text is not None else None
    position = case.base
    while True:
        status = kernel.walk(block, position, case.end, case.file_end)
        yield "walk", (status, block.status, block.length, block.next_position)
        yield "state", (block.needed, block.bad_size, block.packed, block.controls)
        yield "batches", columns(block, BATCH_COLUMNS)
        yield from _contents(case, kernel, block, records, text)
        if status != BLOCK_FULL:
            return
        position = block.next_position


def _contents(
    case: Case, kernel: ModuleType, block: BatchBlock, records: RecordBlock, text: LogText | None
) -> Iterator[Observation]:
    row = 0
    while row < block.length:
        if case.payload is None:
            inflated = inflate(block, row, limit=LIMIT)
            stop, payloads = inflated.stop, inflated.payloads
            yield "inflate", (stop, payloads, str(inflated.error), inflated.fault)
        else:
            stop = block.length
            payloads = [case.payload if block.attributes[at] & CODEC_MASK else None for at in range(row, stop)]
        yield from _decode(kernel, block, records, row, stop, payloads)
        for at in range(row, min(stop, row + CHECKED_ROWS)):
            yield "check", kernel.check(block, at, payloads[at - row])
        if text:
            yield from _render(text, block, row, stop, payloads)
        row = stop


def _decode(
    kernel: ModuleType, block: BatchBlock, records: RecordBlock, first: int, stop: int, payloads: Sequence[bytes | None]
) -> Iterator[Observation]:
    records.seek(first)
    while records.next_row < stop:
        more = kernel.decode(block, records, first, stop, payloads)
        yield "decode", (more, records.length, records.flagged, records.fault)
        yield "cursor", (records.next_row, records.next_index, records.next_position)
        yield "records", columns(records, RECORD_COLUMNS)
        yield "headers", _headers(block, records, first, payloads)
        yield "columns", _gathered(kernel, block, records, first, payloads)
        yield "compaction", _compacted(kernel, block, records, first, payloads)
        if records.fault:
            yield "text of the fault", str(fault_error(records.fault))
            records.seek(records.next_row + 1)
        elif more and records.length < records.capacity:
            yield "stalled", records.next_row
            return


def _headers(block: BatchBlock, records: RecordBlock, first: int, payloads: Sequence[bytes | None]) -> list[object]:
    """The headers that the columns lead to."""
    found: list[object] = []
    for at in range(records.length):
        if records.headers_count[at]:
            payload = payloads[records.row[at] - first]
            source = block.data if payload is None else payload
            found.append(list(headers(source, records.headers_position[at], records.headers_count[at])))
    return found


def _gathered(
    kernel: ModuleType, block: BatchBlock, records: RecordBlock, first: int, payloads: Sequence[bytes | None]
) -> list[object]:
    """The records as columns that hold so little that most take several."""
    found: list[object] = []
    gathering = kernel.RecordColumns(GATHERED, True, True, True, control=False, most_rows=5, most_bytes=64)
    done = 0
    while done < records.length:
        done = gathering.add(block, records, first, payloads, range(records.length), done)
        found.append((done, gathering.take()))
    return found


def _compacted(
    kernel: ModuleType, block: BatchBlock, records: RecordBlock, first: int, payloads: Sequence[bytes | None]
) -> list[object]:
    """What compaction makes of the records, with a map that has not room for many keys."""
    keys = kernel.OffsetMap(16 * 24, 12)
    taken = keys.take(block, records, first, payloads, b"\1" * len(payloads), 0)
    found: list[object] = [taken, keys.size]
    stop = first + len(payloads)
    taken_stop = records.row[taken] if taken < records.length else stop
    middle = first + (stop - first) // 2
    verdicts = keys.classify(block, records, first, payloads, 1 << 62, 0, False, middle, taken_stop)
    found.append(bytes(verdicts))
    rewritten = kernel.rewrite(block, records, first, stop, verdicts, 1 << 40)
    found.append([part.tolist() if isinstance(part, array) else part for part in rewritten])
    if any(verdict & 1 for verdict in verdicts):
        at = next(number for number, verdict in enumerate(verdicts) if verdict & 1)
        row = records.row[at]
        end = next((number for number in range(at, records.length) if records.row[number] != row), records.length)
        found.append(kernel.encode_kept(block, records, at, end, verdicts, payloads[row - first], 0, None))
    return found


def _render(
    text: LogText, block: BatchBlock, first: int, stop: int, payloads: Sequence[bytes | None]
) -> Iterator[Observation]:
    pieces: list[bytes] = []
    fault = text.render(block, first, stop, payloads, lambda piece: pieces.append(bytes(piece)))
    yield "text", (b"".join(pieces), fault, list(text.gaps))


def _control(number: int, value: bytes | None) -> bytes:
    return f"<{number} {value!r}>".encode()


def columns(block: BatchBlock | RecordBlock, names: Sequence[str]) -> list[tuple[str, list[int]]]:
    """The filled part of every column."""
    length = block.length
    return [(name, getattr(block, name)[:length].tolist()) for name in names]

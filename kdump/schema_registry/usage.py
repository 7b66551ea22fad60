"""Which schemas the records of a partition name, and how often; by all of its records, or by a sample of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from kdump.disk.reading import status_of
from kdump.errors import Problem, Report
from kdump.formats.schema_prefix import likely_id
from kdump.interchange.rows import Payload
from kdump.query.split_points import parts
from kdump.schema_registry.decoder import Codec, FieldDecoder, PayloadDecoder
from kdump.schema_registry.errors import SchemaError
from kdump.schema_registry.framing import Frame
from kdump.storage.control_batches import is_control
from kdump.storage.damage import Damage
from kdump.storage.decoded import BadBatch
from kdump.storage.partition import PartitionLog
from kdump.storage.records import Record, records_of
from kdump.storage.scan import scan
from kdump.storage.segment import Segment

SMALL = 4 << 20
"""Bytes of a partition up to which all of it is read."""
PLACES = 16
"""Places of a larger partition that a sample is taken at, evenly spread over it."""
SAMPLED = 500
"""Records that are taken at each place."""
_SURE = 20
"""Payloads of a schema in a field that are decoded, before others count by their frames."""
_FEW = 4
"""Unknown schemas that a field may name without a known one, if all of its payloads name them."""


@dataclass(slots=True)
class FieldUse:
    """The keys or the values of a partition: how many name which schema (by id), message, or none.

    `undecodable` counts those that name a schema by which they do not decode, `unknown` those by a schema that is not
    at hand (under its id; None: a GUID), and `nulls` and `plain` the others.
    """

    schemas: Counter[int] = field(default_factory=Counter)
    messages: Counter[tuple[int, str]] = field(default_factory=Counter)
    undecodable: Counter[int] = field(default_factory=Counter)
    unknown: Counter[int | None] = field(default_factory=Counter)
    errors: dict[int | None, str] = field(default_factory=dict)
    nulls: int = 0
    plain: int = 0

    def add(self, other: FieldUse) -> None:
        """Add those of another partition; the error that a schema was first seen with stays."""
        self.schemas.update(other.schemas)
        self.messages.update(other.messages)
        self.undecodable.update(other.undecodable)
        self.unknown.update(other.unknown)
        self.errors = other.errors | self.errors
        self.nulls += other.nulls
        self.plain += other.plain


@dataclass(slots=True)
class PartitionUse:
    """What the records of a partition use; of `records` records, all there are unless it `is_sample`."""

    key: FieldUse = field(default_factory=FieldUse)
    value: FieldUse = field(default_factory=FieldUse)
    records: int = 0
    is_sample: bool = False


def usage_of(log: PartitionLog, topic: str, decoder: PayloadDecoder, report: Report, *, deep: bool) -> PartitionUse:
    """Return what a partition's records use; damage is reported and skipped. Kafka's markers do not count."""
    found = PartitionUse()
    fields = decoder.of_topic(topic)
    key, value = _Counter(fields.key, found.key), _Counter(fields.value, found.value)
    for record in _records(log, found, report, deep=deep):
        found.records += 1
        headers = dict(record.headers) if record.headers else {}
        key.add(record.key, headers)
        value.add(record.value, headers)
    key.settle()
    value.settle()
    return found


def _records(log: PartitionLog, found: PartitionUse, report: Report, *, deep: bool) -> Iterator[Record]:
    """Yield the records of all data, or the first ones at places that are spread over it."""
    sizes = [(segment, status_of(segment.log_path).size) for segment in log.segments]
    total = sum(size for _, size in sizes)
    found.is_sample = not deep and total > SMALL
    step = total // PLACES if found.is_sample else 0
    following = before = 0
    for segment, size in sizes:
        try:
            places = parts(segment.log_path, size, step) if found.is_sample else iter([(0, size)])
            for start, stop in places:
                if before + start >= following:
                    following += step
                    yield from _records_at(segment, start, stop, report, SAMPLED if found.is_sample else None)
        except OSError as error:
            report(Problem.unreadable(segment.log_path, error))
        before += size


def _records_at(segment: Segment, start: int, stop: int, report: Report, most: int | None) -> Iterator[Record]:
    """Yield the first `most` records (None: all) of the batches in bytes `start` to `stop` of a log."""
    left = most
    with segment.open_log() as log:
        for part in scan(log, segment.base_offset, start, stop):
            if isinstance(part, Damage):
                report(Problem(segment.log_path, part.position, part.text))
                continue
            for record in records_of(part.block, part.first, part.stop):
                if isinstance(record, BadBatch):
                    report(Problem(segment.log_path, record.position, str(record.error)))
                elif not is_control(part.block, record.row):
                    yield record
                    if left is not None:
                        left -= 1
                        if left == 0:
                            return


class _Counter:
    def __init__(self, decoder: FieldDecoder, use: FieldUse) -> None:
        self._decoder = decoder
        self._use = use
        self._likely: Counter[int] = Counter()

    def add(self, data: bytes | None, headers: dict[bytes, bytes | None]) -> None:
        use = self._use
        if data is None:
            use.nulls += 1
            return
        found = self._decoder.decode(data, headers.get(self._decoder.header_name), self._read)
        if not isinstance(found, Payload):
            use.plain += 1
            number = likely_id(data)
            if number is not None:
                self._likely[number] += 1
        elif found.error is None:
            assert found.schema_id is not None
            use.schemas[found.schema_id] += 1
            if found.message:
                use.messages[found.schema_id, found.message] += 1
        elif found.is_unknown or found.schema_id is None:
            use.unknown[found.schema_id] += 1
        else:
            use.undecodable[found.schema_id] += 1
            use.errors.setdefault(found.schema_id, found.error)

    def settle(self) -> None:
        """Take what looked plain for what names unknown schemas, where all of it names a few of them."""
        use = self._use
        named = self._likely.total()
        is_all = named == use.plain and named >= _SURE and len(self._likely) <= _FEW
        if named and (use.schemas or is_all):
            use.unknown.update(self._likely)
            use.plain -= named

    def _read(self, codec: Codec, data: bytes, frame: Frame) -> tuple[Any, str | None]:
        if codec.protobuf is not None:
            return None, codec.protobuf.message_name(data, frame.start, frame.indexes)
        if self._use.schemas[codec.schema.id] < _SURE:
            return codec.shown(data, frame)
        if not data[frame.start :] and not codec.is_primitive:
            raise SchemaError("nothing follows the schema's id")
        return None, None

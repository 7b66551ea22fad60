"""Producer snapshots: whether they can be read, whether they belong to a segment, and whether the log agrees."""

from __future__ import annotations

from collections.abc import Iterator

from kdump.errors import CorruptSnapshotError
from kdump.findings.finding import Finding, found
from kdump.formats.producer_snapshot import ProducerEntry, decode_producer_snapshot
from kdump.release_tables import MAX_ARRAY_LENGTH
from kdump.transactions.producers import Producer
from kdump.verify.producers import ProducerCheck


def check_snapshot(path: str, data: bytes, offset: int, known: ProducerCheck | None) -> Iterator[Finding]:
    """Compare a snapshot with what the log before its `offset` (absolute) says of its producers, if that is known."""
    try:
        entries = decode_producer_snapshot(data)
    except CorruptSnapshotError as error:
        yield found("KD-SNAP-CORRUPT", path, str(error))
        return
    if len(entries) > MAX_ARRAY_LENGTH:
        limit = f"Kafka 4.2.2, 4.4 and later read {MAX_ARRAY_LENGTH:,}, and delete the file at a start"
        text = f"{len(entries):,} producers: {limit}"
        yield found("KD-SNAP-LARGE", path, text, offset=offset, details={"producers": len(entries)})
    if known is None:
        return
    for entry in entries:
        producer = known.producers.get(entry.producer_id)
        if producer and (text := _disagreement(entry, producer)):
            yield found("KD-SNAP-STATE", path, f"producer {entry.producer_id}: {text}", offset=entry.last_offset,
                        details={"producerId": entry.producer_id})  # fmt: skip
    known.settle(entries, offset)


def _disagreement(entry: ProducerEntry, producer: Producer) -> str:
    """Return how a snapshot's entry contradicts what the log says; empty where it does not.

    Of a compacted log a producer's later batches may be gone, so the snapshot may know more than the log.
    """
    if producer.last_offset >= 0 and entry.last_offset >= 0:
        if entry.last_offset < producer.last_offset:
            return f"its last batch ends at offset {producer.last_offset}, the snapshot says {entry.last_offset}"
        if entry.last_offset == producer.last_offset and entry.last_sequence != producer.last_sequence:
            return f"its last sequence is {producer.last_sequence}, the snapshot says {entry.last_sequence}"
    if entry.producer_epoch < producer.epoch:
        return f"its epoch is {producer.epoch}, the snapshot says {entry.producer_epoch}"
    return ""

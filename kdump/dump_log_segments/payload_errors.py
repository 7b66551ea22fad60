"""The Java exceptions that end Kafka's dump tool over the payload of a batch: its decompression, and its records."""

from __future__ import annotations

from kdump import kernels
from kdump.blocks import BatchBlock
from kdump.dump_log_segments.java import java_error, java_fault
from kdump.dump_log_segments.options import INT_MAX
from kdump.errors import (
    BUFFER_UNDERFLOW,
    ILLEGAL_ARGUMENT,
    INVALID_RECORD,
    KAFKA,
    CodecError,
    JavaError,
    KdumpError,
    UnknownCodecError,
)
from kdump.formats import faults
from kdump.formats.batch import MARKER_VALUE
from kdump.formats.codecs import DEFAULT_LIMIT, LimitError, StreamError, delivered, lz4, snappy
from kdump.formats.control import version_of_short_marker
from kdump.formats.faults import Fault, fault_error
from kdump.kernels.portable.records import reason_of_fault
from kdump.releases import CONTROL_KEY_WORDS, SHORT_MARKERS_END, KafkaRelease
from kdump.storage.control_batches import control_record, is_control
from kdump.storage.payloads import Payloads, packed_payload

MAX_ARRAY = INT_MAX - 2
"""Elements of the largest array that HotSpot makes, whatever the size of its heap."""
BOMB_HEAD = 1 << 24
"""Bytes of a payload without end that are searched for damage among its records."""

_AT_THE_END = (faults.PREMATURE_END, faults.RECORD_EOF, faults.WRAPPER_EMPTY)
_NOT_DECOMPRESSED = "Failed to decompress record stream"
_SHORT_CONTROL_KEY = "Invalid value size found for control record key. Must have at least 4 bytes, but found only {}"
"""What formats.faults has for CONTROL_KEY_SIZE, in the words of CONTROL_KEY_WORDS."""


def java_record_fault(fault: Fault, block: BatchBlock, inflated: Payloads) -> JavaError:
    """Return what Kafka's tool dies of at a fault among the records of a range's batches."""
    for row, payload in enumerate(inflated.payloads, inflated.first):
        if kernels.check(block, row, payload):
            if payload is not None and _has_too_many(block, row):
                return _no_such_array()
            return _in_records(fault, block, row, payload)
    return java_fault(fault)


def java_printing_fault(fault: Fault, block: BatchBlock, inflated: Payloads, release: KafkaRelease) -> JavaError:
    """Return the same at a fault among what is printed: also the contents of control records are read then."""
    if fault[0] == faults.MARKER_SIZE and release.has(SHORT_MARKERS_END):
        return _short_marker(block, inflated)
    error = java_record_fault(fault, block, inflated)
    if fault[0] == faults.CONTROL_KEY_SIZE and release.has(CONTROL_KEY_WORDS) and error.java_class == INVALID_RECORD:
        return JavaError(INVALID_RECORD, _SHORT_CONTROL_KEY.format(fault[1]))
    return error


def _short_marker(block: BatchBlock, inflated: Payloads) -> JavaError:
    """Return what reading the first marker of a range that is too short ends in, from Kafka 4.1 on."""
    rows = range(inflated.first, inflated.stop)
    records = (control_record(block, row) for row in rows if is_control(block, row))
    short = (record.value for record in records if record and record.value and len(record.value) < MARKER_VALUE.size)
    bad = version_of_short_marker(next(short, b""))
    return java_error(bad) if bad else JavaError(BUFFER_UNDERFLOW)


def java_codec_error(block: BatchBlock, row: int, error: KdumpError) -> JavaError:
    """Return what Kafka's tool dies of at batch `row`, whose payload cannot be decompressed to its end.

    Kafka reads records while it decompresses, and so may meet damage among the records first; of a v0 or v1 wrapper it
    takes the frames of the messages alone then.
    """
    if not isinstance(error, CodecError) or isinstance(error, UnknownCodecError):
        return java_error(error)
    codec, payload = packed_payload(block, row)
    bomb = isinstance(error, LimitError)
    got, failure = delivered(codec, payload, magic=block.magic[row], limit=BOMB_HEAD if bomb else DEFAULT_LIMIT)
    is_wrapper = block.magic[row] < 2
    if got is not None and not is_wrapper and _has_too_many(block, row):
        return _no_such_array()
    fault = kernels.check(block, row, got) if got is not None else None
    if fault and (fault[0] == faults.INNER_SIZE if is_wrapper else fault[0] not in _AT_THE_END):
        return _in_records(fault, block, row, got)
    if bomb:
        return java_error(error)
    failure = failure or error
    if not isinstance(failure, StreamError):
        return java_error(failure)
    if _is_uncaught(failure, is_open=got is not None):
        return JavaError(failure.exception, failure.kafka_text or None)
    causes = _causes(failure, block.size[row] - len(payload))
    if got is None or is_wrapper:
        return JavaError(KAFKA, causes[0], *causes)
    text = "Error checking for remaining bytes after reading batch" if fault is None else _NOT_DECOMPRESSED
    return JavaError(KAFKA, text, *causes)


def _has_too_many(block: BatchBlock, row: int) -> bool:
    """Return whether a batch says that it has more records than fit the list that Kafka makes of them."""
    return block.magic[row] >= 2 and block.count[row] > MAX_ARRAY


def _no_such_array() -> JavaError:
    return JavaError("java.lang.OutOfMemoryError", "Requested array size exceeds VM limit")


def _in_records(fault: Fault, block: BatchBlock, row: int, payload: bytes | None) -> JavaError:
    """Return what Kafka's tool dies of at a fault among the records of a batch, with its cause."""
    error = java_fault(fault)
    if fault[0] not in (faults.STRUCTURE, faults.PREMATURE_END):
        return error
    if reason := reason_of_fault(block, row, payload):
        return JavaError(error.java_class, error.text, f"{ILLEGAL_ARGUMENT}: {fault_error(reason)}")
    return JavaError(error.java_class, error.text, BUFFER_UNDERFLOW) if fault[0] == faults.STRUCTURE else error


def _is_uncaught(failure: StreamError, *, is_open: bool) -> bool:
    """Return whether nobody in Kafka catches what a stream throws: an error, or what it throws once it is open."""
    return isinstance(failure, snappy.ChunkSizeError) or (is_open and isinstance(failure, lz4.FieldEndError))


def _causes(failure: StreamError, payload_at: int) -> tuple[str, ...]:
    """Return what a stream throws, and the cause of that if there is one, each as its class and text.

    `payload_at` is where the payload begins in its batch.
    """
    if isinstance(failure, lz4.CorruptBlockError):
        cause = failure.kafka_cause(payload_at)
        return f"{failure.exception}: {cause}", cause
    return (": ".join(filter(None, (failure.exception, failure.kafka_text))),)

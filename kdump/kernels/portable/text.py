"""Render batches and records as the lines that Kafka's own dump tool prints."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence

from kdump.blocks import BatchBlock, content_at
from kdump.formats import faults
from kdump.formats.batch import (
    ABORT,
    CODEC_MASK,
    COMMIT,
    CONTROL,
    DELETE_HORIZON,
    LOG_APPEND_TIME,
    TRANSACTIONAL,
    control_type_name,
    wrap32,
    wrap64,
)
from kdump.formats.codecs import NAMES as CODEC_NAMES
from kdump.formats.codecs import ZSTD
from kdump.formats.control import ControlError, control_type_of, decode_marker
from kdump.formats.faults import DamageError
from kdump.formats.java_utf8 import java_utf8
from kdump.formats.message_set import CRC
from kdump.formats.sequences import last_sequence
from kdump.kernels.portable.messages import (
    Message,
    Source,
    message_is_valid,
    message_key,
    message_value,
    messages,
)
from kdump.kernels.portable.records import Record, batch_records, check, headers, message_record, source_of

FLUSH_SIZE = 1 << 18
MIN_LEGACY_MAGIC = 0

Write = Callable[[memoryview], object]
Contents = Callable[[int, bytes | None, bytes | None], tuple[bytes | None, bytes | None]]
ControlText = Callable[[int, bytes | None], bytes]


def string_contents(_offset: int, key: bytes | None, value: bytes | None) -> tuple[bytes | None, bytes | None]:
    """Return keys and values as text, as Kafka's StringDecoder gives them."""
    return key if key is None else java_utf8(key), value if value is None else java_utf8(value)


class LogText:
    """A renderer for one log file.

    deep           a line for every record, not only for every batch
    print_data     keys and values too
    skip_metadata  keys and values only
    control        gives the text of a KRaft control record (type, value), such as `SnapshotFooter {"version":0}`
    java           as the tool of Kafka 4.3 and later, written in Java, prints: a bar in front of a payload without a
                   key, no brace behind a v0/v1 message, and a gap in front of a first offset above 0
    contents       gives the texts of (offset, key, value); None: as UTF-8

    hold           hold all text back until `flush`

    `gaps` collects pairs of consecutive records' offsets that do not follow each other; `first_offset` (None before
    there is one) and `last_offset` (-1) are those of the records since the last `restart`.
    """

    def __init__(
        self,
        deep: bool,
        print_data: bool,
        skip_metadata: bool,
        control: ControlText,
        contents: Contents | None = None,
        *,
        hold: bool = False,
        java: bool = False,
    ) -> None:
        self._deep = deep
        self._print_data = print_data
        self._skip_metadata = skip_metadata
        self._control = control
        self._contents = contents or string_contents
        self._hold = hold
        self._java = java
        self.restart()

    @property
    def held(self) -> int:
        """Bytes of text that are held."""
        return len(self._out)

    def restart(self, last_offset: int = -1) -> None:
        """Forget the text that is held, and all offsets; the next record is to follow `last_offset` (-1: none)."""
        self._out = bytearray()
        self.gaps = array("q")
        self.first_offset: int | None = None
        self.last_offset = last_offset

    def render(
        self, block: BatchBlock, first: int, stop: int, payloads: Sequence[bytes | None], write: Write
    ) -> faults.Fault | None:
        """Write the lines of the batches `first` to `stop` - 1; return the damage that ended them early, if any.

        `payloads[row - first]` is the payload of a compressed batch; None for an uncompressed one, and for a
        compressed one of which only the batch line is wanted. What was rendered before damage is written, an
        unfinished line included.
        """
        try:
            for row in range(first, stop):
                self._batch_line(block, row)
                if self._deep:
                    self._records(block, row, payloads[row - first], write)
                self._flush_full(write)
        except DamageError as damage:
            return damage.fault
        finally:
            if not self._hold:
                self.flush(write)
        return None

    def flush(self, write: Write) -> None:
        """Write the text that is held."""
        if self._out:
            out, self._out = self._out, bytearray()
            with memoryview(out) as view:
                write(view)

    def _flush_full(self, write: Write) -> None:
        if len(self._out) >= FLUSH_SIZE and not self._hold:
            self.flush(write)

    def _batch_line(self, block: BatchBlock, row: int) -> None:
        magic = block.magic[row]
        self._out += (_batch_fields(block, row) if magic >= 2 else f"offset: {block.last_offset[row]}").encode()
        if magic < MIN_LEGACY_MAGIC:
            raise DamageError(faults.LEGACY_MAGIC, magic)
        codec = block.attributes[row] & CODEC_MASK
        if codec > ZSTD:
            raise DamageError(faults.UNKNOWN_CODEC, codec)
        self._out += (
            f" position: {block.position[row]} {_timestamp_type(block, row)}: {block.max_timestamp[row]}"
            f" size: {block.size[row]} magic: {magic} compresscodec: {CODEC_NAMES[codec]} crc: {block.crc[row]}"
            f" isvalid: {'true' if block.valid[row] else 'false'}\n"
        ).encode()

    def _records(self, block: BatchBlock, row: int, payload: bytes | None, write: Write) -> None:
        if block.attributes[row] & CODEC_MASK:
            if payload is None:
                return
            damage = check(block, row, payload) if block.magic[row] >= 2 else None
            if damage:
                raise DamageError(*damage)
        source = source_of(block, row, payload)
        if block.magic[row] >= 2:
            for record in batch_records(block, row, payload):
                self._record_line(block, row, source, record)
                self._flush_full(write)
        else:
            for message in messages(block, row, payload):
                self._message_line(block, row, source, message)
                self._flush_full(write)

    def _follow(self, offset: int) -> None:
        if self.last_offset != wrap64(offset - 1) and (self._java or self.last_offset != -1):
            self.gaps.extend((self.last_offset, offset))
        if self.first_offset is None:
            self.first_offset = offset
        self.last_offset = offset

    def _record_line(self, block: BatchBlock, row: int, source: Source, record: Record) -> None:
        self._follow(record.offset)
        control = bool(block.attributes[row] & CONTROL)
        key = content_at(source, record.key_position, record.key_length)
        value = content_at(source, record.value_position, record.value_length)
        prefix = b"| "
        if not self._skip_metadata:
            named = headers(source, record.headers_position, record.headers_count)
            names = b",".join(java_utf8(name) for name, _ in named)
            self._out += (
                f"| offset: {record.offset} {_timestamp_type(block, row)}: {record.timestamp} keySize:"
                f" {record.key_length} valueSize: {record.value_length} sequence: {record.sequence} headerKeys: ["
            ).encode()
            self._out += names + b"]"
            prefix = b" "
            if control:
                self._out += self._control_text(key, value)
        if self._print_data and not control:
            self._print_contents(prefix, record.offset, key, value)
        self._out += b"\n"

    def _message_line(self, block: BatchBlock, row: int, source: Source, message: Message) -> None:
        self._follow(message.offset)
        prefix = b"| "
        if not self._skip_metadata:
            key_length = message_key(source, message)[1]
            value_length = message_value(source, message, key_length)[1]
            valid = "true" if message_is_valid(source, message) else "false"
            self._out += (
                f"| offset: {message.offset} {_timestamp_type(block, row)}: {message.timestamp} keySize: {key_length}"
                f" valueSize: {value_length} isValid: {valid} crc: {CRC.unpack_from(source, message.position)[0]}"
            ).encode()
            if not self._java:
                self._out += b"}"
            prefix = b" "
        if self._print_data:
            record = message_record(source, message)
            key = content_at(source, record.key_position, record.key_length)
            value = content_at(source, record.value_position, record.value_length)
            self._print_contents(prefix, message.offset, key, value)
        self._out += b"\n"

    def _print_contents(self, prefix: bytes, offset: int, key: bytes | None, value: bytes | None) -> None:
        key_text, value_text = self._contents(offset, key, value)
        if key_text is not None:
            self._out += prefix + b"key: " + key_text
            prefix = b" "
        if value_text is not None:
            self._out += (prefix if self._java else b" ") + b"payload: " + value_text

    def _control_text(self, key: bytes | None, value: bytes | None) -> bytes:
        try:
            number = control_type_of(key)
            if number in (ABORT, COMMIT):
                epoch = decode_marker(number, value).coordinator_epoch
                return f" endTxnMarker: {control_type_name(number)} coordinatorEpoch: {epoch}".encode()
        except ControlError as error:
            raise DamageError(*error.fault) from None
        if control_type_name(number) == "UNKNOWN":
            return f" controlType: {control_type_name(number)}({number})".encode()
        return b" " + self._control(number, value)


def _timestamp_type(block: BatchBlock, row: int) -> str:
    if block.magic[row] == 0:
        return "NoTimestampType"
    return "LogAppendTime" if block.attributes[row] & LOG_APPEND_TIME else "CreateTime"


def _batch_fields(block: BatchBlock, row: int) -> str:
    attributes = block.attributes[row]
    base_sequence = block.base_sequence[row]
    sequence = last_sequence(base_sequence, wrap32(block.last_offset[row] - block.base_offset[row]))
    horizon = f"[{block.base_timestamp[row]}]" if attributes & DELETE_HORIZON else ".empty"
    return (
        f"baseOffset: {block.base_offset[row]} lastOffset: {block.last_offset[row]} count: {block.count[row]}"
        f" baseSequence: {base_sequence} lastSequence: {sequence}"
        f" producerId: {block.producer_id[row]} producerEpoch: {block.producer_epoch[row]}"
        f" partitionLeaderEpoch: {block.leader_epoch[row]}"
        f" isTransactional: {'true' if attributes & TRANSACTIONAL else 'false'}"
        f" isControl: {'true' if attributes & CONTROL else 'false'} deleteHorizonMs: OptionalLong{horizon}"
    )

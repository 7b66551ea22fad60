"""`kdump dump --format jsonl`: one JSON object a line. docs/dump-format.md has the schema."""

from __future__ import annotations

from binascii import b2a_base64
from collections.abc import Iterable, Sequence
from json.encoder import encode_basestring as quote
from json.encoder import encode_basestring_ascii as quote_ascii

from kdump.records import Batch, header_pairs
from kdump.sweep import Selected

from .dump_formats import Origin, Table, Value, Write


class JsonLines:
    """Prints objects. What it writes has to go through `output.escape_json` before it leaves."""

    def __init__(self, write: Write) -> None:
        self._write = write
        self._place = ""

    def begin(self, origin: Origin, size: int) -> None:
        """Objects are of this log from now on."""
        self._place = (
            f'"topic":{json_text(origin.topic)},"partition":{json_text(origin.partition)}'
            f',"segment":{json_text(origin.number)}'
        )

    def batch(self, batch: Batch) -> None:
        """The batch's object."""
        b = batch
        is_whole = not b.is_wrapper
        horizon = b.delete_horizon
        self._write(
            f'{{"type":"batch",{self._place},"position":{b.position},"size":{b.size}'
            f',"baseOffset":{b.base_offset if is_whole else "null"},"lastOffset":{b.last_offset},"magic":{b.magic}'
            f',"codec":"{b.codec}","crc":{b.crc},"isValid":{json_text(b.valid)},"timestampType":"{b.timestamp_type}"'
            f',"baseTimestamp":{b.base_timestamp},"maxTimestamp":{b.max_timestamp}'
            f',"deleteHorizonMs":{"null" if horizon is None else horizon},"producerId":{b.producer_id}'
            f',"producerEpoch":{b.producer_epoch},"baseSequence":{b.base_sequence},"lastSequence":{b.last_sequence}'
            f',"count":{b.record_count if is_whole else "null"},"partitionLeaderEpoch":{b.leader_epoch}'
            f',"isTransactional":{json_text(b.is_transactional)},"isControl":{json_text(b.is_control)}}}\n'
        )

    def records(self, batch: Batch, selected: Selected) -> None:
        """An object for each record."""
        head = f'{{"type":"record",{self._place},"offset":'
        kind = f',"timestampType":"{batch.timestamp_type}","key":'
        producer = f',"producerId":{batch.producer_id},"producerEpoch":{batch.producer_epoch},"sequence":'
        tail = (
            f',"isTransactional":{json_text(batch.is_transactional)},"isControl":{json_text(batch.is_control)}'
            f',"leaderEpoch":{batch.leader_epoch},"position":{batch.position}}}\n'
        )
        source = selected.source
        lines = []
        for offset, timestamp, sequence, key_at, key_size, value_at, value_size, headers_at, count in selected.spans():
            if key_size < 0:
                key = "null"
            else:
                data = source[key_at : key_at + key_size]
                try:
                    key = quote(data.decode())
                except UnicodeDecodeError:
                    key = f'null,"keyBase64":"{base64(data)}"'
            if value_size < 0:
                value = "null"
            else:
                data = source[value_at : value_at + value_size]
                try:
                    value = quote(data.decode())
                except UnicodeDecodeError:
                    value = f'null,"valueBase64":"{base64(data)}"'
            headers = headers_json(header_pairs(source, headers_at, count)) if count else "[]"
            lines.append(
                f'{head}{offset},"timestamp":{timestamp}{kind}{key},"value":{value},"headers":{headers}'
                f"{producer}{sequence}{tail}"
            )
        self._write("".join(lines))

    def table(self, table: Table, origin: Origin, rows: Iterable[Sequence[Value]]) -> None:
        """An object for each row."""
        names = table.all_columns()
        before = table.origin_values(origin)
        head = f'{{"type":"{table.type}"' + "".join(
            f',"{name}":{json_text(value)}' for name, value in zip(names, before, strict=False)
        )
        template = "".join(f',"{name}":%s' for name in table.columns)
        for row in rows:
            self._write(f"{head}{template % tuple(map(json_text, row))}}}\n")


def json_text(value: Value) -> str:
    """A value as JSON, pure ASCII."""
    if value is None:
        return "null"
    if value is True:
        return "true"
    if value is False:
        return "false"
    return str(value) if isinstance(value, int) else quote_ascii(value)


def headers_json(pairs: Iterable[tuple[bytes, bytes | None]]) -> str:
    """The headers of a record as a JSON list of objects."""
    objects = [f"{{{_text('key', key)},{_text('value', value)}}}" for key, value in pairs]
    return f"[{','.join(objects)}]"


def base64(data: bytes | bytearray) -> str:
    """Bytes in base64, with padding."""
    return b2a_base64(data, newline=False).decode()


def _text(name: str, data: bytes | None) -> str:
    """`"name": text`, with the twin in base64 where the bytes are not UTF-8."""
    if data is None:
        return f'"{name}":null'
    try:
        return f'"{name}":{quote(data.decode())}'
    except UnicodeDecodeError:
        return f'"{name}":null,"{name}Base64":"{base64(data)}"'

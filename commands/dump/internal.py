"""Records in `kdump dump` that are decoded, each format's way: of internal topics, and by the schemas at hand."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from kdump.formats import names
from kdump.formats.printable import safe
from kdump.formats.schemas.decoding import Decoder, Json, decode_control, decoder_of
from kdump.interchange.rows import Contents, Format, Origin, Payload, Table, Value
from kdump.query.sweep import Selected
from kdump.storage.records import Batch, header_pairs
from kdump.storage.txn_state import TxnState

from ..shell.times import iso_time

if TYPE_CHECKING:
    from kdump.schemas.decoder import PayloadDecoder, TopicDecoder

Report = Callable[[str, Batch, str, bool], object]
"""Told the path of the log, the batch, what of it cannot be decoded, and whether that is only newer than kdump."""

_PLAIN = r"[^\s\"'=,{}\[\]]+"
_TIME = r"(?:Timestamp|TimestampMs)$|^timestamp$"


class DecodingFormat:
    """A format that decodes the records of internal topics, and those of others by their schemas if there are some."""

    def __init__(self, printer: Format, report: Report, payloads: PayloadDecoder | None = None) -> None:
        self._payloads = payloads
        self._topic: TopicDecoder | None = None
        self._printer = printer
        self._report = report
        self._decoder: Decoder | None = None
        self._path = ""

    def begin(self, origin: Origin, size: int) -> None:
        """Begin with the decoder of the log's topic; a snapshot of KRaft's may lie anywhere."""
        kind = names.parse_file_name(os.path.basename(origin.path)).kind
        is_snapshot = kind in (names.KRAFT_SNAPSHOT, names.BOOTSTRAP_CHECKPOINT)
        topic = names.CLUSTER_METADATA_TOPIC if is_snapshot else origin.topic
        self._decoder = decoder_of(topic) if topic else None
        self._topic = self._payloads.of_topic(topic) if self._payloads and not self._decoder else None
        self._path = origin.path
        self._printer.begin(origin, size)

    def batch(self, batch: Batch, transaction: TxnState) -> None:
        """Print a batch, which is not decoded."""
        self._printer.batch(batch, transaction)

    def records(
        self, batch: Batch, transaction: TxnState, selected: Selected, contents: Sequence[Contents] | None = None
    ) -> None:
        """Print records with their contents decoded; what cannot be is printed as it is, and reported after them."""
        if self._topic is not None and not batch.is_control:
            self._by_schema(self._topic, batch, transaction, selected)
            return
        if self._decoder is None:
            self._printer.records(batch, transaction, selected, contents)
            return
        decode = decode_control if batch.is_control else self._decoder
        source = selected.source
        decoded: list[Contents] = []
        errors: list[tuple[str, bool]] = []
        for offset, _, _, key_at, key_size, value_at, value_size, *_ in selected.spans():
            key = bytes(source[key_at : key_at + key_size]) if key_size >= 0 else None
            value = bytes(source[value_at : value_at + value_size]) if value_size >= 0 else None
            found = decode(key, value)
            decoded.append((found.key or key, found.value or value))
            errors += ((f"offset {offset}: {error}", False) for error in found.errors)
            errors += ((f"offset {offset}: {error}", True) for error in found.newer)
        self._printer.records(batch, transaction, selected, decoded)
        for error, is_newer in errors:
            self._report(self._path, batch, error, is_newer)

    def _by_schema(self, decode: TopicDecoder, batch: Batch, transaction: TxnState, selected: Selected) -> None:
        source = selected.source
        decoded: list[Contents] = []
        errors: list[str] = []
        for offset, _, _, key_at, key_size, value_at, value_size, headers_at, count in selected.spans():
            key = bytes(source[key_at : key_at + key_size]) if key_size >= 0 else None
            value = bytes(source[value_at : value_at + value_size]) if value_size >= 0 else None
            contents = decode(key, value, header_pairs(source, headers_at, count) if count else ())
            decoded.append(contents)
            errors += (
                f"offset {offset}: {name}: {content.error}"
                for name, content in zip(("key", "value"), contents, strict=True)
                if isinstance(content, Payload) and content.error is not None
            )
        self._printer.records(batch, transaction, selected, decoded)
        for error in errors:
            self._report(self._path, batch, error, False)

    def table(self, table: Table, origin: Origin, rows: Iterable[Sequence[Value]]) -> None:
        """Pass on a table: it is no log."""
        self._printer.table(table, origin, rows)


def text_line(decoded: Json, *, named: bool = False) -> str:
    """Return decoded contents for people: the record's name, unless it is `named` already, version and fields."""
    version = decoded.get("version")
    parts = [] if named else [decoded["name"]]
    if version is not None:
        parts.append(f"v{version}")
    if decoded.get("newer"):
        parts.append("(newer than this kdump)")
    data = decoded["data"]
    if data.get("version") == version:
        data = {name: value for name, value in data.items() if name != "version"}
    if data:
        parts.append(_fields(data))
    return " ".join(parts)


def _fields(data: Json) -> str:
    return " ".join(f"{name}={_field(name, value)}" for name, value in data.items())


def _field(name: str, value: Any) -> str:
    if isinstance(value, dict):
        return f"{{{_fields(value)}}}"
    if isinstance(value, list):
        return f"[{', '.join(_field(name, element) for element in value)}]"
    if isinstance(value, str):
        return _word(value)
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, int) and value >= 0 and re.search(_TIME, name):
        return iso_time(value)
    states = _states(name)
    return f"{value} ({states[value]})" if value in states else str(value)


def _word(text: str) -> str:
    """Return a text as it is where nothing else could be meant by it, else in quotes."""
    if text != "null" and re.fullmatch(_PLAIN, text) and text.isprintable():
        return text
    return '"' + safe(text.replace('"', '\\"')) + '"'


def _states(name: str) -> dict[int, str]:
    """Return the names of a field's numbers, where they have any."""
    if name == "transactionStatus":
        from kdump.formats.schemas.transaction_state import STATES

        return dict(enumerate(STATES))
    if name == "deliveryState":
        from kdump.formats.schemas.share_group_state import DELIVERY_STATES

        return DELIVERY_STATES
    if name in ("remoteLogSegmentState", "remotePartitionDeleteState"):
        from kdump.formats.schemas import remote_log_metadata as remote

        is_segment = name == "remoteLogSegmentState"
        return dict(enumerate(remote.SEGMENT_STATES if is_segment else remote.PARTITION_DELETE_STATES))
    return {}

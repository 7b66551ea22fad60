"""Rows of records that are decoded, each format's way: of internal topics, and by the schemas at hand."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from kdump.formats import names
from kdump.formats.schemas.decoding import Decoder, decode_control, decoder_of
from kdump.interchange.rows import Contents, Format, Origin, Payload, Table, Value
from kdump.query.sweep import Selected
from kdump.storage.records import Batch, header_pairs
from kdump.storage.txn_state import TxnState

if TYPE_CHECKING:
    from kdump.schemas.decoder import PayloadDecoder, TopicDecoder

Report = Callable[[str, Batch, str, bool], object]
"""Told the path of the log, the batch, what of it cannot be decoded, and whether that is only newer than kdump."""


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

"""The contents of records that are dumped, decoded: of internal topics, and by the schemas at hand."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from kdump.formats import names
from kdump.formats.schemas.decoding import Decoder, decode_control, decoder_of
from kdump.interchange.rows import Contents, Origin, Payload
from kdump.query.sweep import Selected
from kdump.storage.records import Batch, header_pairs

if TYPE_CHECKING:
    from kdump.schema_registry.decoder import PayloadDecoder, TopicDecoder

Undecoded = list[tuple[str, bool]]
"""What of records cannot be decoded, and whether that is only newer than kdump."""


class RowDecoder:
    """Decodes the records of internal topics, and those of others by their schemas if there are some."""

    def __init__(self, payloads: PayloadDecoder | None = None) -> None:
        self._payloads = payloads
        self._topic: TopicDecoder | None = None
        self._decoder: Decoder | None = None

    def begin(self, origin: Origin) -> None:
        """Begin with the decoder of a log's topic; a snapshot of KRaft's may lie anywhere."""
        kind = names.parse_file_name(os.path.basename(origin.path)).kind
        is_snapshot = kind in names.METADATA_SNAPSHOT_KINDS
        topic = names.CLUSTER_METADATA_TOPIC if is_snapshot else origin.topic
        self._decoder = decoder_of(topic) if topic else None
        self._topic = self._payloads.of_topic(topic) if self._payloads and not self._decoder else None

    @property
    def decodes(self) -> bool:
        """Whether anything of the log's records is decoded."""
        return self._decoder is not None or self._topic is not None

    def decode(self, batch: Batch, selected: Selected) -> tuple[list[Contents] | None, Undecoded]:
        """Return what records hold, what cannot be decoded as it is, and why; None where nothing of it is decoded."""
        if self._topic is not None:
            return (None, []) if batch.is_control else _by_schema(self._topic, selected)
        assert self._decoder is not None
        decode = decode_control if batch.is_control else self._decoder
        source = selected.source
        decoded: list[Contents] = []
        errors: Undecoded = []
        for offset, _, _, key_at, key_size, value_at, value_size, *_ in selected.spans():
            key = bytes(source[key_at : key_at + key_size]) if key_size >= 0 else None
            value = bytes(source[value_at : value_at + value_size]) if value_size >= 0 else None
            found = decode(key, value)
            decoded.append((found.key or key, found.value or value))
            errors += ((f"offset {offset}: {error}", False) for error in found.errors)
            errors += ((f"offset {offset}: {error}", True) for error in found.newer)
        return decoded, errors


def _by_schema(decode: TopicDecoder, selected: Selected) -> tuple[list[Contents], Undecoded]:
    source = selected.source
    decoded: list[Contents] = []
    errors: Undecoded = []
    for offset, _, _, key_at, key_size, value_at, value_size, headers_at, count in selected.spans():
        key = bytes(source[key_at : key_at + key_size]) if key_size >= 0 else None
        value = bytes(source[value_at : value_at + value_size]) if value_size >= 0 else None
        contents = decode(key, value, header_pairs(source, headers_at, count) if count else ())
        decoded.append(contents)
        errors += (
            (f"offset {offset}: {name}: {content.error}", False)
            for name, content in zip(("key", "value"), contents, strict=True)
            if isinstance(content, Payload) and content.error is not None
        )
    return decoded, errors

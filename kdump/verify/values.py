"""Records of internal topics: whether keys and values are of a form that Kafka's releases write."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING

from kdump.blocks import RecordBlock, content_at
from kdump.errors import KdumpError, NewerError
from kdump.formats.schemas.decoding import tables_of

if TYPE_CHECKING:
    from kdump.formats.schemas.framing import CoordinatorTopic, MetadataTopic

Bytes = bytes | bytearray
Decode = Callable[[bytes | None, bytes | None], None]


def faults(decode: Decode, records: RecordBlock, source: Bytes, start: int, stop: int) -> Iterator[tuple[int, str]]:
    """Yield the records among `start` to `stop` - 1 that cannot be decoded, and why; newer than kdump is sound."""
    for at in range(start, stop):
        key = content_at(source, records.key_position[at], records.key_length[at])
        value = content_at(source, records.value_position[at], records.value_length[at])
        try:
            decode(key, value)
        except NewerError:
            continue
        except KdumpError as error:
            yield at, str(error)


def decode_of(topic: str) -> Decode | None:
    """Return what decodes a record of a topic; None where Kafka leaves their form to clients."""
    tables = tables_of(topic)
    if tables is None:
        return None
    from kdump.formats.schemas.framing import MetadataTopic

    if isinstance(tables, MetadataTopic):
        return partial(_metadata, tables)
    return partial(_coordinator, tables)


def _coordinator(topic: CoordinatorTopic, key: bytes | None, value: bytes | None) -> None:
    if key is None:
        raise KdumpError("it has no key")
    found = topic.decode_key(key)
    if value is not None:
        topic.decode_value(found.type, value)


def _metadata(topic: MetadataTopic, _: bytes | None, value: bytes | None) -> None:
    if value is None:
        raise KdumpError("it has no value")
    topic.decode_value(value)

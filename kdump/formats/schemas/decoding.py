"""The records of any internal topic as values that JSON can hold; the topic's name picks its tables."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from kdump.errors import KdumpError, NewerError
from kdump.formats import names
from kdump.formats.batch import ABORT, COMMIT, control_type_name

if TYPE_CHECKING:
    from kdump.formats.schemas.framing import CoordinatorTopic, Decoded, MetadataTopic

_MODULES = {
    names.CONSUMER_OFFSETS_TOPIC: "consumer_offsets",
    names.TRANSACTION_STATE_TOPIC: "transaction_state",
    names.SHARE_GROUP_STATE_TOPIC: "share_group_state",
    names.CLUSTER_METADATA_TOPIC: "cluster_metadata",
    names.REMOTE_LOG_METADATA_TOPIC: "remote_log_metadata",
}

KEYS_KEPT = 1 << 14

Json = dict[str, Any]


class DecodedRecord(NamedTuple):
    """What a record says: `key` and `value`, None where they are null or cannot be decoded.

    Each has `type` and `name` of the record, `data` with the fields as Kafka's own JSON has them, and a value its
    `version`; `newer` is true of a version that is newer than all that are known, of which the known fields are there.
    `errors` say what cannot be decoded, and why; `newer` what only a newer kdump could decode.
    """

    key: Json | None
    value: Json | None
    errors: tuple[str, ...] = ()
    newer: tuple[str, ...] = ()


Decoder = Callable[[bytes | None, bytes | None], DecodedRecord]
"""From key and value of a record to what they say."""


def tables_of(topic: str) -> CoordinatorTopic | MetadataTopic | None:
    """Return the tables of a topic's records; None for a topic that is not one of Kafka's own."""
    module = _MODULES.get(topic)
    tables = None if module is None else import_module(f"{__package__}.{module}").TOPIC
    return cast("CoordinatorTopic | MetadataTopic | None", tables)


def decoder_of(topic: str) -> Decoder | None:
    """Return the decoder of a topic's records, control records apart; None for a topic that is not Kafka's own."""
    tables = tables_of(topic)
    if tables is None:
        return None
    from kdump.formats.schemas.framing import MetadataTopic

    if isinstance(tables, MetadataTopic):
        return lambda key, value: _metadata(tables, key, value)
    read_key = lru_cache(KEYS_KEPT)(partial(_key, tables))  # a log repeats its keys
    return lambda key, value: _coordinator(tables, read_key, key, value)


def decode_control(key: bytes | None, value: bytes | None) -> DecodedRecord:
    """Return what a control record says: the end of a transaction, or a record of KRaft's quorum."""
    from kdump.formats.control import control_type_of, decode_marker, decode_value

    try:
        number = control_type_of(key)
    except KdumpError as error:
        return DecodedRecord(None, None, (f"key: {error}",))
    name = control_type_name(number)
    shown = {"type": number, "name": name, "data": {}}
    try:
        if number in (ABORT, COMMIT):
            marker = decode_marker(number, value)
            data = {"version": marker.version, "coordinatorEpoch": marker.coordinator_epoch}
            return DecodedRecord(shown, {"type": number, "name": name, "version": marker.version, "data": data})
        if value is None:
            return DecodedRecord(shown, None, ("the control record has no value",))
        return DecodedRecord(shown, _json(decode_value(number, value)) | {"name": name})
    except KdumpError as error:
        return DecodedRecord(shown, None, (f"value: {error}",))


def _key(topic: CoordinatorTopic, key: bytes) -> Json:
    shown = _json(topic.decode_key(key))
    del shown["version"]
    return shown


def _coordinator(
    topic: CoordinatorTopic, read_key: Callable[[bytes], Json], key: bytes | None, value: bytes | None
) -> DecodedRecord:
    if key is None:
        return DecodedRecord(None, None, ("the record has no key",))
    try:
        shown = read_key(key)
    except KdumpError as error:
        return _undecoded(None, "key", error)
    if value is None:
        return DecodedRecord(shown, None)
    try:
        return DecodedRecord(shown, _json(topic.decode_value(shown["type"], value)))
    except KdumpError as error:
        return _undecoded(shown, "value", error)


def _undecoded(key: Json | None, part: str, error: KdumpError) -> DecodedRecord:
    said = (f"{part}: {error}",)
    return DecodedRecord(key, None, newer=said) if isinstance(error, NewerError) else DecodedRecord(key, None, said)


def _metadata(topic: MetadataTopic, key: bytes | None, value: bytes | None) -> DecodedRecord:
    errors = () if key is None else ("key: there is one, and records of this topic have none",)
    if value is None:
        return DecodedRecord(None, None, (*errors, "the record has no value"))
    try:
        return DecodedRecord(None, _json(topic.decode_value(value)), errors)
    except NewerError as error:
        return DecodedRecord(None, None, errors, (f"value: {error}",))
    except KdumpError as error:
        return DecodedRecord(None, None, (*errors, f"value: {error}"))


def _json(decoded: Decoded) -> Json:
    data = decoded.json()
    if decoded.schema.name == "GroupMetadataValue":
        from kdump.formats.schemas.consumer_offsets import open_consumer_protocol

        open_consumer_protocol(data)
    shown = {"type": decoded.type, "name": decoded.name, "version": decoded.version, "data": data}
    return shown | {"newer": True} if decoded.is_newer else shown

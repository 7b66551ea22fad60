"""Records of internal topics: whether keys and values are of a form that Kafka's releases write."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from kdump.blocks import RecordBlock
from kdump.errors import KdumpError, NewerError
from kdump.formats import names

Bytes = bytes | bytearray
Decode = Callable[[bytes | None, bytes | None], None]


class ValueCheck:
    """Decodes the records of one internal topic."""

    def __init__(self, decode: Decode) -> None:
        self._decode = decode

    def faults(self, records: RecordBlock, source: Bytes, start: int, stop: int) -> Iterator[tuple[int, str]]:
        """The records among `start` to `stop` - 1 that cannot be decoded, and why; newer ones than kdump are sound."""
        for at in range(start, stop):
            key = _part(source, records.key_position[at], records.key_length[at])
            value = _part(source, records.value_position[at], records.value_length[at])
            try:
                self._decode(key, value)
            except NewerError:
                continue
            except KdumpError as error:
                yield at, str(error)


def value_check(topic: str) -> ValueCheck | None:
    """The check for a topic's records; None where Kafka leaves their form to clients."""
    if topic == names.CLUSTER_METADATA_TOPIC:
        from kdump.formats.schemas.cluster_metadata import TOPIC as CLUSTER_METADATA

        return ValueCheck(_metadata(CLUSTER_METADATA.decode_value))
    if topic == names.REMOTE_LOG_METADATA_TOPIC:
        from kdump.formats.schemas.remote_log_metadata import TOPIC as REMOTE_LOG_METADATA

        return ValueCheck(_metadata(REMOTE_LOG_METADATA.decode_value))
    if topic not in names.INTERNAL_TOPICS:
        return None
    from kdump.formats.schemas.framing import CoordinatorTopic

    coordinator: CoordinatorTopic
    if topic == names.CONSUMER_OFFSETS_TOPIC:
        from kdump.formats.schemas.consumer_offsets import TOPIC as coordinator
    elif topic == names.TRANSACTION_STATE_TOPIC:
        from kdump.formats.schemas.transaction_state import TOPIC as coordinator
    else:
        from kdump.formats.schemas.share_group_state import TOPIC as coordinator

    def decode(key: bytes | None, value: bytes | None) -> None:
        if key is None:
            raise KdumpError("it has no key")
        found = coordinator.decode_key(key)
        if value is not None:
            coordinator.decode_value(found.type, value)

    return ValueCheck(decode)


def _metadata(decode_value: Callable[[bytes], object]) -> Decode:
    def decode(_: bytes | None, value: bytes | None) -> None:
        if value is None:
            raise KdumpError("it has no value")
        decode_value(value)

    return decode


def _part(source: Bytes, position: int, length: int) -> bytes | None:
    return bytes(source[position : position + length]) if length >= 0 else None

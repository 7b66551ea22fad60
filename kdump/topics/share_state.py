"""Where share groups are in the partitions that they read, out of __share_group_state."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from kdump.errors import Report
from kdump.formats.schemas.share_group_state import SHARE_SNAPSHOT, decode_key, decode_value
from kdump.query.contents import replay
from kdump.storage.replica import Replica

UNINITIALIZED = -1
"""A start offset that the share coordinator has not been told yet, or an update that leaves it as it is."""


@dataclass(slots=True)
class ShareStart:
    """A share partition: the first offset that is not acknowledged or archived (-1: none is set), and its epochs.

    `delivery_complete_count` is how many records after it are done with, -1 before Kafka 4.2.
    """

    group: str
    topic_id: bytes
    partition: int
    start_offset: int
    state_epoch: int
    leader_epoch: int
    delivery_complete_count: int = -1


def share_starts(replica: Replica, report: Report) -> Iterator[ShareStart]:
    """Yield the share partitions in a partition of __share_group_state; what cannot be decoded is skipped.

    A snapshot says everything, an update what has changed since (Kafka: ShareCoordinatorShard.replay).
    """
    found: dict[tuple[str, bytes, int], ShareStart] = {}
    replay(replica, partial(_take, found), report)
    yield from (found[key] for key in sorted(found))


def _take(found: dict[tuple[str, bytes, int], ShareStart], key: bytes, value: bytes | None) -> None:
    decoded = decode_key(key)
    names = decoded.fields
    share_partition = (names["groupId"], names["topicId"], names["partition"])
    if value is None:
        if decoded.type == SHARE_SNAPSHOT:
            found.pop(share_partition, None)
        return
    fields = decode_value(decoded.type, value).fields
    before = found.get(share_partition)
    if decoded.type == SHARE_SNAPSHOT:
        found[share_partition] = ShareStart(
            *share_partition,
            fields["startOffset"],
            fields["stateEpoch"],
            fields["leaderEpoch"],
            fields.get("deliveryCompleteCount", -1),
        )
    elif before is not None:
        if fields["startOffset"] != UNINITIALIZED:
            before.start_offset = fields["startOffset"]
        if fields["leaderEpoch"] != UNINITIALIZED:
            before.leader_epoch = fields["leaderEpoch"]
        before.delivery_complete_count = fields.get("deliveryCompleteCount", -1)

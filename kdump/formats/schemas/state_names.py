"""The names of the numbers that fields of internal topics have as states."""

from __future__ import annotations


def state_names(name: str) -> dict[int, str]:
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

"""Which function answers which request, and where it runs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from kdump.serve import configs, group_requests, log_dirs, metadata, offsets, producers, refusals
from kdump.serve.context import Context, Fields
from kdump.serve.protocol.apis import ApiKey
from kdump.serve.protocol.frames import Request

FROM_MEMORY: dict[ApiKey, Callable[[Context, Request], Fields]] = {
    ApiKey.DESCRIBE_CLUSTER: metadata.describe_cluster,
    ApiKey.DESCRIBE_CONFIGS: configs.describe_configs,
    ApiKey.LIST_CONFIG_RESOURCES: configs.list_config_resources,
    ApiKey.PRODUCE: refusals.produce,
    ApiKey.INIT_PRODUCER_ID: refusals.init_producer_id,
    ApiKey.DELETE_GROUPS: refusals.delete_groups,
    ApiKey.DESCRIBE_ACLS: refusals.describe_acls,
    ApiKey.CONSUMER_GROUP_HEARTBEAT: refusals.consumer_group_heartbeat,
}
"""Answered at once."""

FROM_DISK: dict[ApiKey, Callable[[Context, Request], Fields]] = {
    ApiKey.METADATA: metadata.metadata,
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: metadata.describe_topic_partitions,
    ApiKey.LIST_OFFSETS: offsets.list_offsets,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: offsets.offset_for_leader_epoch,
    ApiKey.FIND_COORDINATOR: group_requests.find_coordinator,
    ApiKey.DESCRIBE_LOG_DIRS: log_dirs.describe_log_dirs,
    ApiKey.DESCRIBE_PRODUCERS: producers.describe_producers,
    ApiKey.DESCRIBE_TRANSACTIONS: producers.describe_transactions,
    ApiKey.LIST_TRANSACTIONS: producers.list_transactions,
}
"""Answered by a thread, for files are read."""

FROM_GROUPS: dict[ApiKey, Callable[[Context, Request], Awaitable[Fields]]] = {
    ApiKey.JOIN_GROUP: group_requests.join_group,
    ApiKey.SYNC_GROUP: group_requests.sync_group,
    ApiKey.HEARTBEAT: group_requests.heartbeat,
    ApiKey.LEAVE_GROUP: group_requests.leave_group,
    ApiKey.OFFSET_COMMIT: group_requests.offset_commit,
    ApiKey.OFFSET_FETCH: group_requests.offset_fetch,
    ApiKey.LIST_GROUPS: group_requests.list_groups,
    ApiKey.DESCRIBE_GROUPS: group_requests.describe_groups,
}
"""Answered in the event loop, once the groups of the log directories are known."""

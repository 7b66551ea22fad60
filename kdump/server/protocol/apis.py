"""Which requests the server answers: their keys, names, versions and layouts (KIP-896, ApiKeys of Kafka 4.3)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from kdump.formats.schemas.description import Schema
from kdump.server.protocol import cluster, data, groups, transactions


class ApiKey(IntEnum):
    """The number that a request begins with."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    JOIN_GROUP = 11
    HEARTBEAT = 12
    LEAVE_GROUP = 13
    SYNC_GROUP = 14
    DESCRIBE_GROUPS = 15
    LIST_GROUPS = 16
    SASL_HANDSHAKE = 17
    API_VERSIONS = 18
    INIT_PRODUCER_ID = 22
    OFFSET_FOR_LEADER_EPOCH = 23
    DESCRIBE_ACLS = 29
    DESCRIBE_CONFIGS = 32
    DESCRIBE_LOG_DIRS = 35
    SASL_AUTHENTICATE = 36
    DELETE_GROUPS = 42
    DESCRIBE_CLUSTER = 60
    DESCRIBE_PRODUCERS = 61
    DESCRIBE_TRANSACTIONS = 65
    LIST_TRANSACTIONS = 66
    CONSUMER_GROUP_HEARTBEAT = 68
    LIST_CONFIG_RESOURCES = 74
    DESCRIBE_TOPIC_PARTITIONS = 75


@dataclass(frozen=True, slots=True)
class Api:
    """A kind of request: versions `first` to `last` are answered, and are what both schemas have."""

    key: ApiKey
    request: Schema
    response: Schema

    @property
    def name(self) -> str:
        """Kafka's name of it, such as ListOffsets."""
        return self.request.name.removesuffix("Request")

    @property
    def first(self) -> int:
        """The lowest version that is answered."""
        return self.request.first

    @property
    def last(self) -> int:
        """The highest version that is answered."""
        return self.request.last

    def is_flexible(self, version: int) -> bool:
        """Return whether headers and bodies of a version have tagged sections."""
        return version >= self.request.flexible

    def has_response_tags(self, version: int) -> bool:
        """Return whether the response's header has a tagged section; that of ApiVersions never has (KIP-511)."""
        return self.key != ApiKey.API_VERSIONS and version >= self.response.flexible


def _api(key: ApiKey) -> Api:
    name = key.name.title().replace("_", "")
    return Api(key, _MESSAGES[f"{name}Request"], _MESSAGES[f"{name}Response"])


_MESSAGES = data.MESSAGES | cluster.MESSAGES | groups.MESSAGES | transactions.MESSAGES

APIS = {key: _api(key) for key in ApiKey}
"""All requests that are answered, by key."""

SASL_KEYS = frozenset({ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE})
"""Advertised only where clients must say who they are."""

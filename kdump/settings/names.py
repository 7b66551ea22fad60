"""Names of settings that kdump does not follow, and what there is to say of the names in a properties file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from kdump.formats.close_names import closest
from kdump.formats.words import listed
from kdump.settings.table import BY_NAME, Setting, names_of


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_NOT_FOLLOWED = _words("""
    file.delete.delay.ms flush.messages flush.ms log.cleaner.backoff.ms log.cleaner.enable
    log.cleaner.io.max.bytes.per.second log.dir.failure.timeout.ms log.flush.interval.messages log.flush.interval.ms
    log.flush.offset.checkpoint.interval.ms log.flush.scheduler.interval.ms
    log.flush.start.offset.checkpoint.interval.ms log.initial.task.delay.ms log.segment.delete.delay.ms
    producer.id.expiration.check.interval.ms
""")
"""Settings of logs that say when a running broker does something, not what is in its files."""

_GONE = {
    **dict.fromkeys(
        ("message.timestamp.difference.max.ms", "log.message.timestamp.difference.max.ms"),
        "Kafka 4.0 replaced it by message.timestamp.before.max.ms and message.timestamp.after.max.ms",
    ),
    **dict.fromkeys(
        ("message.downconversion.enable", "log.message.downconversion.enable"), "Kafka 4.0 does not have it any more"
    ),
}
"""Settings of logs that releases before 4.0 had."""

_OTHERS = _words("""
    advertised.listeners allow.everyone.if.no.acl.found cordoned.log.dirs default.replication.factor delete.topic.enable
    follower.replication.throttled.replicas leader.replication.throttled.replicas listeners log.dir log.dirs
    max.incremental.fetch.session.cache.slots max.request.partition.size.limit node.id offset.metadata.max.bytes
    process.roles request.timeout.ms remote.fetch.max.wait.ms remote.list.offsets.request.timeout.ms
    super.users
""")
_FAMILIES = tuple(
    _words("""
    add.partitions. alter. authorizer. auto. background. broker. client. config. connection. connections. control.
    controlled. controller. create. delegation. delete.records. early. eligible. fetch. follower.fetch. group. initial.
    inter. internal. kafka. leader.imbalance. listener. max.connection max.connections metadata. metric. metrics.
    min.insync. num. offsets. password. principal. producer.purgatory. queued. quota. remote.log. replica. replication.
    reserved. rlmm. rsm. sasl. security. server. share. socket. ssl. telemetry. transaction. transactional. unclean.
    unstable. zookeeper.
""")
)
"""What names of settings begin with that are about the network, the cluster, security and such (Kafka: KafkaConfig,
StandardAuthorizer).
"""


MAX_NAMED = 5
"""So many names that Kafka does not have, such as those of plugins, are in a note."""


def notes_on(properties: Mapping[str, str], counting: Iterable[Setting[Any]]) -> Iterator[str]:
    """Yield what there is to say of names in a properties file that do not count where only `counting` do.

    Unknown names are named with the nearest one that is known, and names of earlier releases with what replaced them.
    Settings of logs that do not count are named unless they say what is so without them; others are passed over.
    """
    used = names_of(counting)
    idle, strange = [], []
    for name, text in properties.items():
        if name in _GONE:
            yield f"{name} is not used: {_GONE[name]}"
        elif name in _NOT_FOLLOWED or (name in BY_NAME and name not in used and not _is_default(name, text)):
            idle.append(name)
        elif not is_known(name):
            close = closest(name, BY_NAME, 0.8)
            if close is None:
                strange.append(name)
            else:
                yield f"{name} is not a setting of Kafka: not used. Did you mean '{close}'?"
    if strange:
        yield f"not a setting of Kafka, not used: {listed(strange, MAX_NAMED)}"
    if idle:
        yield f"not used here: {', '.join(idle)}"


def is_known(name: str) -> bool:
    """Return whether Kafka has a setting of this name, or one of its family."""
    return (
        name in BY_NAME
        or name in _NOT_FOLLOWED
        or name in _GONE
        or name in _OTHERS
        or name.startswith(tuple(_FAMILIES))
    )


def _is_default(name: str, text: str) -> bool:
    named = BY_NAME[name]
    return bool(named.value(text) == named.setting.default)

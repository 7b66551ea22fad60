"""What the operator asks of a resurrection, and what stands in its way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from kdump.errors import check_number, check_several, check_truths, check_type, check_word
from kdump.formats.java_text import INT_MAX
from kdump.formats.uuids import parse_uuid
from kdump.releases import KafkaRelease

ALL_LOSSES = -1
"""Accept the loss of however many records."""
MAX_PORT = (1 << 16) - 1


def host_and_port(text: str) -> tuple[str, int] | None:
    """Return the parts of HOST:PORT, of an IPv6 address without its brackets; None for anything else."""
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal() or not 1 <= int(port) <= MAX_PORT:
        return None
    return host.strip("[]"), int(port)


class UnknownTopics(StrEnum):
    """What becomes of partitions whose topic the metadata does not know."""

    ADOPT = "adopt"
    LEAVE_OUT = "leave-out"


class MetadataFrom(StrEnum):
    """Where the metadata is taken from, if from no log directory."""

    NOWHERE = "none"


class ControllerAt(NamedTuple):
    """Where the one controller listens; `node` is None for the node that kdump chooses."""

    host: str = "localhost"
    port: int = 9093
    listener: str = "CONTROLLER"
    node: int | None = None

    @classmethod
    def parse(cls, text: str) -> ControllerAt:
        """Return the place of HOST:PORT or NODE@HOST:PORT. Raises ValueError."""
        node, at, address = text.rpartition("@")
        place = host_and_port(address)
        if place is None or (at and not node.isdecimal()):
            raise ValueError(f"{text!r}: expected HOST:PORT or NODE@HOST:PORT")
        return cls(*place, node=int(node) if at else None)

    def check(self) -> None:
        """Raise ValueError, TypeError for where nothing can listen."""
        check_type("controller: host", self.host, str)
        check_number("controller: port", self.port, 1, MAX_PORT)
        check_type("controller: listener", self.listener, str)
        check_number("controller: node", self.node, 0, INT_MAX, may_be_none=True)


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the new cluster shall be.

    `nodes` is their number, None for as many as there were; `map` gives new node ids to old ones (as text) and to paths
    of log directories. `cluster_id` None means a new one. `release` is that of the brokers that will run, None for the
    one that ran. `metadata` is the path of the log directory whose metadata is taken, or a MetadataFrom, None for the
    newest. `partitions` are the numbers of partitions of topics that depend on it. `is_dynamic` is None for the kind of
    quorum that the old cluster had. `accept_loss` is how many valid records may be lost, None: none was named.
    `properties` are the paths of server.properties of old nodes; others may lie beside the log directories.
    """

    nodes: int | None = None
    map: Mapping[str, int] = field(default_factory=dict)
    cluster_id: str | None = None
    release: KafkaRelease | None = None
    metadata: str | None = None
    controller: ControllerAt = field(default_factory=ControllerAt)
    is_dynamic: bool | None = None
    new_empty: bool = False
    unknown_topics: UnknownTopics | None = None
    partitions: Mapping[str, int] = field(default_factory=dict)
    holds_retention: bool = False
    has_remote_storage: bool = False
    accept_loss: int | None = None
    properties: tuple[str, ...] = ()

    def check(self) -> None:
        """Raise ValueError, TypeError for what makes no sense, KdumpError for a cluster id that is none of Kafka's."""
        check_number("nodes", self.nodes, 1, may_be_none=True)
        for name, minimum in (("map", 0), ("partitions", 1)):
            check_type(name, getattr(self, name), Mapping)
            for key, number in getattr(self, name).items():
                check_type(f"a name in {name}", key, str)
                check_number(f"{name} of {key}", number, minimum, INT_MAX)
        check_type("controller", self.controller, ControllerAt)
        self.controller.check()
        check_truths(
            new_empty=self.new_empty, holds_retention=self.holds_retention, has_remote_storage=self.has_remote_storage
        )
        check_type("is_dynamic", self.is_dynamic, bool, may_be_none=True)
        check_type("release", self.release, KafkaRelease, may_be_none=True)
        check_type("metadata", self.metadata, str, may_be_none=True)
        check_number("accept_loss", self.accept_loss, ALL_LOSSES, may_be_none=True)
        check_several("properties", self.properties, str)
        check_word("unknown_topics", self.unknown_topics, UnknownTopics, may_be_none=True)
        check_type("cluster_id", self.cluster_id, str, may_be_none=True)
        if self.cluster_id is not None:
            parse_uuid(self.cluster_id)


class Refusal(NamedTuple):
    """Why the plan is not applied, and the way out; `subject` is the partition, topic or path."""

    subject: str
    reason: str
    way_out: str


class NoteKind(StrEnum):
    """What a note of the plan is about, in the order in which notes are shown."""

    METADATA = "metadata"
    LOST = "lost"
    DAMAGED = "damaged"
    BEHIND = "behind"
    UNCOMMITTED = "uncommitted"
    EMPTY = "empty"
    LEFT_OUT = "leftOut"
    TRANSACTION = "transaction"
    RETENTION = "retention"
    SETTING = "setting"
    CHECKPOINT = "checkpoint"


class Note(NamedTuple):
    """What the operator should know of a partition, topic or path."""

    kind: NoteKind
    subject: str
    text: str

r"""The files that say whose data this is: partition.metadata, meta.properties, .kafka_cleanshutdown and quorum-state.

    partition.metadata     version: 0\ntopic_id: <uuid>           no line end after the second line
    .kafka_cleanshutdown   {"version":0,"brokerEpoch":<int64>}    empty before Kafka 3.7; its existence is what counts
    meta.properties        Java properties: version, cluster.id, directory.id and
                           version 0: broker.id    version 1: node.id, which it needs like cluster.id
    quorum-state           one line of JSON, in the partition directory of __cluster_metadata:
                           data_version 0: leaderId, leaderEpoch, votedId, clusterId, appliedOffset, currentVoters
                           data_version 1: leaderId, leaderEpoch, votedId, votedDirectoryId

Uuids are 16 bytes here and 22 characters of URL-safe base64 there.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

from kdump.errors import (
    ILLEGAL_ARGUMENT,
    ILLEGAL_STATE,
    IO_EXCEPTION,
    NULL_POINTER,
    RUNTIME,
    CheckpointError,
    KdumpError,
)
from kdump.formats.java_properties import parse_properties
from kdump.formats.java_text import INT_MAX, INT_MIN, LONG_MAX, LONG_MIN, WHITESPACE, parse_int, read_lines
from kdump.formats.uuids import ZERO_UUID, format_uuid, is_reserved_directory_id, parse_uuid

PARTITION_METADATA_VERSION = 0
CLEAN_SHUTDOWN_VERSION = 0

_SEPARATOR = f":[{WHITESPACE}]+"


class PartitionMetadata(NamedTuple):
    """The id (16 bytes) of the topic that the partition belongs to."""

    version: int
    topic_id: bytes


class MetaProperties(NamedTuple):
    """The node and the cluster that a log directory belongs to; `node_id` is version 0's broker.id."""

    version: int
    cluster_id: str | None
    node_id: int | None
    directory_id: bytes | None


class CleanShutdown(NamedTuple):
    """The epoch of the broker that shut down cleanly; None from a release that did not write it, -1 without KRaft."""

    broker_epoch: int | None


class QuorumState(NamedTuple):
    """The last election that a KRaft node took part in: -1 for no leader, no epoch, no vote.

    A field that the data version does not have is None.
    """

    data_version: int
    leader_id: int
    leader_epoch: int
    voted_id: int
    voted_directory_id: bytes | None = None
    cluster_id: str | None = None
    applied_offset: int | None = None
    current_voters: tuple[int, ...] | None = None


def parse_partition_metadata(data: bytes, path: str) -> PartitionMetadata:
    """Parse a partition.metadata. Raises CheckpointError with Kafka's texts, in which `path` names the file.

    Keys are not compared.
    """
    lines = _text_lines(data, path)
    line = _line(lines, path)
    version = parse_int(_value_of(line, path))
    if version is None:
        raise _malformed(line, path)
    if version < PARTITION_METADATA_VERSION:
        raise CheckpointError(f"Unrecognized version of partition metadata file ({path}): {version}")
    topic_id = _uuid(_value_of(_line(lines, path), path), path)
    if topic_id == ZERO_UUID:
        raise CheckpointError(f"Invalid topic ID in partition metadata file ({path})")
    return PartitionMetadata(version, topic_id)


def _line(lines: Iterator[str], path: str) -> str:
    """Return the next line, which Kafka splits without a look whether there is one."""
    line = next(lines, None)
    if line is None:
        text = 'Cannot invoke "java.lang.CharSequence.length()" because "this.text" is null'
        raise CheckpointError(str(_malformed("", path)), NULL_POINTER, text)
    return line


def format_partition_metadata(metadata: PartitionMetadata) -> bytes:
    """Return the bytes that Kafka would write."""
    return f"version: {metadata.version}\ntopic_id: {format_uuid(metadata.topic_id)}".encode()


def parse_clean_shutdown(data: bytes, path: str) -> CleanShutdown:
    """Parse a .kafka_cleanshutdown. Raises CheckpointError where a broker would not know the broker epoch by it.

    That the shutdown was clean, it would know all the same.
    """
    if not data:
        return CleanShutdown(None)
    content = _JsonObject.parse(_text(data, path), path)
    content.integer("version", INT_MIN, INT_MAX)
    return CleanShutdown(content.integer("brokerEpoch", LONG_MIN, LONG_MAX))


def format_clean_shutdown(shutdown: CleanShutdown) -> bytes:
    """Return the bytes that Kafka would write; none without a broker epoch."""
    if shutdown.broker_epoch is None:
        return b""
    return f'{{"version":{CLEAN_SHUTDOWN_VERSION},"brokerEpoch":{shutdown.broker_epoch}}}'.encode()


def parse_quorum_state(data: bytes, path: str) -> QuorumState:
    """Parse a quorum-state, of which only the first line counts. Raises CheckpointError."""
    line = next(_text_lines(data, path), None)
    if line is None:
        raise CheckpointError(f"File ended prematurely: {path} is empty")
    state = _JsonObject.parse(line, path)
    version = state.integer("data_version", INT_MIN, INT_MAX)
    if version not in (0, 1):
        text = f"data_version ({version}) is not within the min (0) and max (1) supported version"
        raise CheckpointError(f"{text}: {path}", ILLEGAL_STATE, text)
    leader_id = state.integer("leaderId", INT_MIN, INT_MAX)
    leader_epoch = state.integer("leaderEpoch", INT_MIN, INT_MAX)
    voted_id = state.integer("votedId", INT_MIN, INT_MAX)
    if version == 1:
        voted_directory_id = _uuid(state.text("votedDirectoryId"), path)
        return QuorumState(1, leader_id, leader_epoch, voted_id, voted_directory_id)
    return QuorumState(
        0,
        leader_id,
        leader_epoch,
        voted_id,
        cluster_id=state.text("clusterId"),
        applied_offset=state.integer("appliedOffset", LONG_MIN, LONG_MAX),
        current_voters=_voters(state),
    )


def parse_meta_properties(data: bytes, path: str) -> MetaProperties:
    """Parse a meta.properties. Raises CheckpointError with Kafka's texts where it has one, followed by `path`."""
    properties = parse_properties(data, path)
    version = _meta_version(properties.get("version", "0"), path)
    node_key = "node.id" if version else "broker.id"
    cluster_id = properties.get("cluster.id")
    node_id = _number(properties, node_key, path)
    if version and cluster_id is None:
        raise CheckpointError(f"cluster.id was not found. ({path})")
    if version and node_id is None:
        raise CheckpointError(f"node.id was not found. ({path})")
    return MetaProperties(version, cluster_id, node_id, _directory_id(properties, path))


def format_meta_properties(meta: MetaProperties, now: int) -> bytes:
    """Return the bytes that Kafka would write at a time (ms), as Java's properties: version 1, node, cluster."""
    weekday, month, day, clock, year = time.asctime(time.gmtime(now // 1000)).split()
    date = f"{weekday} {month} {day:0>2} {clock} UTC {year}"
    directory = [] if meta.directory_id is None else [f"directory.id={format_uuid(meta.directory_id)}"]
    lines = ["#", f"#{date}", f"node.id={meta.node_id}", *directory, "version=1", f"cluster.id={meta.cluster_id}"]
    return "".join(f"{line}\n" for line in lines).encode()


def _meta_version(text: str, path: str) -> int:
    version = parse_int(text)
    if version is None:
        raise CheckpointError(f"Invalid meta.properties version string '{text}' ({path})")
    if version not in (0, 1):
        raise CheckpointError(f"Unknown meta.properties version number {version} ({path})")
    return version


def _number(properties: dict[str, str], key: str, path: str) -> int | None:
    text = properties.get(key)
    if text is None:
        return None
    number = parse_int(text)
    if number is None:
        raise CheckpointError(f"Unable to read {key} as a base-10 number: '{text}' ({path})")
    return number


def _directory_id(properties: dict[str, str], path: str) -> bytes | None:
    text = properties.get("directory.id")
    if text is None:
        return None
    directory_id = _uuid(text, path)
    if is_reserved_directory_id(directory_id):
        raise CheckpointError(f"Invalid reserved directory ID {text} found in {path}", RUNTIME)
    return directory_id


def _text(data: bytes, path: str) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise CheckpointError(f"{path} is not UTF-8 text: {error.reason} at byte {error.start}") from None


def _text_lines(data: bytes, path: str) -> Iterator[str]:
    _text(data, path)
    return read_lines(data)


def _value_of(line: str, path: str) -> str:
    r"""Return the second of exactly two fields that `:\s+` separates."""
    fields = re.split(_SEPARATOR, line)
    while fields and not fields[-1]:  # as Java's split drops them
        fields.pop()
    if len(fields) != 2:
        raise _malformed(line, path)
    return fields[1]


def _malformed(line: str, path: str) -> CheckpointError:
    return CheckpointError(f"Malformed line in checkpoint file ({path}): '{line}'")


def _uuid(text: str, path: str) -> bytes:
    try:
        return parse_uuid(text)
    except KdumpError as error:
        raise CheckpointError(f"{error} ({path})", ILLEGAL_ARGUMENT, str(error)) from None


def _voters(state: _JsonObject) -> tuple[int, ...] | None:
    voters = state.required("currentVoters")
    if voters is None:
        return None
    if not isinstance(voters, list):
        raise CheckpointError(f"currentVoters is not a list in {state.path}")
    return tuple(_JsonObject.of(voter, state.path).integer("voterId", INT_MIN, INT_MAX) for voter in voters)


class _JsonObject(NamedTuple):
    """A JSON object of which every field that is asked for must be there with the type asked for."""

    fields: dict[str, Any]
    path: str

    @classmethod
    def parse(cls, text: str, path: str) -> _JsonObject:
        """Return the object that `text` begins with; Kafka's parser does not look at what follows it."""
        from json import JSONDecoder

        try:
            value, _ = JSONDecoder().raw_decode(text.lstrip())
        except (ValueError, RecursionError) as error:
            raise CheckpointError(f"{path} is not JSON: {error}") from None
        return cls.of(value, path)

    @classmethod
    def of(cls, value: object, path: str) -> _JsonObject:
        if not isinstance(value, dict):
            raise CheckpointError(f"What should be a JSON object is none in {path}")
        return cls(value, path)

    def integer(self, key: str, low: int, high: int) -> int:
        value = self.required(key)
        if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
            raise CheckpointError(f"{key} is not a {high.bit_length() + 1}-bit integer in {self.path}", RUNTIME)
        return value

    def text(self, key: str) -> str:
        value = self.required(key)
        if not isinstance(value, str):
            raise CheckpointError(f"{key} is not a string in {self.path}", RUNTIME)
        return value

    def required(self, key: str) -> Any:
        if key not in self.fields:
            exception = IO_EXCEPTION if key == "data_version" else RUNTIME
            raise CheckpointError(f"There is no {key} field in {self.path}", exception)
        return self.fields[key]

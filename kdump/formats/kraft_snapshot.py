"""Write KRaft's snapshots and bootstrap files: what `topics.metadata_log` reads (Kafka: RecordsSnapshotWriter).

    control batch    SNAPSHOT_HEADER; with kraft.version 1 and more also KRAFT_VERSION and KRAFT_VOTERS
    data batches     metadata records, framed as in schemas.framing.MetadataTopic
    control batch    SNAPSHOT_FOOTER

Offsets count from 0 whatever the file's name says. The leader epoch of all batches is that of the name; a
bootstrap.checkpoint has 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from kdump.formats.batch import CONTROL, CONTROL_KEY, KRAFT_VERSION, KRAFT_VOTERS, SNAPSHOT_FOOTER, SNAPSHOT_HEADER
from kdump.formats.control import encode_value
from kdump.formats.encode import NewBatch, NewRecord, encode_batch

MAX_RECORDS = 1024
MAX_BYTES = 1 << 20
"""What a data batch has at most; Kafka takes 8 MiB."""

Pair = tuple[bytes | None, bytes]


class Voter(NamedTuple):
    """A voter of a dynamic quorum: its node id, the id of its metadata log directory, and where it listens."""

    id: int
    directory_id: bytes
    listener: str
    host: str
    port: int

    def fields(self) -> dict[str, Any]:
        """Return the voter as VotersRecord has it."""
        return {
            "voterId": self.id,
            "voterDirectoryId": self.directory_id,
            "endpoints": [{"name": self.listener, "host": self.host, "port": self.port}],
            "kRaftVersionFeature": {"minSupportedVersion": 0, "maxSupportedVersion": 1},
        }


def control_pair(control_type: int, fields: dict[str, Any], version: int = 0) -> Pair:
    """Return key and value of one of KRaft's control records."""
    return CONTROL_KEY.pack(0, control_type), encode_value(control_type, version, fields)


def voters_pair(voters: Iterable[Voter]) -> Pair:
    """Return key and value of the control record that names all voters."""
    return control_pair(KRAFT_VOTERS, {"voters": [voter.fields() for voter in voters]})


def snapshot(
    values: Iterable[bytes], *, timestamp: int, epoch: int = 0, voters: Sequence[Voter] | None = None
) -> Iterator[bytes]:
    """Yield the batches of a snapshot of these metadata records, at a time in ms.

    `voters` make it one of a dynamic quorum (kraft.version 1), None one of a static quorum.
    """
    header = [control_pair(SNAPSHOT_HEADER, {"lastContainedLogTimestamp": timestamp})]
    if voters is not None:
        header.append(control_pair(KRAFT_VERSION, {"kRaftVersion": 1}))
        header.append(voters_pair(voters))
    offset = 0
    for is_control, pairs in _batches(header, values):
        yield kraft_batch(pairs, offset, epoch, timestamp, is_control=is_control)
        offset += len(pairs)


def kraft_batch(pairs: Sequence[Pair], offset: int, epoch: int, timestamp: int, *, is_control: bool) -> bytes:
    """Encode one batch as KRaft's log and its snapshots have it: no producer, all records of one time (ms)."""
    records = [NewRecord(offset + number, timestamp, key, value) for number, (key, value) in enumerate(pairs)]
    return encode_batch(records, NewBatch(CONTROL if is_control else 0, leader_epoch=epoch))


def _batches(header: list[Pair], values: Iterable[bytes]) -> Iterator[tuple[bool, list[Pair]]]:
    yield True, header
    pairs: list[Pair] = []
    size = 0
    for value in values:
        if pairs and (len(pairs) == MAX_RECORDS or size + len(value) > MAX_BYTES):
            yield False, pairs
            pairs, size = [], 0
        pairs.append((None, value))
        size += len(value)
    if pairs:
        yield False, pairs
    yield True, [control_pair(SNAPSHOT_FOOTER, {})]

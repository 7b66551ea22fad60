"""Snapshots of KRaft: byte for byte what Kafka writes, and read again as what was written."""

from __future__ import annotations

import base64
from pathlib import Path

from kdump.formats import batch, control
from kdump.formats.batch import CONTROL
from kdump.formats.kraft_snapshot import MAX_RECORDS, Voter, kraft_batch, snapshot
from kdump.formats.schemas.cluster_metadata import encode_value
from kdump.query.contents import contents_in, runs
from kdump.storage.segment import Segment
from kdump.topics.metadata_log import state_of_snapshot

# the bootstrap.checkpoint that kafka-storage of 4.3.1 wrote
FORMATTED = base64.b64decode(
    "AAAAAAAAAAAAAABHAAAAAALeO9+nACAAAAAAAAABogML1psAAAGiAwvWm///////////////////AAAAASoAAAAIAAAAAxYAAAAA"
    "AAAAAAAAAAAAAAAAAAAAAQAAAPEAAAAAArY3kQ0AAAAAAAUAAAGiAwvW0QAAAaIDC9bR//////////////////8AAAAGOgAAAAEu"
    "AQwAEW1ldGFkYXRhLnZlcnNpb24AHgAAWgAAAgFOAQwAIWVsaWdpYmxlLmxlYWRlci5yZXBsaWNhcy52ZXJzaW9uAAEAADQAAAQB"
    "KAEMAA5ncm91cC52ZXJzaW9uAAEAADQAAAYBKAEMAA5zaGFyZS52ZXJzaW9uAAEAADgAAAgBLAEMABBzdHJlYW1zLnZlcnNpb24A"
    "AQAAQAAACgE0AQwAFHRyYW5zYWN0aW9uLnZlcnNpb24AAgAAAAAAAAAAAAcAAAA/AAAAAAJT+ZgnACAAAAAAAAABogML1tIAAAGi"
    "AwvW0v//////////////////AAAAARoAAAAIAAAABAYAAAAA"
)


def read(path: Path) -> list[tuple[bool, int, int, bytes | None, bytes | None]]:
    """Whether it is a control record, its offset, epoch, key and value, of each record of a snapshot."""
    found = []
    for segment, run in runs([Segment(str(path))], lambda problem: None):
        for content in contents_in(segment, run, lambda problem: None):
            block, row = run.block, content.row
            is_control = bool(block.attributes[row] & CONTROL)
            found.append((is_control, content.offset, block.leader_epoch[row], content.key, content.value))
    return found


def test_batches_are_those_of_kafka(tmp_path: Path) -> None:
    path = tmp_path / "bootstrap.checkpoint"
    path.write_bytes(FORMATTED)
    written = b""
    for segment, run in runs([Segment(str(path))], lambda problem: None):
        block = run.block
        contents = list(contents_in(segment, run, lambda problem: None))
        for row in range(run.first, run.stop):
            inside = [content for content in contents if content.row == row]
            pairs = [(content.key, content.value or b"") for content in inside]
            is_control = bool(block.attributes[row] & CONTROL)
            epoch = block.leader_epoch[row]
            written += kraft_batch(pairs, inside[0].offset, epoch, inside[0].timestamp, is_control=is_control)
    assert written == FORMATTED


def test_a_written_snapshot_is_complete(tmp_path: Path) -> None:
    values = [
        encode_value(12, 0, {"name": "metadata.version", "featureLevel": 30}),
        *(encode_value(2, 0, {"name": f"t{n}", "topicId": n.to_bytes(16)}) for n in range(1, MAX_RECORDS + 5)),
    ]
    path = tmp_path / "00000000000000001000-0000000007.checkpoint"
    path.write_bytes(b"".join(snapshot(values, timestamp=1234, epoch=7)))
    problems: list[object] = []
    state = state_of_snapshot(str(path), problems.append)
    assert (state is not None, problems) == (True, [])
    assert state is not None
    assert (state.end_offset, state.epoch, state.timestamp, state.kraft_version) == (1000, 7, 1234, 0)
    assert (len(state.image.topics), state.image.features) == (MAX_RECORDS + 4, {"metadata.version": 30})
    records = read(path)
    assert [offset for _, offset, _, _, _ in records] == list(range(len(values) + 2))
    assert {epoch for _, _, epoch, _, _ in records} == {7}
    assert [is_control for is_control, *_ in records] == [True, *([False] * len(values)), True]


def test_a_dynamic_quorum_has_its_voters_in_the_header(tmp_path: Path) -> None:
    voter = Voter(3, bytes(range(16)), "CONTROLLER", "kafka-3.example.org", 9093)
    path = tmp_path / "00000000000000001000-0000000007.checkpoint"
    path.write_bytes(b"".join(snapshot([], timestamp=1, epoch=7, voters=[voter])))
    state = state_of_snapshot(str(path), lambda problem: None)
    assert state is not None
    assert (state.kraft_version, state.voters) == (1, [voter.fields()])
    types = [control.control_type_of(key) for _, _, _, key, _ in read(path)]
    assert types == [batch.SNAPSHOT_HEADER, batch.KRAFT_VERSION, batch.KRAFT_VOTERS, batch.SNAPSHOT_FOOTER]

"""Metadata records, snapshots and bootstrap files as kdump writes them: byte for byte those that Kafka wrote."""

from __future__ import annotations

from pathlib import Path

from kdump.formats.batch import CONTROL
from kdump.formats.kraft_snapshot import kraft_batch
from kdump.formats.schemas.cluster_metadata import decode_value, encode_value
from kdump.query.contents import contents_in, runs
from kdump.releases import METADATA_VERSION
from kdump.storage.partition import PartitionLog
from kdump.storage.segment import Segment
from kdump.topics.image_records import records_of
from kdump.topics.metadata_log import state_of_directory
from tests.kafka.directories import Rich
from tests.kafka.tally import Column, Comparison, Tally
from tests.topics.building import unexpected


def _written(path: Path, compare: Comparison) -> bytes:
    """A file of metadata records batch by batch, each record decoded and encoded."""
    written = b""
    for segment, run in runs([Segment(str(path))], unexpected):
        contents = list(contents_in(segment, run, unexpected))
        for row in range(run.first, run.stop):
            inside = [content for content in contents if content.row == row]
            is_control = bool(run.block.attributes[row] & CONTROL)
            pairs = []
            for content in inside:
                value = content.value or b""
                if not is_control:
                    record = decode_value(value)
                    value = encode_value(record.type, record.version, record.fields)
                    compare.same(f"{path.name}: {record.name} at {content.offset}", value, content.value)
                pairs.append((content.key, value))
            epoch, first = run.block.leader_epoch[row], inside[0]
            written += kraft_batch(pairs, first.offset, epoch, first.timestamp, is_control=is_control)
    return written


def test_the_log_is_encoded_as_by_the_controller(directory: Rich, tally: Tally) -> None:
    with tally.of(directory.release, Column.WRITE) as compare:
        for segment in PartitionLog(str(directory.log_dirs[0] / "__cluster_metadata-0")).segments:
            path = Path(segment.log_path)
            compare.same(path.name, _written(path, compare), path.read_bytes())


def test_bootstrap_files_are_encoded_as_by_kafka_storage(directory: Rich, tally: Tally) -> None:
    with tally.of(directory.release, Column.WRITE) as compare:
        for log_dir in directory.log_dirs:
            path = log_dir / "bootstrap.checkpoint"
            compare.same(path.name, _written(path, compare), path.read_bytes())


def test_a_state_has_the_versions_that_the_controller_wrote(directory: Rich, tally: Tally) -> None:
    with tally.of(directory.release, Column.WRITE) as compare:
        log = PartitionLog(str(directory.log_dirs[0] / "__cluster_metadata-0"))
        last: dict[str, int] = {}
        for segment, run in runs(log.segments, unexpected):
            for content in contents_in(segment, run, unexpected):
                if not run.block.attributes[content.row] & CONTROL:
                    record = decode_value(content.value or b"")
                    if record.name == "FeatureLevelRecord" and record.fields["name"] == METADATA_VERSION:
                        last.clear()  # what was written before has the versions of an older level
                    last[record.name] = record.version
        image = state_of_directory(log, unexpected).image
        for wanted in records_of(image):
            known = last.get(wanted.name, wanted.version)
            # 4.0 writes version 2 of PartitionRecord without eligible leader replicas, too: 1 says the same
            allowed = {known, 1} if wanted.name == "PartitionRecord" else {known}
            compare.holds(f"{wanted.name} v{wanted.version}, Kafka v{known}", wanted.version in allowed)
        compare.agreed(len([each.encode() for each in records_of(image)]))

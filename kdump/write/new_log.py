"""The files of a new log but for those of its first segment."""

from __future__ import annotations

import os

from kdump.disk.durable import make_directories, replace_file
from kdump.formats import names
from kdump.formats.metadata_files import PartitionMetadata, format_partition_metadata
from kdump.recovery.producer_state import ProducerStates
from kdump.settings.writing import WritingSettings
from kdump.storage.leader_epochs import EpochCache
from kdump.write.snapshots import SnapshotsOnDisk


def new_files(
    path: str,
    config: WritingSettings,
    start_offset: int,
    topic_id: bytes | None,
    *,
    durable: bool,
    like: os.stat_result | None,
) -> tuple[ProducerStates, EpochCache | None]:
    """Make the directory of a log that is not there yet; return its producers and epochs, which are none.

    Raises OSError, FileExistsError where there is a log already.
    """
    make_directories(path, like)
    if any(names.parse_file_name(name).kind in names.SEGMENT_KINDS for name in os.listdir(path)):
        raise FileExistsError(17, "There is a log already", path)
    if topic_id is not None:
        metadata = format_partition_metadata(PartitionMetadata(0, topic_id))
        replace_file(os.path.join(path, names.PARTITION_METADATA), metadata, durable=durable, like=like)
    epochs = None
    if config.record_version >= 2:
        epochs = EpochCache(())
        replace_file(os.path.join(path, names.LEADER_EPOCH_CHECKPOINT), b"", durable=durable, like=like)
    states = ProducerStates(SnapshotsOnDisk(path, durable=durable, like=like))
    states.map_end_offset = states.snapshot_offset = start_offset
    return states, epochs

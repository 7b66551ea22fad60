"""What a broker knows of the producers of a log up to an offset: who is active, which transactions are open."""

from __future__ import annotations

from kdump.formats.names import partition_dir_name
from kdump.named_tuples import NamedTuple
from kdump.recovery.producer_rebuild import rebuild_producer_state
from kdump.recovery.producer_state import ProducerStates
from kdump.recovery.segments import LoadedSegment, Segments
from kdump.recovery.snapshots import SnapshotFiles
from kdump.recovery.startup import Startup
from kdump.storage.partition import PartitionLog
from kdump.storage.planned import PlannedPartition


class LastRecord(NamedTuple):
    """The last that is known of a producer: its epoch, and the last offset (absolute) of its last data batch.

    The offset is -1 where only a marker of it is known.
    """

    last_offset: int
    producer_epoch: int


class Producers(NamedTuple):
    """The active producers by id, and the transactions that are open: the first offset of each and its producer."""

    last_records: dict[int, LastRecord]
    open_txns: dict[int, int]


def producers_at(log: PartitionLog, startup: Startup, log_start_offset: int, end_offset: int) -> Producers:
    """Return the producers as of `end_offset` (absolute); those that have expired by `startup.now` (ms) are left out.

    From the newest snapshot before it and the batches behind that. Raises OSError, LoadError.
    """
    directory = PlannedPartition(log)
    segments = Segments()
    for segment in log.segments:
        segments.add(LoadedSegment(directory, segment.base_offset, startup.config.segment_index_bytes))
    states = ProducerStates(SnapshotFiles(directory))
    partition = partition_dir_name(log.name.topic, log.name.partition) if log.name else "unknown"
    rebuild_producer_state(states, segments, startup, log_start_offset, end_offset, partition, clean=False)
    expired = startup.now - startup.config.producer_id_expiration_ms
    last_records = {
        producer_id: LastRecord(producer.last_offset, producer.epoch)
        for producer_id, producer in states.producers.items()
        if producer.txn_first_offset >= 0 or producer.timestamp > expired
    }
    return Producers(last_records, dict(states.open_txns))

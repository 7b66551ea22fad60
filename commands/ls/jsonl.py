"""`kdump ls --format jsonl`: one JSON object a line, as docs/ls-format.md has it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kdump.formats import names
from kdump.query.inventory import FileInfo, LogDirectoryInfo, PartitionInfo, Placement
from kdump.storage.broker import Duplicate
from kdump.storage.checkpoints import PartitionCheckpoints
from kdump.storage.facts import IndexInfo, SegmentInfo

from ..shell.rows import json_line

Row = dict[str, Any]

LIVE = "live"

_OLD_DIRECTORY = {"hasCleanShutdown": "cleanShutdown"}
_OLD_SEGMENT = {"hasZeroTail": "zeroTail", "isComplete": "allBatchesRead"}

_CHECKPOINT_KEYS = {
    names.LOG_START_CHECKPOINT: "logStart",
    names.RECOVERY_POINT_CHECKPOINT: "recoveryPoint",
    names.REPLICATION_CHECKPOINT: "highWatermark",
    names.CLEANER_CHECKPOINT: "cleaner",
}


class JsonLines:
    """Prints facts as JSON lines."""

    def __init__(self, write: Callable[[str], None]) -> None:
        """`write` takes whole lines."""
        self._write = write

    def log_directory(self, info: LogDirectoryInfo, partitions: list[PartitionInfo], *, segments: bool) -> None:
        """Write the log directory's line, then those of its partitions."""
        self._write(json_line("logDirectory", _log_directory(info), _OLD_DIRECTORY))
        for partition in partitions:
            self._partition(partition, info.path, segments)

    def partition(self, info: PartitionInfo, *, segments: bool) -> None:
        """Write the partition's line, then those of its segments."""
        self._partition(info, None, segments)

    def segment(self, info: SegmentInfo, topic: str | None, partition: int | None) -> None:
        """Write the segment's line."""
        self._write(json_line("segment", _segment(info, topic, partition), _OLD_SEGMENT))

    def file(self, path: str, kind: str, size: int) -> None:
        """Write the file's line."""
        self._write(json_line("file", {"path": path, "kind": kind, "size": size}))

    def end(self, found: list[Duplicate]) -> None:
        """Write a line for each partition that is in several places."""
        for each in found:
            fields = {"topic": each.topic, "partition": each.partition, "paths": list(each.paths)}
            self._write(json_line("duplicate", fields))

    def _partition(self, info: PartitionInfo, directory: str | None, segments: bool) -> None:
        self._write(json_line("partition", _partition(info, directory)))
        if segments:
            for segment in info.segments:
                self.segment(segment, info.topic, info.partition)


def _log_directory(info: LogDirectoryInfo) -> Row:
    return {
        "path": info.path,
        "clusterId": info.cluster_id,
        "nodeId": info.node_id,
        "directoryId": info.directory_id,
        "hasCleanShutdown": info.clean_shutdown,
        "brokerEpoch": info.broker_epoch,
        "release": info.release,
        "isController": info.is_controller,
        "partitions": info.partition_count,
        "checkpointEntries": {key: info.checkpoints.get(name) for name, key in _CHECKPOINT_KEYS.items()},
        "checkpointedButMissing": [{"topic": topic, "partition": number} for topic, number in info.missing],
        "notPartitions": list(info.not_partitions),
        "leftovers": [_file(file) for file in info.leftovers],
        "problems": list(info.problems),
    }


def _partition(info: PartitionInfo, directory: str | None) -> Row:
    """Return the fields of a partition; `directory` is the log directory that was listed, if one was."""
    return {
        "path": info.path,
        "logDirectory": directory,
        "topic": info.topic,
        "partition": info.partition,
        "state": info.state or LIVE,
        "uniqueId": info.unique_id,
        "topicId": info.topic_id,
        "logStartOffset": info.log_start_offset,
        "remoteLogStartOffset": info.remote_start_offset,
        "logEndOffset": info.end_offset,
        "records": info.records,
        "segments": len(info.segments),
        "size": info.size,
        "totalSize": info.total_size,
        "firstTimestamp": info.first_timestamp,
        "largestTimestamp": info.largest_timestamp,
        "codecs": list(info.codecs),
        "checkpoints": _checkpoints(info.checkpoints),
        "leaderEpochs": [{"epoch": epoch, "startOffset": offset} for epoch, offset in info.leader_epochs],
        "producerSnapshots": [file.offset for file in info.producer_snapshots],
        "kraftSnapshots": [
            {"name": file.name, "endOffset": file.offset, "epoch": file.epoch, "size": file.size}
            for file in info.kraft_snapshots
        ],
        "leftovers": [_file(file) for file in info.leftovers],
        "replaced": [_file(file) for file in info.replaced],
        "orphans": [_file(file) for file in info.orphans],
        "strangeFiles": [_file(file) for file in info.strange],
        "problems": list(info.problems),
        "placement": _placement(info.placement),
    }


def _placement(placement: Placement | None) -> Row | None:
    if placement is None:
        return None
    return {
        "topic": placement.topic,
        "topicId": placement.topic_id,
        "replicas": None if placement.replicas is None else list(placement.replicas),
        "isr": None if placement.isr is None else list(placement.isr),
        "leader": placement.leader,
        "stray": placement.stray,
        "minInsyncReplicas": placement.min_insync,
        "isUnderReplicated": None if placement.isr is None else placement.is_under_replicated,
        "isUnderMinIsr": None if placement.isr is None else placement.is_under_min_isr,
        "nextLeader": placement.next_leader,
    }


def _segment(info: SegmentInfo, topic: str | None, partition: int | None) -> Row:
    return {
        "path": info.path,
        "topic": topic,
        "partition": partition,
        "baseOffset": info.base_offset,
        "endOffset": info.end_offset,
        "records": info.records,
        "batches": info.batches,
        "size": info.size,
        "usedSize": info.used_size,
        "allocatedSize": info.on_disk,
        "hasZeroTail": info.zero_tail,
        "firstTimestamp": info.first_timestamp,
        "largestTimestamp": info.largest_timestamp,
        "codecs": list(info.codecs),
        "magics": list(info.magics),
        "isComplete": info.is_counted,
        "offsetIndex": _index(info.offset_index),
        "timeIndex": _index(info.time_index),
        "transactionIndex": _index(info.txn_index),
        "damage": [{"position": each.position, "resumed": each.resumed, "text": each.text} for each in info.damage],
        "error": info.error and (info.error.strerror or str(info.error)),
    }


def _checkpoints(checkpoints: PartitionCheckpoints) -> Row:
    return {
        "logStart": checkpoints.log_start,
        "recoveryPoint": checkpoints.recovery_point,
        "highWatermark": checkpoints.high_watermark,
        "cleaner": checkpoints.cleaner,
    }


def _index(info: IndexInfo | None) -> Row | None:
    return {"entries": info.entries, "size": info.size, "usedSize": info.used_size} if info else None


def _file(file: FileInfo) -> Row:
    return {"name": file.name, "kind": file.kind, "state": file.state or LIVE, "offset": file.offset, "size": file.size}

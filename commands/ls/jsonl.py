"""`kdump ls --format jsonl`: one JSON object a line, as docs/ls-format.md has it."""

from __future__ import annotations

from typing import Any

from kdump.formats import names
from kdump.formats.names import PartitionDirName
from kdump.query.inventory import FileInfo, LogDirectoryInfo, PartitionInfo, Placement
from kdump.storage.broker import Duplicate
from kdump.storage.facts import IndexInfo, SegmentInfo

from ..shell.rows import RowPrinter, fields_of

Row = dict[str, Any]

LIVE = "live"


_CHECKPOINT_KEYS = {
    names.LOG_START_CHECKPOINT: "logStart",
    names.RECOVERY_POINT_CHECKPOINT: "recoveryPoint",
    names.REPLICATION_CHECKPOINT: "highWatermark",
    names.CLEANER_CHECKPOINT: "cleaner",
}


class JsonLines(RowPrinter):
    """Prints facts as JSON lines."""

    def log_directory(self, info: LogDirectoryInfo, partitions: list[PartitionInfo], *, lists_segments: bool) -> None:
        """Write the log directory's line, then those of its partitions."""
        self.row("logDirectory", _log_directory(info))
        for partition in partitions:
            self.partition(partition, lists_segments=lists_segments, directory=info.path)

    def partition(self, info: PartitionInfo, *, lists_segments: bool, directory: str | None = None) -> None:
        """Write the partition's line, then those of its segments; `directory` is the log directory that was listed."""
        self.row("partition", _partition(info, directory))
        for segment in info.segments if lists_segments else ():
            self.segment(segment, info)

    def segment(self, info: SegmentInfo, whose: PartitionDirName | PartitionInfo | None) -> None:
        """Write the segment's line."""
        self.row("segment", _segment(info, whose))

    def file(self, path: str, kind: str, size: int) -> None:
        """Write the file's line."""
        self.row("file", {"path": path, "kind": kind, "size": size})

    def end(self, found: list[Duplicate]) -> None:
        """Write a line for each partition that is in several places."""
        for each in found:
            self.row("duplicate", fields_of(each, "topic partition paths"))


def _log_directory(info: LogDirectoryInfo) -> Row:
    return {
        **fields_of(info, "path cluster_id node_id directory_id hasCleanShutdown=clean_shutdown broker_epoch release"),
        **fields_of(info, "is_controller partitions=partition_count"),
        "checkpointEntries": {key: info.checkpoints.get(name) for name, key in _CHECKPOINT_KEYS.items()},
        "checkpointedButMissing": [{"topic": topic, "partition": number} for topic, number in info.missing],
        "notPartitions": list(info.not_partitions),
        "leftovers": [_file(file) for file in info.leftovers],
        "problems": list(info.problems),
    }


def _partition(info: PartitionInfo, directory: str | None) -> Row:
    return {
        "path": info.path,
        "logDirectory": directory,
        **fields_of(info, "topic partition"),
        "state": info.state or LIVE,
        **fields_of(info, "unique_id topic_id log_start_offset remoteLogStartOffset=remote_start_offset"),
        **fields_of(info, "logEndOffset=end_offset records"),
        "segments": len(info.segments),
        **fields_of(info, "size total_size first_timestamp largest_timestamp codecs"),
        "checkpoints": fields_of(info.checkpoints, "log_start recovery_point high_watermark cleaner"),
        "leaderEpochs": [{"epoch": epoch, "startOffset": offset} for epoch, offset in info.leader_epochs],
        "producerSnapshots": [file.offset for file in info.producer_snapshots],
        "kraftSnapshots": [fields_of(file, "name endOffset=offset epoch size") for file in info.kraft_snapshots],
        "leftovers": [_file(file) for file in info.leftovers],
        "replaced": [_file(file) for file in info.replaced],
        "orphans": [_file(file) for file in info.orphans],
        "strangeFiles": [_file(file) for file in info.unexpected],
        "problems": list(info.problems),
        "placement": _placement(info.placement),
    }


def _placement(placement: Placement | None) -> Row | None:
    if placement is None:
        return None
    return {
        **fields_of(placement, "topic topic_id replicas isr leader stray minInsyncReplicas=min_insync"),
        **fields_of(None if placement.isr is None else placement, "is_under_replicated is_under_min_isr"),
        "nextLeader": placement.next_leader,
    }


def _segment(info: SegmentInfo, whose: PartitionDirName | PartitionInfo | None) -> Row:
    return {
        "path": info.path,
        **fields_of(whose, "topic partition"),
        **fields_of(info, "base_offset end_offset records batches size used_size allocatedSize=on_disk"),
        **fields_of(info, "has_zero_tail first_timestamp largest_timestamp codecs magics"),
        **fields_of(info, "isComplete=is_counted"),
        "offsetIndex": _index(info.offset_index),
        "timeIndex": _index(info.time_index),
        "transactionIndex": _index(info.txn_index),
        "damage": [fields_of(each, "position resumed text") for each in info.damage],
        "error": info.error and (info.error.strerror or str(info.error)),
    }


def _index(info: IndexInfo | None) -> Row | None:
    return fields_of(info, "entries size used_size") if info else None


def _file(file: FileInfo) -> Row:
    return {"name": file.name, "kind": file.kind, "state": file.state or LIVE, "offset": file.offset, "size": file.size}

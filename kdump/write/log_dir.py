r"""The files beside the partitions of a log directory, kept as a broker keeps them: checkpoints, clean shutdown, id.

with LogDirWriter("/tmp/data", durable=False) as log_dir:
    orders = log_dir.create_log("orders", 0, WritingSettings(segment_bytes=1 << 20), topic_id=bytes(15) + b"\1")
    orders.append(...)
    log_dir.close(clean=False)     # as a killed broker leaves it; else the `with` closes it in order
"""

from __future__ import annotations

import os
from typing import Self

from kdump.disk.durable import append_file, make_directories, remove_file, replace_file, sync_directory
from kdump.disk.reading import read_small
from kdump.formats import names
from kdump.formats.checkpoints import OffsetCheckpointEntry, format_offset_checkpoint
from kdump.formats.metadata_files import (
    CleanShutdown,
    MetaProperties,
    format_clean_shutdown,
    format_meta_properties,
)
from kdump.formats.names import parse_partition_dir, partition_dir_name
from kdump.formats.time_units import wall_clock
from kdump.settings.writing import WritingSettings
from kdump.storage.checkpoints import Checkpoints, TopicPartition
from kdump.storage.partition import base_offsets
from kdump.write.log_writer import LogWriter
from kdump.write.written_log import Clock, Jitter, random_jitter


def read_offsets(log_dir: str, checkpoint: str) -> dict[TopicPartition, int]:
    """Return an offset checkpoint by (topic, partition); empty without the file, or where no broker can read it.

    Raises OSError.
    """
    return dict(Checkpoints.read(log_dir, (checkpoint,)).readable().lines.get(checkpoint, {}))


def write_offsets(
    log_dir: str,
    checkpoint: str,
    offsets: dict[TopicPartition, int],
    *,
    durable: bool = True,
    like: os.stat_result | None = None,
) -> None:
    """Write an offset checkpoint; a new one with the owner and mode of `like`. Raises OSError."""
    entries = (OffsetCheckpointEntry(topic, partition, offset) for (topic, partition), offset in offsets.items())
    replace_file(os.path.join(log_dir, checkpoint), format_offset_checkpoint(entries), durable=durable, like=like)


def note_offsets(
    log_dir: str, logs: dict[TopicPartition, LogWriter], *, durable: bool = True, like: os.stat_result | None = None
) -> None:
    """Bring the checkpoints of recovery points, high watermarks and log start offsets up to date for some partitions.

    A log start offset is only told where it lies beyond the first segment's base offset. Raises OSError.
    """
    offsets = _Offsets(log_dir)
    for partition, log in logs.items():
        offsets.note(partition, log)
    offsets.write(durable=durable, like=like)


class _Offsets:
    """The checkpoints of a log directory that tell of logs."""

    def __init__(self, log_dir: str) -> None:
        """Read them. Raises OSError."""
        self._log_dir = log_dir
        self._points = read_offsets(log_dir, names.RECOVERY_POINT_CHECKPOINT)
        self._watermarks = read_offsets(log_dir, names.REPLICATION_CHECKPOINT)
        self._starts = read_offsets(log_dir, names.LOG_START_CHECKPOINT)

    def note(self, partition: TopicPartition, log: LogWriter) -> None:
        """Bring them up to date for a partition; nothing is written yet. Raises OSError."""
        self._points[partition] = log.recovery_point
        self._watermarks[partition] = log.high_watermark
        self._starts.pop(partition, None)
        if log.log_start_offset > base_offsets(os.listdir(log.path))[0]:
            self._starts[partition] = log.log_start_offset

    def write(self, *, durable: bool, like: os.stat_result | None = None) -> None:
        """Write them. Raises OSError."""
        write_offsets(self._log_dir, names.RECOVERY_POINT_CHECKPOINT, self._points, durable=durable, like=like)
        write_offsets(self._log_dir, names.REPLICATION_CHECKPOINT, self._watermarks, durable=durable, like=like)
        write_offsets(self._log_dir, names.LOG_START_CHECKPOINT, self._starts, durable=durable, like=like)


def take_clean_mark(log_dir: str) -> bytes | None:
    """Remove the sign of a clean shutdown, as a broker does when it starts; its content, None without. Raises OSError.

    As long as it is gone the next start of a broker checks what may not have reached the disk.
    """
    path = os.path.join(log_dir, names.CLEAN_SHUTDOWN)
    try:
        content = read_small(path)
        remove_file(path)
    except FileNotFoundError:
        return None
    sync_directory(log_dir)
    return content


def put_clean_mark(log_dir: str, content: bytes, *, durable: bool = True, like: os.stat_result | None = None) -> None:
    """Write the sign of a clean shutdown. Raises OSError."""
    replace_file(os.path.join(log_dir, names.CLEAN_SHUTDOWN), content, durable=durable, like=like)


class LogDirWriter:
    """A new log directory: partitions, and on closing what a broker writes beside them.

    `logs` are its partitions by (topic, partition). `clock` tells the time in ms; see LogWriter for the rest.
    """

    def __init__(
        self,
        path: str,
        *,
        cluster_id: str = "kdumpAAAAAAAAAAAAAAAAA",
        node_id: int = 1,
        directory_id: bytes | None = None,
        broker_epoch: int = -1,
        clock: Clock = wall_clock,
        jitter: Jitter = random_jitter,
        durable: bool = True,
    ) -> None:
        """Make the directory and its meta.properties (of a node in KRaft mode). Raises OSError."""
        self.path = os.path.abspath(path)
        self.broker_epoch = broker_epoch
        self.logs: dict[TopicPartition, LogWriter] = {}
        self.is_open = True
        self._clock, self._jitter, self._durable = clock, jitter, durable
        make_directories(self.path)
        content = format_meta_properties(MetaProperties(1, cluster_id, node_id, directory_id), clock())
        replace_file(os.path.join(self.path, names.META_PROPERTIES), content, durable=durable)
        self._offsets = _Offsets(self.path)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *exc: object) -> None:
        if self.is_open:
            self.close(clean=kind is None)

    def create_log(
        self,
        topic: str,
        partition: int,
        config: WritingSettings | None = None,
        *,
        start_offset: int = 0,
        topic_id: bytes | None = None,
    ) -> LogWriter:
        """Return the log of a new partition. Raises OSError, NameFormatError for a topic no directory can have."""
        name = partition_dir_name(topic, partition)
        parse_partition_dir(name)
        log = LogWriter.create(
            os.path.join(self.path, name),
            config,
            start_offset=start_offset,
            topic_id=topic_id,
            clock=self._clock,
            jitter=self._jitter,
            durable=self._durable,
        )
        self.logs[topic, partition] = log
        return log

    def close_log(self, topic: str, partition: int, *, clean: bool = True) -> None:
        """Close a log and let go of it, where there are more than memory should hold. Raises OSError, KdumpError."""
        self._close_log((topic, partition), self.logs.pop((topic, partition)), clean=clean)

    def _close_log(self, partition: TopicPartition, log: LogWriter, *, clean: bool) -> None:
        if log.is_open:
            log.close(clean=clean)
        self._offsets.note(partition, log)

    def close(self, *, clean: bool = True) -> None:
        """Close all logs that are open and write the checkpoints. Raises OSError.

        Not `clean`: leave the directory as a broker that is killed does.
        """
        self.is_open = False
        for partition, log in self.logs.items():
            self._close_log(partition, log, clean=clean)
        self._offsets.write(durable=self._durable)
        if not clean:
            append_file(os.path.join(self.path, names.LOCK))
        else:
            put_clean_mark(self.path, format_clean_shutdown(CleanShutdown(self.broker_epoch)), durable=self._durable)

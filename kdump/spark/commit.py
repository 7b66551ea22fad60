"""The end of a write, on the driver: staged batches become logs, and each log takes its place at once.

A partition's new log is made beside the log directory's own ones, as a copy of the one that is there where rows are
appended to it. Whenever this is interrupted, each partition is as it was before or as it was to be.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from uuid import uuid4

from kdump.disk.copies import copy_file, copy_status
from kdump.disk.durable import filled_directory, keep, make_directories, move, put_in_place
from kdump.disk.locks import check_not_growing, holding
from kdump.errors import KdumpError
from kdump.formats import names
from kdump.formats.names import partition_dir_name
from kdump.operations.open_log import open_log
from kdump.recovery.broker_start import DirectoryState, directory_state
from kdump.spark.staging import Counts, Staged
from kdump.spark.write_options import WriteOptions
from kdump.storage.directory import LogDirectory
from kdump.storage.log_reader import LogFile
from kdump.storage.partition import PartitionLog
from kdump.write.log_dir import LogDirWriter, note_offsets, put_clean_mark, read_offsets, take_clean_mark, write_offsets
from kdump.write.log_writer import LogWriter

Key = tuple[str, int]

MAX_PARTITIONS = 1 << 16
"""How many empty partitions are made at most, should a row name a partition far out."""


class Commit:
    """One write's end."""

    def __init__(self, options: WriteOptions, staging: str, counts: Counts, *, replaces: bool) -> None:
        """Prepare a commit; with `replaces` the topics that are written to are replaced as a whole."""
        self._options = options
        self._root = options.to.path
        self._staging = staging
        self._counts = counts
        self._replaces = replaces
        self._topic_ids: dict[str, bytes] = {}

    def run(self, files: Iterable[Staged]) -> None:
        """Make the logs. Raises KdumpError, OSError."""
        staged: dict[Key, list[Staged]] = {}
        for file in files:
            staged.setdefault((file.topic, file.number), []).append(file)
        self._add_empty(staged)
        own = {os.path.basename(self._staging)}
        is_new = not os.path.isdir(self._root) or own.issuperset(os.listdir(self._root))
        make_directories(self._staging)
        if is_new:
            with LogDirWriter(self._root):
                pass
        with holding(self._root):
            state = directory_state(LogDirectory(self._root))
            check_not_growing(self._active_logs(staged))
            mark = take_clean_mark(self._root)
            for key in sorted(staged):
                self._partition(key, staged[key], state)
            if self._replaces:
                self._remove_others(staged)
            if mark is not None:
                put_clean_mark(self._root, mark)

    def _add_empty(self, staged: dict[Key, list[Staged]]) -> None:
        """Add the partitions of the topics that get no rows but have to be there."""
        counts: dict[str, int] = {}
        if self._options.to.topic is not None:
            counts[self._options.to.topic] = self._counts.of(self._options.to.topic)
        for topic, number in staged:
            counts[topic] = max(counts.get(topic, self._counts.of(topic)), number + 1)
        for topic, count in counts.items():
            for number in range(min(count, MAX_PARTITIONS)):
                if self._replaces or not os.path.isdir(self._final((topic, number))):
                    staged.setdefault((topic, number), [])

    def _final(self, key: Key) -> str:
        return os.path.join(self._root, partition_dir_name(*key))

    def _active_logs(self, keys: Iterable[Key]) -> Iterator[str]:
        for key in keys:
            with suppress(FileNotFoundError):
                yield from (segment.log_path for segment in PartitionLog(self._final(key)).segments[-1:])

    def _partition(self, key: Key, files: list[Staged], state: DirectoryState) -> None:
        final, new = self._final(key), os.path.join(self._staging, partition_dir_name(*key))
        with self._opened(final, new, state) as log:
            for file in files:
                self._append(log, file)
        log.path = new
        aside = os.path.join(self._staging, f"old-{partition_dir_name(*key)}")
        put_in_place(new, final, aside)
        log.path = final
        note_offsets(self._root, {key: log})

    def _opened(self, final: str, new: str, state: DirectoryState) -> LogWriter:
        """Return the log to append to: a copy of what is there, or a new one."""
        config = self._options.config
        log = PartitionLog(final) if os.path.isdir(final) else None
        if log is None or self._replaces or not log.segments:
            return LogWriter.create(new, config, topic_id=self._topic_id(new))
        copy_log(final, new)
        return open_log(new, config, state.shutdown_of(log), backup=False)

    def _topic_id(self, new: str) -> bytes:
        """Return the topic's id: that of its other partitions, or a new one."""
        topic = names.parse_partition_dir(os.path.basename(new)).topic
        if topic not in self._topic_ids:
            self._topic_ids[topic] = next(self._known_ids(topic), None) or uuid4().bytes
        return self._topic_ids[topic]

    def _known_ids(self, topic: str) -> Iterator[bytes]:
        for name in LogDirectory(self._root).partition_names:
            parsed = names.parse_partition_dir(name)
            if parsed.topic == topic and parsed.state == names.LIVE:
                with suppress(KdumpError):
                    metadata = PartitionLog(os.path.join(self._root, name)).metadata
                    if metadata is not None:
                        yield metadata.topic_id

    def _append(self, log: LogWriter, file: Staged) -> None:
        with LogFile(file.path) as batches:
            position = 0
            for block in batches.blocks():
                for row in range(block.length):
                    at = block.position[row] - block.data_position
                    data = bytes(memoryview(block.data)[at : at + block.size[row]])
                    log.append_as_leader(data, self._options.leader_epoch)
                position = block.next_position
            if position != batches.size:
                raise KdumpError(f"{file.path}: cut short at byte {position} of {batches.size}: was the disk full?")

    def _remove_others(self, staged: dict[Key, list[Staged]]) -> None:
        """Take away the partitions of the topics written to that are not among the new ones."""
        topics = {topic for topic, _ in staged}
        gone: set[Key] = set()
        for name in LogDirectory(self._root).partition_names:
            parsed = names.parse_partition_dir(name)
            key = parsed.topic, parsed.partition
            if parsed.state == names.LIVE and parsed.topic in topics and key not in staged:
                move(os.path.join(self._root, name), os.path.join(self._staging, f"old-{name}"))
                gone.add(key)
        for checkpoint in names.OFFSET_CHECKPOINTS if gone else ():
            lines = read_offsets(self._root, checkpoint)
            if not gone.isdisjoint(lines):
                write_offsets(self._root, checkpoint, {key: lines[key] for key in lines if key not in gone})


def copy_log(path: str, to: str) -> None:
    """Copy a partition directory so that the copy can be appended to without changing the first. Raises OSError.

    Segments that are not the last one are never written to again, so they share their bytes with the copy.
    """
    files = {entry.name: names.parse_file_name(entry.name) for entry in os.scandir(path) if entry.is_file()}
    last = max((base for base, _ in names.live_logs(files)), default=-1)
    with filled_directory(to):
        for name, parsed in files.items():
            source, target = os.path.join(path, name), os.path.join(to, name)
            if parsed.kind in names.SEGMENT_KINDS and parsed.offset is not None and parsed.offset < last:
                keep(source, target)
            else:
                copy_file(source, target)
        copy_status(path, to)

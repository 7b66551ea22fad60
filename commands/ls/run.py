"""What `kdump ls` does: gathers the facts place by place, hands them to a printer, and says what cannot be read."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, TypeAlias

from kdump.formats import names
from kdump.formats.names import parse_partition_dir
from kdump.query.inventory import (
    PartitionInfo,
    Placing,
    duplicates,
    log_directory_info,
    owner_of,
    partition_info,
)
from kdump.storage.broker import BrokerIdentity
from kdump.storage.checkpoints import Checkpoints
from kdump.storage.directory import LogDirectory
from kdump.storage.facts import segment_info
from kdump.storage.live import held
from kdump.storage.open import KafkaFile
from kdump.storage.partition import PartitionLog
from kdump.storage.segment import Segment
from kdump.topics.clusters import Clusters

from ..shell import exit_codes
from ..shell.choice import has_partition, nothing_chosen, topics_at
from ..shell.output import Output, wants_color
from ..shell.paths import expand
from ..shell.progress import PathCounter
from ..shell.rows import output_for
from ..shell.session import Failures
from ..shell.unfinished import note_unfinished

if TYPE_CHECKING:
    from .graph import Graphs
    from .jsonl import JsonLines
    from .text import Tables

    Printer: TypeAlias = JsonLines | Graphs | Tables


@dataclass(frozen=True, slots=True)
class Options:
    """What the command line asks for; `segments` is None where it does not say."""

    format: str = "text"
    segments: bool | None = None
    topics: tuple[str, ...] = ()
    sort: str = "name"
    count: bool = False
    metadata: bool = True
    graph: bool = False
    color: str = "auto"

    def wants_topic(self, topic: str | None) -> bool:
        """Return whether partitions of this topic are asked for."""
        return not self.topics or (topic is not None and any(fnmatchcase(topic, glob) for glob in self.topics))


def _name_key(info: PartitionInfo) -> tuple[Any, ...]:
    if info.topic is None:
        return (1, info.path)
    return (0, info.topic, info.partition, info.state, info.path)


def _descending(value: Callable[[PartitionInfo], int | None]) -> Callable[[PartitionInfo], tuple[Any, ...]]:
    """Return what sorts the largest first, what is not known last, and by name where equal."""

    def key(info: PartitionInfo) -> tuple[Any, ...]:
        found = value(info)
        return (found is None, -(found or 0), _name_key(info))

    return key


SORTS: dict[str, Callable[[PartitionInfo], tuple[Any, ...]]] = {
    "name": _name_key,
    "size": _descending(lambda info: info.size),
    "records": _descending(lambda info: info.records),
    "segments": _descending(lambda info: len(info.segments)),
    "end": _descending(lambda info: info.end_offset),
    "time": _descending(lambda info: info.largest_timestamp),
}


def list_places(paths: Iterable[str], options: Options) -> int:
    """List what is at `paths`; the exit code. Raises click.UsageError."""
    with output_for(options.format) as out:
        paths = list(paths)
        run = _Run(out, _printer(out, options), options, paths)
        for path in paths:
            run.path(path)
        run.end()
    return run.code


def _printer(out: Output, options: Options) -> Printer:
    if options.format == "jsonl":
        from .jsonl import JsonLines

        return JsonLines(out.write)
    if options.graph:
        from .graph import Graphs

        return Graphs(out.write, color=wants_color(options.color))
    from .text import Tables

    return Tables(out.write, color=wants_color(options.color))


class _Run(Failures):
    def __init__(self, out: Output, printer: Printer, options: Options, paths: list[str]) -> None:
        super().__init__(out.flush)
        self._paths = paths
        self._printer = printer
        self._options = options
        self._progress = PathCounter()
        self._clusters = Clusters(paths) if options.metadata else None
        self._listed: list[tuple[BrokerIdentity | None, PartitionInfo]] = []
        self._matched = not options.topics and has_partition(None)

    def path(self, path: str) -> None:
        """List what is at a path or pattern."""
        try:
            for place in expand([path]):
                if isinstance(place, LogDirectory | PartitionLog):
                    note_unfinished(place)
                if isinstance(place, LogDirectory):
                    self._log_directory(place)
                elif isinstance(place, PartitionLog):
                    self._partition(place)
                else:
                    self._file(place)
        except OSError as error:
            self.tell(error, path)

    def end(self) -> None:
        """List what only shows when everything is known."""
        self._printer.end(duplicates(self._listed))
        if not self._matched and self.code == exit_codes.OK:
            self.complain(nothing_chosen(self._options.topics, topics_at(self._paths)))

    def _log_directory(self, directory: LogDirectory) -> None:
        checkpoints = Checkpoints.read(directory.path)
        placing, trouble = self._placing(directory)
        info = log_directory_info(directory, checkpoints)
        if self._clusters is not None:
            cluster = self._clusters.of(directory)
            info = info._replace(release=cluster.release, is_controller=cluster.is_controller)
        if trouble:
            info = info._replace(problems=(*info.problems, trouble))
        wanted = [name for name in directory.partition_names if self._wants(name)]
        partitions = []
        for path in self._progress.over([os.path.join(directory.path, name) for name in wanted]):
            try:
                with held(path) as log:
                    if log is not None:
                        found = partition_info(
                            log, checkpoints.of(log.name), count=self._options.count, placing=placing
                        )
                        partitions.append(found)
            except OSError as unreadable:
                self.tell(unreadable, path)
        partitions.sort(key=SORTS[self._options.sort])
        owner = owner_of(directory)
        self._listed += ((owner, partition) for partition in partitions)
        self._printer.log_directory(info, partitions, segments=self._options.segments or False)
        for error in (*info.errors, *(error for partition in partitions for error in partition.errors)):
            self.tell(error, directory.path)

    def _wants(self, name: str) -> bool:
        named = parse_partition_dir(name)
        wanted = self._options.wants_topic(named.topic) and has_partition(named.partition)
        self._matched = self._matched or wanted
        return wanted

    def _partition(self, log: PartitionLog) -> None:
        self._matched = True
        folder = os.path.dirname(os.path.abspath(log.path))
        checkpoints = Checkpoints.read(folder)
        owner, placing = self._beside(folder)
        with held(log.path) as now:
            if now is None:
                return
            info = partition_info(now, checkpoints.of(log.name), count=self._options.count, placing=placing)
        bad = checkpoints.errors.values()
        texts = (str(error) for error in bad if not isinstance(error, OSError))
        unread = (error for error in bad if isinstance(error, OSError))
        info = info._replace(problems=(*texts, *info.problems), errors=(*unread, *info.errors))
        self._listed.append((owner, info))
        self._printer.partition(info, segments=self._options.segments is not False)
        for error in info.errors:
            self.tell(error, log.path)

    def _beside(self, folder: str) -> tuple[BrokerIdentity | None, Placing | None]:
        """Return whose the log directory around a partition is, and what tells of its place; nothing if it is none."""
        try:
            directory = LogDirectory(folder)
        except OSError:
            return None, None
        return owner_of(directory), self._placing(directory)[0]

    def _placing(self, directory: LogDirectory) -> tuple[Placing | None, str | None]:
        """Return what tells of a log directory's partitions, and why the cluster's metadata in it is of no use."""
        if self._clusters is None:
            return None, None
        placing, troubles, *_ = self._clusters.of(directory)
        if not troubles:
            return placing, None
        more = f" (and {len(troubles) - 1} more)" if len(troubles) > 1 else ""
        return None, f"{names.CLUSTER_METADATA_DIR} says nothing of the partitions: {troubles[0].text}{more}"

    def _file(self, file: KafkaFile) -> None:
        self._matched = True
        if file.name.kind not in (names.LOG, names.KRAFT_SNAPSHOT, names.BOOTSTRAP_CHECKPOINT):
            self._printer.file(file.path, file.name.kind, os.stat(file.path).st_size)
            return
        info = segment_info(Segment(file.path), count=self._options.count)
        parsed = file.partition
        self._printer.segment(info, parsed.topic if parsed else None, parsed.partition if parsed else None)
        if info.error:
            self.tell(info.error, file.path)

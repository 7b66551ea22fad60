"""Open a partition of a log directory that is there already for appending, with checks that keep others' data safe.

    with opened("/var/lib/kafka/data/orders-3", WritingSettings()) as log:
        log.append(...)

While it is open the log directory is locked as by a broker, and is not marked as cleanly shut down: whatever ends the
program, the next start of a broker checks what was being written and cuts what was not completed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from kdump.change.journal import unfinished
from kdump.disk.locks import check_not_growing, is_log_directory
from kdump.disk.reading import is_directory
from kdump.errors import (
    KdumpError,
    RefusedError,
    check_callable,
    check_number,
    check_truths,
    check_type,
    is_out_of_memory,
)
from kdump.formats import names
from kdump.formats.time_units import wall_clock
from kdump.formats.uuids import UUID_SIZE
from kdump.operations.cluster_rules import ClusterRules, cluster_rules
from kdump.operations.open_log import NotAppendableError, check_files, open_log
from kdump.operations.safety import held_unless
from kdump.recovery.broker_start import directory_state
from kdump.recovery.startup import LastShutdown
from kdump.releases import KafkaRelease
from kdump.settings.names import check_given
from kdump.settings.sources import Settings
from kdump.settings.writing import WritingSettings
from kdump.storage.directory import LogDirectory
from kdump.storage.facts import log_end_offset
from kdump.storage.open import check_has_kafka_files
from kdump.storage.partition import PartitionLog
from kdump.write.log_dir import note_offsets, put_clean_mark, take_clean_mark
from kdump.write.log_writer import LogWriter
from kdump.write.written_log import Clock


class NewLog(NamedTuple):
    """A log to be made: where it starts (absolute), and the 16 bytes of the topic's id for its partition.metadata."""

    start_offset: int = 0
    topic_id: bytes | None = None

    def check(self) -> None:
        """Raise ValueError, TypeError for an offset that no log has, and what is no id."""
        check_number("start_offset", self.start_offset, 0)
        check_type("topic_id", self.topic_id, bytes, may_be_none=True)
        if self.topic_id is not None and len(self.topic_id) != UUID_SIZE:
            raise ValueError(f"topic_id is {self.topic_id!r}: expected {UUID_SIZE} bytes")


@dataclass(frozen=True, slots=True)
class Opening:
    """How a log is opened.

    What the last shutdown was like, and the checkpoints (absolute offsets): None where the log directory is to tell.
    `create`: make a log where there is none yet. `ignore_lock` names the directory that is written to whoever uses it.
    `backup`: keep what is replaced after an unclean shutdown. `rules`: what the cluster says, None for the metadata
    beside the partition. `any_producer_id`: take producer ids too that the cluster has still to give out.
    """

    clean: bool | None = None
    recovery_point: int | None = None
    log_start_offset: int | None = None
    clock: Clock = wall_clock
    create: NewLog | None = None
    ignore_lock: str | None = None
    backup: bool = True
    rules: ClusterRules | None = None
    any_producer_id: bool = False

    def __post_init__(self) -> None:
        """Raise ValueError, TypeError for an offset that no log has."""
        check_number("recovery_point", self.recovery_point, 0, may_be_none=True)
        check_number("log_start_offset", self.log_start_offset, 0, may_be_none=True)
        check_truths(backup=self.backup, any_producer_id=self.any_producer_id)
        check_type("ignore_lock", self.ignore_lock, str, may_be_none=True)
        check_type("clean", self.clean, bool, may_be_none=True)
        check_type("rules", self.rules, ClusterRules, may_be_none=True)
        check_callable("clock", self.clock)
        check_type("create", self.create, NewLog, may_be_none=True)
        if self.create is not None:
            self.create.check()


@contextmanager
def opened(path: str, config: WritingSettings | None = None, how: Opening | None = None) -> Iterator[LogWriter]:
    """Hold the log in the partition directory `path`, open for appending; it is closed cleanly when the `with` ends.

    Without a `config` the topic has the settings that the cluster's metadata beside it names. The checkpoints beside
    the partition and the mark of a clean shutdown are brought up to date then. Beside a partition directory that is in
    no log directory nothing is written; it was closed cleanly if a producer snapshot stands at its end. An error of
    the `with` block passes on, what was appended before it stays, and the log is closed cleanly. After an append that
    failed in its middle, as by an I/O error, or where the block was interrupted or out of memory, the log is left as a
    broker leaves it that is killed. Raises RefusedError, NotAppendableError, NameFormatError, ConfigError, OSError.
    """
    how = how or Opening()
    site = _Site(os.path.abspath(path), how.create is not None)
    with held_unless(how.ignore_lock, site.folder, [site.path], site.like):
        if site.log and how.ignore_lock is None:
            check_not_growing(segment.log_path for segment in site.log.segments)
        rules = how.rules or rules_beside(site.path)
        start = site.startup(how)
        try:
            writer = start(config or WritingSettings.of(rules.settings, rules.release))
            writer.next_producer_id = None if how.any_producer_id else rules.next_producer_id
        except (KdumpError, OSError):
            if not any(unfinished(site.path)):
                site.put_mark()
            raise
        try:
            yield writer
        except Exception as error:
            # Between two appends memory and files agree. Where memory is short not even closing can be relied on, and
            # what is no Exception, such as an interruption, may have come at any point within an append.
            if is_out_of_memory(error):
                _abandon(writer)
            else:
                site.finish(writer)
            raise
        except BaseException:
            _abandon(writer)
            raise
        site.finish(writer)


class Rolled(NamedTuple):
    """What rolling came to: the base offset of the new segment, None where the last one is empty and stays.

    `change` is the id of the change that keeps what had to be rebuilt to open the log, None for nothing.
    `last_base_offset` is that of the segment that was the last one, `end_offset` the log end offset (absolute).
    """

    base_offset: int | None
    change: str | None
    last_base_offset: int
    end_offset: int


def roll_active(log: LogWriter) -> Rolled:
    """Begin a new segment, as a broker does when the last one is full. Raises RollError, OSError."""
    last = log.active
    return Rolled(log.roll() if last.size else None, log.change, last.base_offset, log.end_offset)


def rules_beside(path: str) -> ClusterRules:
    """Read what the cluster's metadata says of a partition directory. Raises NameFormatError, OSError."""
    folder, base = os.path.split(os.path.abspath(path))
    name = names.parse_partition_dir(base, path)
    if not is_directory(folder) or not is_log_directory(folder):
        return ClusterRules(Settings().of(name.topic))
    return cluster_rules(folder, name)


def writing_settings(
    rules: ClusterRules,
    properties: Mapping[str, str],
    given: Mapping[str, str],
    release: KafkaRelease | None = None,
    *,
    index_per_batch: bool | None = None,
) -> WritingSettings:
    """Return the settings that a log is written with: `given` ones, then those of `properties`, then the cluster's.

    `index_per_batch` is the release's own way if not given.

    Raises ConfigError, also for what is given and does not matter to an append.
    """
    check_given(given, WritingSettings.counting())
    settings = rules.settings.under(properties).under(given)
    return WritingSettings.of(settings, release or rules.release, index_per_batch=index_per_batch)


class _Site:
    """Where a partition is: `log` None where there is nothing yet, `log_dir` None where it is in no log directory.

    New files get the owner and mode of `like`.
    """

    def __init__(self, path: str, may_be_new: bool) -> None:
        """Look at it. Raises NotAppendableError, NameFormatError, RefusedError, OSError."""
        self.path = path
        self.name = names.parse_partition_dir(os.path.basename(path), path)
        if self.name.state != names.LIVE:
            raise NotAppendableError(f"{path}: the name is not that of a partition in use, <topic>-<partition>")
        self.folder = os.path.dirname(path)
        self.log_dir = self.folder if is_log_directory(self.folder) else None
        self.log = PartitionLog(path) if is_directory(path) or not may_be_new else None
        self.like = None
        self._mark: bytes | None = None
        if self.log and self.log.segments:
            self.like = os.stat(self.log.segments[-1].log_path)
        elif self.log_dir:
            with suppress(FileNotFoundError):
                self.like = os.stat(os.path.join(self.folder, names.META_PROPERTIES))
        if self.log is None:
            os.stat(self.folder)  # a new log is made in a directory that is there
        for folder in (path if self.log else self.folder, self.log_dir):
            if folder and not os.access(folder, os.W_OK | os.X_OK):
                raise RefusedError(f"{folder}: nothing can be written here (permissions, or a read-only file system)")

    def startup(self, how: Opening) -> Callable[[WritingSettings | None], LogWriter]:
        """Return what opens or makes the log, as the log directory is now. Raises NotAppendableError, OSError."""
        if self.log and os.listdir(self.path):
            check_has_kafka_files(self.log)
        if how.create and not (self.log and self.log.segments):
            self._take_mark()
            return partial(
                LogWriter.create,
                self.path,
                start_offset=how.create.start_offset,
                topic_id=how.create.topic_id,
                clock=how.clock,
                like=self.like,
            )
        log = PartitionLog(self.path)
        check_files(self.path, log)
        clean, point, start = directory_state(LogDirectory(self.folder)).shutdown_of(log)
        if self.log_dir is None and log.segments:
            # As far as the log itself shows that: a clean close writes a snapshot at its end.
            end = log_end_offset(log)
            clean = any(each.kind == names.PRODUCER_SNAPSHOT and each.offset == end for each in log.files.values())
        shutdown = LastShutdown(
            clean if how.clean is None else how.clean,
            point if how.recovery_point is None else how.recovery_point,
            start if how.log_start_offset is None else how.log_start_offset,
        )
        return partial(
            open_log,
            self.path,
            shutdown=shutdown,
            clock=how.clock,
            backup=how.backup,
            begin=self._take_mark,
        )

    def put_mark(self) -> None:
        """Put the mark of a clean shutdown back, if it was taken. Raises OSError."""
        if self._mark is not None:
            put_clean_mark(self.folder, self._mark, like=self.like)

    def _take_mark(self) -> None:
        if self.log_dir:
            self._mark = take_clean_mark(self.log_dir)

    def finish(self, writer: LogWriter) -> None:
        """Close the log and bring what is beside it up to date. Raises OSError, KdumpError."""
        if writer.has_failed:
            _abandon(writer)
            return
        if writer.is_open:
            writer.close()
        if self.log_dir:
            note_offsets(self.log_dir, {(self.name.topic, self.name.partition): writer}, like=self.like)
            self.put_mark()


def _abandon(writer: LogWriter) -> None:
    """Leave the log as a broker leaves it that is killed."""
    if writer.is_open:
        with suppress(OSError):
            writer.close(clean=False)

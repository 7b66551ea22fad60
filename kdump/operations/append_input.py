"""Append an input to a log: pack its records into batches, or make the batches again that it describes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import NamedTuple

from kdump.disk.reading import list_directory
from kdump.errors import KdumpError, RefusedError, check_number, check_several, check_truths, check_type, check_word
from kdump.formats.encode import NewRecord
from kdump.formats.java_text import INT_MAX
from kdump.interchange.csv import read_csv
from kdump.interchange.dumped import DumpedBatch, Item
from kdump.interchange.jsonl import read_jsonl
from kdump.interchange.lines import InterchangeError, Lines, read_lines
from kdump.operations.cluster_rules import ClusterRules
from kdump.storage.partition import base_offsets
from kdump.write.dumped_batch import as_sent, as_stored
from kdump.write.errors import AppendError, MissingKeyError
from kdump.write.incoming import UNKNOWN_OFFSET, AppendInfo, AppendOrigin
from kdump.write.log_writer import LogWriter
from kdump.write.packing import Packing, pack
from kdump.write.record_source import Message
from kdump.write.sessions import Producer, epoch_of_markers

MAX_BYTES = (1 << 31) - 1
READERS = {"jsonl": read_jsonl, "csv": read_csv, "lines": read_lines}
"""What reads an input, by its format."""


class Ending(StrEnum):
    """What becomes of the transaction that records are appended in."""

    COMMIT = "commit"
    ABORT = "abort"
    OPEN = "open"


@dataclass(frozen=True, slots=True)
class AppendOptions:
    """How records become batches: as `packing` has it, which need not name the producer.

    The producer has its last epoch in the log, else 0, and the sequence number that is due, unless they are given.
    `ending` is how its transaction ends, at this level of the feature transaction.version (None: the cluster's),
    `leader_epoch` None for the log's. `keeps_offsets`: the batches of the input are appended as a follower appends its
    leader's. `needs_repack` are options that mean nothing for batches that the input tells of.
    """

    packing: Packing = field(default_factory=Packing)
    producer_id: int | None = None
    producer_epoch: int | None = None
    base_sequence: int | None = None
    ending: str | None = None
    transaction_version: int | None = None
    coordinator_epoch: int | None = None
    leader_epoch: int | None = None
    keeps_offsets: bool = False
    needs_repack: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Raise ValueError, TypeError for what makes no sense."""
        check_type("packing", self.packing, Packing)
        self.packing.check()
        check_truths(keeps_offsets=self.keeps_offsets)
        check_number("producer_id", self.producer_id, 0, may_be_none=True)
        check_number("producer_epoch", self.producer_epoch, 0, 32767, may_be_none=True)
        check_number("base_sequence", self.base_sequence, 0, INT_MAX, may_be_none=True)
        check_number("transaction_version", self.transaction_version, 0, 2, may_be_none=True)
        check_number("coordinator_epoch", self.coordinator_epoch, 0, INT_MAX, may_be_none=True)
        check_number("leader_epoch", self.leader_epoch, 0, INT_MAX, may_be_none=True)
        check_word("ending", self.ending, Ending, may_be_none=True)
        check_several("needs_repack", self.needs_repack, str)
        if self.producer_id is None and (self.ending or self.base_sequence is not None):
            raise ValueError("ending and base_sequence need a producer_id")

    def for_log(self, record_version: int, rules: ClusterRules) -> AppendOptions:
        """Return them for a log of this message format, with what the cluster says where they are silent."""
        known = rules.transaction_version if self.transaction_version is None else self.transaction_version
        return replace(self, packing=replace(self.packing, magic=record_version), transaction_version=known)

    def packing_for(self, log: LogWriter) -> Packing:
        """Return how records become batches of the producer in a log."""
        if self.producer_id is None:
            return self.packing
        known = log.states.producers.get(self.producer_id)
        epoch = self.producer_epoch
        if epoch is None:
            epoch = max(0, known.epoch) if known else 0
        producer = Producer(self.producer_id, epoch, is_transactional=self.ending is not None, packing=self.packing)
        return producer.packing_for(log, self.base_sequence)


@dataclass(slots=True)
class Tally:
    """What was appended; offsets are absolute."""

    batches: int = 0
    records: int = 0
    markers: int = 0
    duplicates: int = 0
    first_offset: int | None = None
    last_offset: int = -1

    def add(self, info: AppendInfo, first_offset: int, records: int) -> None:
        """Count a batch; `first_offset` is where it begins unless the log says so itself."""
        if info.duplicate:
            self.duplicates += 1
            return
        if self.first_offset is None:
            self.first_offset = first_offset if info.first_offset == UNKNOWN_OFFSET else info.first_offset
        self.batches += 1
        self.records += records
        self.last_offset = info.last_offset


class Appended(NamedTuple):
    """What was appended of an input, and the log end offset then; `change` is as for Rolled.

    `rolled` are the base offsets of the segments that were begun.
    """

    tally: Tally
    change: str | None
    end_offset: int
    rolled: tuple[int, ...]


class Appender:
    """Appends items to a log; `tally` says how far it is."""

    def __init__(self, log: LogWriter, lines: Lines, options: AppendOptions) -> None:
        self.tally = Tally()
        self._log = log
        self._base_offset = log.active.base_offset
        self._lines = lines
        self._options = options
        self._packing = options.packing_for(log)
        self._held: Item | None = None

    def appended(self) -> Appended:
        """Return what was appended so far. Raises OSError."""
        rolled = (base for base in base_offsets(list_directory(self._log.path)[1]) if base > self._base_offset)
        return Appended(self.tally, self._log.change, self._log.end_offset, tuple(rolled))

    def run(self, items: Iterator[Item]) -> None:
        """Append everything. Raises KdumpError, with the line of the input in its text; OSError."""
        try:
            self._held = next(items, None)
            while self._held is not None:
                if isinstance(self._held, DumpedBatch):
                    self._append_batch(self._held, items)
                else:
                    self._pack(self._held, items)
            self._end()
        except InterchangeError:
            raise
        except MissingKeyError as error:
            raise RefusedError(
                f"{self._lines.name}, up to line {self._lines.number}: {error} The cleaner would drop it. Give every"
                " record a key; if the topic is not compacted, add --topic-config cleanup.policy=delete"
            ) from None
        except RefusedError as error:
            raise RefusedError(
                f"{self._lines.name}, up to line {self._lines.number}: {error}. Use an id below that; in a copy that no"
                " cluster will serve, add --any-producer-id"
            ) from None
        except KdumpError as error:
            kind = f"{error.exception}: " if isinstance(error, AppendError) else ""
            raise KdumpError(f"{self._lines.name}, up to line {self._lines.number}: {kind}{error}") from None

    def _pack(self, first: NewRecord, items: Iterator[Item]) -> None:
        """Pack records until the line of a batch comes."""
        if self._options.keeps_offsets:
            raise self._lines.error("a record without the line of its batch, by which --keep-offsets goes")
        for batch in pack(self._messages(first, items), self._packing):
            before = self._log.end_offset
            info = self._log.append_as_leader(batch, self._options.leader_epoch)
            self.tally.add(info, before, self._log.end_offset - before)

    def _messages(self, item: Item | None, items: Iterator[Item]) -> Iterator[Message]:
        self._held = None
        while isinstance(item, NewRecord):
            yield Message(item.value, item.key, item.timestamp, item.headers)
            item = next(items, None)
        self._held = item

    def _append_batch(self, batch: DumpedBatch, items: Iterator[Item]) -> None:
        """Append the batch of the input that comes next, with the records behind its line."""
        if self._options.needs_repack:
            raise self._lines.error(f"of a batch, and {self._options.needs_repack[0]} is for new ones: add --repack")
        records: list[NewRecord] = []
        size = 0
        item = next(items, None)
        while isinstance(item, NewRecord):
            records.append(item)
            size += len(item.key or b"") + len(item.value or b"")
            if size > MAX_BYTES:
                raise self._lines.error("more records after the line of a batch than a batch can have")
            item = next(items, None)
        self._held = item
        before = self._log.end_offset
        if self._options.keeps_offsets:
            info = self._log.append_as_follower(as_stored(batch, records, level=self._packing.level))
        elif records:
            data = as_sent(batch, records, level=self._packing.level)
            origin = AppendOrigin.COORDINATOR if batch.is_control else AppendOrigin.CLIENT
            info = self._log.append_as_leader(data, self._epoch(batch), origin)
        else:
            return
        self.tally.add(info, before, len(records))

    def _epoch(self, batch: DumpedBatch) -> int:
        """Return the leader epoch of a batch: never one before those in the log."""
        wanted, known = self._options.leader_epoch, self._log.epochs.latest_epoch if self._log.epochs else -1
        if wanted is not None:
            return wanted
        return self._log.leader_epoch if batch.leader_epoch < 0 else max(known, batch.leader_epoch)

    def _end(self) -> None:
        """End the producer's transaction, if it is to end."""
        options = self._options
        if options.ending in (Ending.COMMIT, Ending.ABORT):
            self._log.end_transaction(
                self._packing.producer_id,
                epoch_of_markers(self._packing.producer_epoch, options.transaction_version or 0),
                is_commit=options.ending == Ending.COMMIT,
                coordinator_epoch=options.coordinator_epoch,
                leader_epoch=options.leader_epoch,
            )
            self.tally.markers += 1

"""Transactions whose marker was lost with what salvage leaves out, and the ABORT markers that end them.

A transaction that is open where bytes are left out may have been ended right there; nothing in the log tells whether it
was committed. Two things are known: an entry of the .txnindex that a broker wrote says that a transaction was aborted
and at which offset, and offsets that no batch has any more are free for a marker.
"""

from __future__ import annotations

import os
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, pairwise
from typing import NamedTuple

from kdump.change.splice import spliced
from kdump.disk.reading import ReadOnlyFile
from kdump.formats import names
from kdump.formats.batch import ABORT, CONTROL, TRANSACTIONAL
from kdump.formats.index_entries import ABORTED_TXN_SIZE, ABORTED_TXN_VERSION, AbortedTxn, decode_aborted_txns
from kdump.formats.java_text import LONG_MAX
from kdump.formats.producer_snapshot import ProducerEntry
from kdump.recovery.producer_batches import RecoveredBatches
from kdump.recovery.producer_state import ProducerStates
from kdump.recovery.snapshots import SnapshotFiles
from kdump.storage.partition import PartitionLog
from kdump.storage.planned import PlannedPartition, content_of
from kdump.storage.planned_log import LogView
from kdump.storage.recipe import SourceBytes, parts_of
from kdump.storage.scan import MAX_RELATIVE_OFFSET

_MAX_TXNS = 1 << 20


class Gap(NamedTuple):
    """Offsets `first` to `last` (absolute) that are free where bytes are left out of the .log `name`, in the plan.

    `position` is the byte at which a new batch can stand there, `leader_epoch` that of the batch before. `open_txns`
    are the producers with a transaction that is open there.
    """

    name: str
    position: int
    first: int
    last: int
    leader_epoch: int
    open_txns: tuple[ProducerEntry, ...]


class NewMarker(NamedTuple):
    """An ABORT marker to be put into a gap, at the offset `offset`; `is_proven`: there was one, by the .txnindex."""

    gap: Gap
    offset: int
    producer: ProducerEntry
    is_proven: bool

    def __str__(self) -> str:
        producer = self.producer
        how = "a .txnindex shows that it was aborted there" if self.is_proven else "it may have lost its marker"
        return (
            f"an ABORT marker at offset {self.offset} ends the transaction of producer {producer.producer_id} from"
            f" offset {producer.current_txn_first_offset} on: {how}"
        )

    def encoded(self) -> bytes:
        """Return the control batch."""
        from kdump.formats.control import encode_marker
        from kdump.formats.encode import NewBatch, NewRecord, encode_batch

        producer = self.producer
        key, value = encode_marker(ABORT, max(0, producer.coordinator_epoch))
        header = NewBatch(
            TRANSACTIONAL | CONTROL,
            producer.producer_id,
            producer.producer_epoch,
            leader_epoch=self.gap.leader_epoch,
        )
        return encode_batch([NewRecord(self.offset, producer.timestamp, key, value)], header)


def proven_markers(gaps: Sequence[Gap], aborted: Iterable[AbortedTxn]) -> list[NewMarker]:
    """Return the markers that stood in gaps, by what transaction indexes tell of aborted transactions."""
    found: dict[tuple[int, int], NewMarker] = {}
    ends = [gap.last for gap in gaps]
    for txn in aborted:
        at = bisect_left(ends, txn.last_offset)
        if at == len(gaps) or txn.last_offset < gaps[at].first:
            continue
        for producer in gaps[at].open_txns:
            is_this = txn.first_offset <= producer.current_txn_first_offset < txn.last_offset
            if producer.producer_id == txn.producer_id and is_this:
                found[at, txn.last_offset] = NewMarker(gaps[at], txn.last_offset, producer, True)
    return [found[key] for key in sorted(found)]


def aborting_markers(gaps: Sequence[Gap], still_open: Iterable[ProducerEntry]) -> list[NewMarker]:
    """Return markers that abort the transactions open at the end, each in the last gap that may have had its marker.

    A transaction that begins behind all gaps with a free offset has lost none, and stays open.
    """
    used = [0] * len(gaps)
    markers = []
    for producer in sorted(still_open, key=lambda each: each.current_txn_first_offset):
        txn = (producer.producer_id, producer.current_txn_first_offset)
        for at in reversed(range(len(gaps))):
            gap = gaps[at]
            there = [each for each in gap.open_txns if (each.producer_id, each.current_txn_first_offset) == txn]
            if there and gap.first + used[at] <= gap.last:
                markers.append(NewMarker(gap, gap.first + used[at], there[0], False))
                used[at] += 1
                break
    return markers


def put(directory: PlannedPartition, markers: Iterable[NewMarker]) -> None:
    """Put markers into the logs of a planned directory."""
    in_order = sorted(markers, key=lambda each: (each.gap.name, each.gap.position, each.offset))
    for name, group in groupby(in_order, key=lambda each: each.gap.name):
        changes = [(each.gap.position, each.gap.position, each.encoded()) for each in group]
        directory.put(name, spliced(directory.files[name], changes))


def find_gaps(directory: PlannedPartition, removed: Iterable[int]) -> tuple[list[Gap], list[ProducerEntry]]:
    """Return where bytes are left out of a directory's logs, and the producers with a transaction open at the end.

    The logs must be such that a broker loads them. `removed` are the base offsets of segments of which nothing is
    kept. Raises OSError.
    """
    walk = _Walk(directory)
    gaps = list(walk.gaps(sorted(removed)))
    return gaps, walk.open_txns()


class _Walk:
    """One pass over all logs that follows the transactions."""

    def __init__(self, directory: PlannedPartition) -> None:
        self._directory = directory
        self._states = ProducerStates(SnapshotFiles(directory.copy()))
        self._next = 0  # the first offset behind what was walked
        self._leader_epoch = -1

    def open_txns(self) -> list[ProducerEntry]:
        """Return the producers with a transaction that is open now."""
        return [self._states.producers[each].entry(each) for each in self._states.open_txns.values()]

    def gaps(self, removed: Sequence[int]) -> Iterator[Gap]:
        """Yield the gaps with a free offset, in order."""
        bases = sorted(base for base, _ in names.live_logs(self._directory.names()))
        for base, following in pairwise((*bases, LONG_MAX)):
            name = names.segment_file_name(base, f".{names.LOG}")
            seams = _seams(self._directory, name)
            last = min(following - 1, base + MAX_RELATIVE_OFFSET)
            with LogView(self._directory, name) as view:
                batches = RecoveredBatches(self._states, view, name, lambda *_: None)
                edges = sorted({0, view.size, *seams})
                for block in (block for edge in pairwise(edges) for block in view.blocks(*edge) if block.length):
                    if block.position[0] in seams and block.count[0] >= 0:
                        yield from self._gap(name, block.position[0], base, block.base_offset[0] - 1)
                    batches.apply(block, 0, block.length)
                    self._next = block.last_offset[block.length - 1] + 1
                    self._leader_epoch = block.leader_epoch[block.length - 1]
            at = bisect_left(removed, base)
            if view.size in seams or (at < len(removed) and removed[at] < following):
                yield from self._gap(name, view.size, base, last)

    def _gap(self, name: str, position: int, base: int, last: int) -> Iterator[Gap]:
        first = max(self._next, base)
        if first <= last:
            yield Gap(name, position, first, last, self._leader_epoch, tuple(self.open_txns()))


def _seams(directory: PlannedPartition, name: str) -> set[int]:
    """Return the positions in a planned .log where bytes of the real file are left out."""
    seams = set()
    at = end = new = 0
    source = name if name in directory.source else ""
    for part in parts_of(directory.files[name]):
        if isinstance(part, SourceBytes):
            if part.start not in (end, end + new):  # as many new bytes stand for old ones
                seams.add(at)
            source, end, new = part.name, part.start + part.size, 0
        else:
            new += part.size
        at += part.size
    if source and _has_data(directory, source, min(end + new, directory.source[source])):
        seams.add(at)
    return seams


def _has_data(directory: PlannedPartition, source: str, start: int) -> bool:
    """Return whether there is anything but zeros in a real file from byte `start` on."""
    rest = SourceBytes(source, start, directory.source[source] - start)
    return any(piece.count(0) < len(piece) for piece in content_of(directory.path, rest))


def aborted_txns(log: PartitionLog) -> Iterator[AbortedTxn]:
    """Yield what a log's transaction indexes, as they are on disk, tell of aborted transactions. Raises OSError."""
    for name, parsed in log.files.items():
        if parsed.kind == names.TXN_INDEX and parsed.state == names.LIVE:
            with ReadOnlyFile(os.path.join(log.path, name)) as file:
                data = file.read(0, _MAX_TXNS * ABORTED_TXN_SIZE)
            yield from (txn for txn in decode_aborted_txns(data) if txn.version == ABORTED_TXN_VERSION)

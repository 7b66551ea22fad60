"""The files of a partition that salvage puts together again, in the plan, with what is left out of them so far."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

from kdump.change.plan import Cut
from kdump.change.splice import spliced
from kdump.errors import KdumpError, LoadError
from kdump.formats import names
from kdump.formats.batch import LENGTH_AT, MAGIC_AT
from kdump.formats.checkpoints import EpochEntry, parse_leader_epochs
from kdump.formats.names import parse_file_name
from kdump.formats.words import offset_range
from kdump.mend.leader_epochs import put_right, wrong_epochs
from kdump.mend.ranges import ByteRange, LeftOut
from kdump.mend.survey import Survey
from kdump.recovery.outcome import CHANGE, DELETE, LEAVE_OUT, MOVE, RENAME, Loss, Step, total_loss
from kdump.recovery.segments import file_name
from kdump.recovery.swaps import SwapLosses, losses_at_start
from kdump.settings.loading import LoadingSettings
from kdump.storage.partition import PartitionLog
from kdump.storage.planned import PlannedPartition
from kdump.storage.planned_log import LogView
from kdump.storage.recipe import Part, Recipe, SourceBytes, joined, parts_of, piece_of
from kdump.storage.scan import valid_entry
from kdump.storage.swaps import Span, complete_swaps, logs_of, replaced_by
from kdump.storage.valid_batches import valid_runs

OFFSET_SIZE = LENGTH_AT
"""Bytes of the offset that a batch begins with."""


class GivenUp(NamedTuple):
    """Bytes `start` to `stop` - 1 of the .log `file` that are given up, and why.

    `first_offset` and `last_offset` (absolute) are those that no batch has any more; None where nothing tells them.
    `is_valid`: they are valid batches, which are counted among what is dropped.
    """

    file: str
    start: int
    stop: int
    first_offset: int | None
    last_offset: int | None
    why: str
    is_valid: bool = False


class SalvagedFiles:
    """The files of a partition without what was found to be in the way so far; `limit` as for `salvaged`.

    `steps` tell what was done, `cuts` what is missing of the real files, `given_up` the damaged ranges of logs, and
    `removed` the base offsets of segments of which nothing can be kept. `swap_loss` is what a broker would lose that
    completes a swap which is taken out here.
    """

    def __init__(self, log: PartitionLog, found: Survey, limit: int, config: LoadingSettings) -> None:
        """`config` is that of the broker that loads the log."""
        self.directory = PlannedPartition(log)
        self.steps: list[Step] = []
        self.cuts: list[Cut] = []
        self.given_up: list[GivenUp] = []
        self.removed: list[int] = []
        self.swap_loss = Loss()
        self._found = found
        self._limit = limit
        self._config = config

    def sort_out_swaps(self, *, turns: bool) -> bool:
        """Take what cannot be trusted out of every .log that waits to replace others; whether one waits.

        Where what it is to replace is there and sound, all that waits goes if it is damaged or lacks what a broker
        would lose; where it `turns`, it goes in all other cases, and stays in these. Raises OSError.
        """
        waiting: dict[str, list[ByteRange | LeftOut]] = {}
        spans = []
        for name, offset in self._waiting_logs():
            waiting[name] = self._chosen(name, offset, None)
            lasts = (part.last_offset for part in waiting[name] if isinstance(part, ByteRange))
            spans.append((offset, max(lasts, default=offset) + 1))
        if not waiting:
            return False
        is_damaged = any(not isinstance(part, ByteRange) for parts in waiting.values() for part in parts)
        loss = total_loss(self._swap_losses().losses.values())
        has_originals = self._has_originals((min(spans)[0], max(stop for _, stop in spans)))
        stands_back = has_originals if is_damaged else loss.batches > 0 and (has_originals or self._has_all_of(waiting))
        if stands_back == turns:
            for name, parts in waiting.items():
                self._keep(name, parts)
        elif is_damaged:
            self._drop_swaps("the segments that it would replace are here and valid; the replacement is damaged")
        else:
            self.swap_loss = loss
            self._drop_swaps("the segments that it would replace are here, and have batches that it lacks")
        return True

    def _waiting_logs(self) -> Iterator[tuple[str, int]]:
        """Yield the .log files that a broker puts in the place of segments, with their base offsets."""
        offsets = {name: parse_file_name(name).offset for name in self.directory.names()}
        known = {name: offset for name, offset in offsets.items() if offset is not None}
        for name in logs_of(complete_swaps(known, known.__getitem__)[0]):
            yield name, known[name]

    def _has_originals(self, span: Span) -> bool:
        """Return whether the segments that a replacement is for are all there, and undamaged.

        They go one by one, the first of them first (UnifiedLog.replaceSegments).
        """
        logs = [name for name in replaced_by(span, self.directory.names()) if parse_file_name(name).kind == names.LOG]
        is_first_there = file_name(span[0], names.LOG) in logs
        return is_first_there and not self._found.damaged_logs.intersection(logs)

    def _swap_losses(self) -> SwapLosses:
        try:
            return losses_at_start(self.directory.copy(), self._config)
        except LoadError:  # which salvage meets again, and takes its cause out
            return SwapLosses({})

    def _has_all_of(self, waiting: Iterable[str]) -> bool:
        """Return whether the undamaged segments have every batch of the files that wait to replace others."""
        batches: set[tuple[int, int, int]] = set()
        for _, name in self.logs():
            if name not in self._found.damaged_logs:
                batches |= _identities(self.directory, name)
        return all(_identities(self.directory, name) <= batches for name in waiting)

    def _drop_swaps(self, why: str) -> None:
        for name in [name for name in self.directory.names() if name.endswith(f".{names.SWAP}")]:
            self.directory.delete(name, why)
            self.steps.append(Step(DELETE, name, why))

    def sort_out_logs(self) -> None:
        """Take what cannot be trusted out of every .log, from the last one on, for each bounds the one before."""
        next_base = None
        last_offsets: dict[int, int] = {}
        logs = sorted(self.logs(), reverse=True)
        is_dense = all(self.directory.size(name) for _, name in logs)
        for base, name in logs:
            is_as_walked = self._is_as_walked(name)
            if is_dense and is_as_walked and name not in self._found.damaged_logs:
                next_base = base
                continue
            # what comes from a .swap nobody has verified
            faults, suspects = (self._found.faults(name), self._found.suspects(name)) if is_as_walked else ([], None)
            parts = self._chosen(name, base, next_base, faults, suspects)
            self._note(name, parts, base, next_base)
            self._keep(name, parts)
            kept = [part.last_offset for part in parts if isinstance(part, ByteRange)]
            if kept:
                next_base, last_offsets[base] = base, kept[-1]
            elif parts and name != logs[0][1]:
                self._remove_segment(base, name, "nothing of the segment can be kept")
                self.removed.append(base)
        self._remove_overtaken(last_offsets)
        wrong = wrong_epochs(self.directory, [name for _, name in sorted(self.logs())])
        put_right(self.directory, wrong)
        self.steps += (Step(CHANGE, each.name, str(each), position=each.position) for each in wrong)

    def _chosen(
        self,
        name: str,
        base: int,
        next_base: int | None,
        faults: Sequence[tuple[int, str]] = (),
        suspects: frozenset[int] | None = None,
    ) -> list[ByteRange | LeftOut]:
        from kdump.mend.salvage import choose_batches

        with LogView(self.directory, name) as view:
            return list(
                choose_batches(
                    view,
                    base,
                    next_base,
                    faults,
                    self._limit,
                    suspects,
                    epoch_starts=self._epoch_starts,
                    is_copy=lambda part: (part.stop - part.start, part.crc) in self._repeated,
                )
            )

    @cached_property
    def _epoch_starts(self) -> tuple[EpochEntry, ...]:
        """The entries of leader-epoch-checkpoint; none where it cannot be read."""
        name = names.LEADER_EPOCH_CHECKPOINT
        try:
            return tuple(parse_leader_epochs(self.directory.read(name), name)) if self.directory.exists(name) else ()
        except KdumpError:
            return ()

    @cached_property
    def _repeated(self) -> frozenset[tuple[int, int]]:
        """What is in more than one batch of the .log files: size in bytes, and CRC."""
        contents: Counter[tuple[int, int]] = Counter()
        for _, name in self.logs():
            with LogView(self.directory, name) as view:
                for block, first, stop in valid_runs(view):
                    contents.update(zip(block.size[first:stop], block.crc[first:stop], strict=True))
        return frozenset(content for content, number in contents.items() if number > 1)

    def _is_as_walked(self, name: str) -> bool:
        """Return whether a .log is the very file that verification has walked."""
        return self.directory.files[name] == SourceBytes(name, 0, self.directory.source.get(name, -1))

    def _remove_overtaken(self, last_offsets: Mapping[int, int]) -> None:
        """Remove the empty segments that begin before the batches of an earlier one end: offsets would come again."""
        end = -1
        for base, name in sorted(self.logs()):
            if base in last_offsets:
                end = last_offsets[base]
            elif base <= end:
                self._remove_segment(base, name, f"the segment is empty, and the ones before it reach offset {end}")

    def _remove_segment(self, base: int, name: str, why: str) -> None:
        self.steps.append(Step(DELETE, name, why))
        for kind in (names.LOG, *names.INDEX_KINDS):
            self.directory.delete(file_name(base, kind), why)

    def logs(self) -> list[tuple[int, str]]:
        """Return the .log files of segments as they are now, with their base offsets."""
        return names.live_logs(self.directory.names())

    def _keep(self, name: str, parts: Sequence[ByteRange | LeftOut]) -> None:
        recipe = self.directory.files[name]
        kept: list[Part] = []
        for part in parts:
            if isinstance(part, LeftOut):
                self._leave_out(name, recipe, part)
                continue
            piece = piece_of(recipe, part.start, part.stop - part.start)
            if part.stored_offset is not None:
                piece = spliced(piece, [(0, OFFSET_SIZE, self._stored_offset(name, part))])
                why = (
                    f"batch {offset_range(part.first_offset, part.last_offset)} has offset {part.stored_offset} in its"
                    f" header, which no CRC covers: its place in the log gives it {part.first_offset}"
                )
                self.steps.append(Step(CHANGE, name, why, position=part.start))
            kept += parts_of(piece)
            if part.is_moved:
                why = f"batch {offset_range(part.first_offset, part.last_offset)} stands where others belong"
                self.steps.append(Step(MOVE, name, why, position=part.start))
        if joined(kept) != recipe:
            self.directory.put(name, joined(kept))

    def _stored_offset(self, name: str, part: ByteRange) -> bytes:
        """Return the first field of a batch that has these offsets: a message of v0 or v1 stores the last one."""
        magic = self.directory.read(name, part.start + MAGIC_AT, 1)[0]
        return (part.first_offset if magic >= 2 else part.last_offset).to_bytes(OFFSET_SIZE, "big")

    def _note(
        self, name: str, parts: Sequence[ByteRange | LeftOut], base_offset: int, next_base: int | None
    ) -> None:
        """Note what a .log loses, with the offsets that are free where each damaged range is."""
        first = base_offset
        for number, part in enumerate(parts):
            if isinstance(part, ByteRange):
                first = part.last_offset + 1
            elif part.valid is None:
                following = next((each for each in parts[number + 1 :] if isinstance(each, ByteRange)), None)
                stop = following.first_offset if following else next_base
                last = None if stop is None else stop - 1
                is_valid = self._is_valid(name, part)
                self.given_up.append(GivenUp(name, part.start, part.stop, first, last, part.why, is_valid))

    def _is_valid(self, name: str, part: LeftOut) -> bool:
        """Return whether the bytes are a batch whose CRC holds, though its records cannot be read."""
        with LogView(self.directory, name) as view:
            entry = valid_entry(view, part.start, part.stop)
        return entry is not None and entry.size[0] == part.stop - part.start

    def _leave_out(self, name: str, recipe: Recipe, part: LeftOut) -> None:
        size = part.stop - part.start
        self._cut(piece_of(recipe, part.start, size), part.why)
        loss = Loss(size, size if self._found.is_zeros(name, part.start) else 0)
        self.steps.append(Step(LEAVE_OUT, name, part.why, position=part.start, loss=loss))

    def put_indexes(self) -> None:
        """Put empty indexes where there are none: a segment without one is loaded twice, and before those before it."""
        for base, _ in self.logs():
            index = file_name(base, names.OFFSET_INDEX)
            if not self.directory.exists(index):
                self.directory.write(index, b"")

    def leave_out_batch(self, name: str, position: int, size: int, why: str) -> bool:
        """Take a batch of `size` bytes at byte `position` out of a .log; whether it is there. Raises OSError."""
        recipe = self.directory.files[name]
        if size <= 0 or position + size > recipe.size:
            return False
        self._leave_out(name, recipe, LeftOut(position, position + size, why))
        self.directory.put(name, spliced(recipe, [(position, position + size, b"")]))
        return True

    def leave_out_file(self, name: str, why: str) -> None:
        """Take a file out."""
        self._cut(self.directory.files[name], why)
        self.directory.delete(name, why)
        self.steps.append(Step(DELETE, name, why))

    def rename_file(self, name: str, right: str, why: str) -> None:
        """Give a file another name, which none has."""
        self.directory.rename(name, right)
        self.steps.append(Step(RENAME, name, why))

    def _cut(self, recipe: Recipe, why: str) -> None:
        """Note as missing what a recipe takes of real files."""
        sources = (part for part in parts_of(recipe) if isinstance(part, SourceBytes))
        self.cuts += (Cut(source.name, source.start, source.start + source.size, why) for source in sources)


def _identities(directory: PlannedPartition, name: str) -> set[tuple[int, int, int]]:
    """Return last offset (absolute), size in bytes and CRC of the valid batches of a .log. Raises OSError."""
    with LogView(directory, name) as view:
        return {
            (block.last_offset[row], block.size[row], block.crc[row])
            for block, first, stop in valid_runs(view)
            for row in range(first, stop)
        }

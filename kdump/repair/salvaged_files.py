"""The files of a partition that salvage puts together again, in the plan, with what is left out of them so far."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kdump.change.plan import Cut
from kdump.change.splice import spliced
from kdump.formats import names
from kdump.formats.java_text import LONG_MAX
from kdump.formats.names import parse_file_name
from kdump.formats.words import offset_range
from kdump.named_tuples import NamedTuple
from kdump.recovery.outcome import CHANGE, DELETE, LEAVE_OUT, MOVE, Loss, Step
from kdump.recovery.segments import file_name
from kdump.repair.duplicates import MisplacedBatch, misplaced_batches, without_copy
from kdump.repair.leader_epochs import put_right, wrong_epochs
from kdump.repair.ranges import ByteRange, LeftOut
from kdump.repair.survey import Survey
from kdump.storage.partition import PartitionLog
from kdump.storage.planned import PlannedPartition
from kdump.storage.planned_log import LogView
from kdump.storage.recipe import Part, Recipe, SourceBytes, joined, parts_of, piece_of
from kdump.storage.swaps import Span, replaced_by


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
    `removed` the base offsets of segments of which nothing can be kept.
    """

    def __init__(self, log: PartitionLog, found: Survey, limit: int) -> None:
        self.directory = PlannedPartition(log)
        self.steps: list[Step] = []
        self.cuts: list[Cut] = []
        self.given_up: list[GivenUp] = []
        self.removed: list[int] = []
        self._found = found
        self._limit = limit
        self._misplaced: list[MisplacedBatch] = []
        self._kept_ranges: list[tuple[int, int, str]] = []

    def sort_out_swaps(self) -> None:
        """Take what cannot be trusted out of every .log that waits to replace others. Raises OSError.

        Where what it is to replace is there and sound, all that waits goes.
        """
        waiting: dict[str, list[ByteRange | LeftOut]] = {}
        spans = []
        for name in self.directory.names():
            parsed = parse_file_name(name)
            if parsed.kind == names.LOG and parsed.state == names.SWAP and parsed.offset is not None:
                waiting[name] = self._chosen(name, parsed.offset, None)
                lasts = (part.last_offset for part in waiting[name] if isinstance(part, ByteRange))
                spans.append((parsed.offset, max(lasts, default=parsed.offset) + 1))
        is_damaged = any(not isinstance(part, ByteRange) for parts in waiting.values() for part in parts)
        if is_damaged and self._has_originals((min(spans)[0], max(stop for _, stop in spans))):
            self._drop_swaps()
            return
        for name, parts in waiting.items():
            self._keep(name, parts)

    def _has_originals(self, span: Span) -> bool:
        """Return whether the segments that a replacement is for are all there, and undamaged.

        They go one by one, the first of them first (UnifiedLog.replaceSegments).
        """
        logs = [name for name in replaced_by(span, self.directory.names()) if parse_file_name(name).kind == names.LOG]
        is_first_there = file_name(span[0], names.LOG) in logs
        return is_first_there and not self._found.damaged_logs.intersection(logs)

    def _drop_swaps(self) -> None:
        why = "the segments that it would replace are here and valid; the replacement is damaged"
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
                self._kept_ranges.append((base, LONG_MAX if next_base is None else next_base - 1, name))
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
        from kdump.repair.salvage import choose_batches

        with LogView(self.directory, name) as view:
            return list(choose_batches(view, base, next_base, faults, self._limit, suspects))

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
            kept += parts_of(piece_of(recipe, part.start, part.stop - part.start))
            if part.is_moved:
                why = f"batch {offset_range(part.first_offset, part.last_offset)} stands where others belong"
                self.steps.append(Step(MOVE, name, why, position=part.start))
        if joined(kept) != recipe:
            self.directory.put(name, joined(kept))

    def _note(
        self, name: str, parts: Sequence[ByteRange | LeftOut], base_offset: int, next_base: int | None
    ) -> None:
        """Note what a .log loses, with the offsets that are free where each damaged range is."""
        first = base_offset
        for number, part in enumerate(parts):
            if isinstance(part, ByteRange):
                first = part.last_offset + 1
                self._kept_ranges.append((part.first_offset, part.last_offset, name))
            elif part.valid is not None:
                start = part.valid.first_offset
                self._misplaced += misplaced_batches(self.directory, name, part.start, part.stop, start)
            else:
                following = next((each for each in parts[number + 1 :] if isinstance(each, ByteRange)), None)
                stop = following.first_offset if following else next_base
                last = None if stop is None else stop - 1
                self.given_up.append(GivenUp(name, part.start, part.stop, first, last, part.why))

    def dropped(self) -> Loss:
        """Return the valid batches that fit nowhere, but those that are there twice. Raises OSError."""
        return without_copy(self.directory, self._misplaced, self._kept_ranges)

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
        self._misplaced += misplaced_batches(self.directory, name, position, position + size)
        self._leave_out(name, recipe, LeftOut(position, position + size, why))
        self.directory.put(name, spliced(recipe, [(position, position + size, b"")]))
        return True

    def leave_out_file(self, name: str, why: str) -> None:
        """Take a file out."""
        self._cut(self.directory.files[name], why)
        self.directory.delete(name, why)
        self.steps.append(Step(DELETE, name, why))

    def _cut(self, recipe: Recipe, why: str) -> None:
        """Note as missing what a recipe takes of real files."""
        sources = (part for part in parts_of(recipe) if isinstance(part, SourceBytes))
        self.cuts += (Cut(source.name, source.start, source.start + source.size, why) for source in sources)

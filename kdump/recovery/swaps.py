"""The first steps of log loading: leftovers of deletions, of the cleaner and of swaps."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from kdump.errors import NUMBER_FORMAT, LoadError
from kdump.formats import names
from kdump.formats.java_text import LONG_MAX
from kdump.formats.names import offset_in_name
from kdump.recovery.outcome import DELETE, RENAME, Loss, Step, total_loss
from kdump.recovery.segments import LoadedSegment
from kdump.settings.loading import LoadingSettings
from kdump.storage.damage import Damage, is_zero_tail
from kdump.storage.planned import PlannedPartition
from kdump.storage.planned_log import LogView
from kdump.storage.scan import scan
from kdump.storage.swaps import Span, complete_swaps, logs_of, replaced_by

_DELETED, _CLEANED, _SWAP = f".{names.DELETED}", f".{names.CLEANED}", f".{names.SWAP}"


def clear_leftovers(directory: PlannedPartition, config: LoadingSettings, steps: list[Step]) -> None:
    """Remove what was being deleted or cleaned, and complete or undo the replacement of segments.

    Which of the .swap files are complete is kdump.storage.swaps' to say. Raises LoadError, OSError.
    """
    every = directory.names()
    for name in every:
        if name.endswith(_DELETED) and not name.endswith(f".{names.KRAFT_SNAPSHOT}{_DELETED}"):
            _delete(directory, name, "it was scheduled for deletion", steps)
    swaps, undone = complete_swaps(every, _offset)
    for name in undone:
        _delete(directory, name, "the replacement that it belongs to was not complete", steps)
    for name in every:
        if name.endswith(_CLEANED):
            _delete(directory, name, "it is the unfinished work of the cleaner or of a split", steps)
    span = _range(directory, logs_of(swaps), config)
    _make_room(directory, span, swap_losses(directory, swaps, span), steps)
    for name in (name for name in directory.names() if name.endswith(_SWAP)):
        new_name = name.removesuffix(_SWAP)
        directory.rename(name, new_name)
        steps.append(Step(RENAME, name, f"the swap is complete: it becomes {new_name}", size=directory.size(new_name)))


def _make_room(directory: PlannedPartition, span: Span | None, lost: SwapLosses, steps: list[Step]) -> None:
    """Remove what complete .swap files replace, which stand for the offsets of `span`; `lost` is what goes with it."""
    losses = dict(lost.losses)
    if span is not None:
        why = f"a complete swap replaces the offsets from {span[0]} to {span[1] - 1}"
        for name in replaced_by(span, directory.names()):
            loss = losses.pop(name, None)
            directory.delete(name, why)
            steps.append(Step(DELETE, name, f"{why}, {lost.why}" if loss else why, loss=loss))
    for name, loss in losses.items():  # without a batch, a swap stands for no offsets, but takes a name
        steps.append(Step(DELETE, name, f"a complete swap takes its place, {lost.why}", loss=loss))


def _range(directory: PlannedPartition, logs: Iterable[str], config: LoadingSettings) -> Span | None:
    """Return the offsets that the .log.swap files stand for: the lowest base offset to the highest next offset."""
    size, search = config.segment_index_bytes, config.offset_search
    segments = [LoadedSegment(directory, _offset(name), size, _SWAP, search=search) for name in logs]
    if not segments:
        return None
    return min(segment.base_offset for segment in segments), max(segment.next_offset() for segment in segments)


class SwapLosses(NamedTuple):
    """What goes with the .log files that .swap files replace, by the name of the .log, and why they do not have it."""

    losses: dict[str, Loss]
    why: str = ""


def swap_losses(directory: PlannedPartition, swaps: Iterable[str], span: Span | None) -> SwapLosses:
    """Return what is lost when complete .swap files, which stand for the offsets of `span`, replace segments.

    The cleaner leaves offsets out of its replacement, a split does not. So no batch is lost that is missing in one with
    empty offsets; but all are that it does not have if it has none, from where it is damaged on, and if a batch of it
    has other offsets than the same one in the segments: a broker believes these. Raises OSError.
    """
    waiting = logs_of(swaps)
    targets = {name.removesuffix(_SWAP) for name in waiting} & set(directory.names())
    replaced = sorted(targets.union(() if span is None else _logs(replaced_by(span, directory.names()))))
    if not replaced:
        return SwapLosses({})
    new = _Replacement(directory, waiting)
    old = {name: list(_batches(directory, name)) for name in replaced}
    own = {batch for batches in old.values() for batch in batches}
    contents = {(batch.size, batch.crc) for batch in own}
    if any((batch.size, batch.crc) in contents and batch not in own for batch in new.batches):
        new.is_cleaned = False
    losses = {name: _loss(batch for batch in batches if not new.covers(batch)) for name, batches in old.items()}
    why = f"which is damaged: {new.damage}" if new.damage else "which does not have all of them"
    return SwapLosses({name: loss for name, loss in losses.items() if loss.batches}, why)


def losses_at_start(directory: PlannedPartition, config: LoadingSettings) -> SwapLosses:
    """Return what is lost when a broker that starts completes the swaps of a directory. Raises LoadError, OSError."""
    swaps, _ = complete_swaps(directory.names(), _offset)
    return swap_losses(directory, swaps, _range(directory, logs_of(swaps), config))


class _Batch(NamedTuple):
    first_offset: int
    last_offset: int
    size: int
    crc: int
    records: int


class _Replacement:
    """What is in .log.swap files: their `batches`, and where the first `damage` is, as text.

    `is_cleaned`: there are empty offsets in them, which the cleaner leaves.
    """

    def __init__(self, directory: PlannedPartition, names_: Sequence[str]) -> None:
        self.batches: list[_Batch] = []
        self.damage = ""
        self._damaged_from = LONG_MAX
        for name in sorted(names_):
            for part in _parts(directory, name):
                if isinstance(part, _Batch):
                    self.batches.append(part)
                elif not self.damage:
                    self.damage = f"{name}, byte {part.position}: {part.text}"
                    self._damaged_from = self.batches[-1].last_offset + 1 if self.batches else 0
        self._covered = _joined(self.batches)
        self.is_cleaned = bool(self._covered) and (
            len(self._covered) > 1
            or self._covered[0][0] > min(map(_offset, names_))
            or any(batch.records < batch.last_offset - batch.first_offset + 1 for batch in self.batches)
        )

    def covers(self, batch: _Batch) -> bool:
        """Return whether nothing is lost with a batch of the segments that are replaced."""
        if self.is_cleaned and batch.last_offset < self._damaged_from:
            return True
        at = bisect_right(self._covered, (batch.first_offset, LONG_MAX)) - 1
        return at >= 0 and batch.last_offset <= self._covered[at][1]


def _logs(files: Iterable[str]) -> list[str]:
    return [name for name in files if name.endswith(f".{names.LOG}")]


def _joined(batches: Iterable[_Batch]) -> list[Span]:
    """Return the ranges of offsets, first and last, that batches have without a gap between them."""
    ranges: list[Span] = []
    for batch in sorted(batches):
        if ranges and batch.first_offset <= ranges[-1][1] + 1:
            ranges[-1] = ranges[-1][0], max(ranges[-1][1], batch.last_offset)
        else:
            ranges.append((batch.first_offset, batch.last_offset))
    return ranges


def _batches(directory: PlannedPartition, name: str) -> Iterator[_Batch]:
    return (part for part in _parts(directory, name) if isinstance(part, _Batch))


def _parts(directory: PlannedPartition, name: str) -> Iterator[_Batch | Damage]:
    with LogView(directory, name) as log:
        for part in scan(log, _offset(name), whole=False):
            if isinstance(part, Damage):
                if not is_zero_tail(part, log):
                    yield part
                continue
            block = part.block
            for row in range(part.first, part.stop):
                last, count = block.last_offset[row], block.count[row]
                first = last if block.base_offset[row] < 0 else block.base_offset[row]
                yield _Batch(first, last, block.size[row], block.crc[row], last - first + 1 if count < 0 else count)


def _loss(batches: Iterable[_Batch]) -> Loss:
    return total_loss(
        Loss(batch.size, 0, 1, batch.records, batch.first_offset, batch.last_offset) for batch in batches
    )


def _offset(name: str) -> int:
    offset = offset_in_name(name)
    if offset is None:
        raise LoadError(NUMBER_FORMAT, f'For input string: "{name.partition(".")[0]}"', name)
    return offset


def _delete(directory: PlannedPartition, name: str, why: str, steps: list[Step]) -> None:
    directory.delete(name, why)
    steps.append(Step(DELETE, name, why))

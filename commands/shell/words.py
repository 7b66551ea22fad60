"""Facts of the core in words, as several commands say them."""

from __future__ import annotations

from kdump.recovery.outcome import Loss

from .output import number_words


def offset_range(first: int | None, last: int | None) -> str:
    """Offsets, or positions, from `first` to `last`, both of them included."""
    return str(first) if first == last else f"{first}\N{EN DASH}{last}"


def loss_words(loss: Loss, *, offsets: bool = True) -> str:
    """A loss in words; without `offsets` only how much it is."""
    if loss.zeros and not loss.has_data:
        return number_words(loss.zeros, "zero byte")
    if not loss.batches:
        return f"{number_words(loss.bytes, 'byte')} without a complete batch"
    batches = number_words(loss.batches, "valid batch", "valid batches")
    where = f", offsets {offset_range(loss.first_offset, loss.last_offset)}" if offsets else ""
    return f"{number_words(loss.bytes, 'byte')} with {batches} of {number_words(loss.records, 'record')}{where}"

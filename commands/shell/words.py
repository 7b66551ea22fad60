"""Facts of the core in words, as several commands say them."""

from __future__ import annotations

from kdump.findings.kind import Remedy
from kdump.formats.words import number_words, offset_range
from kdump.recovery.outcome import Loss


def loss_words(loss: Loss, *, offsets: bool = True) -> str:
    """A loss in words; without `offsets` only how much it is."""
    if loss.zeros and not loss.has_data:
        return number_words(loss.zeros, "zero byte")
    if not loss.batches:
        return f"{number_words(loss.bytes, 'byte')} without a complete batch"
    batches = number_words(loss.batches, "valid batch", "valid batches")
    where = f", offsets {offset_range(loss.first_offset, loss.last_offset)}" if offsets else ""
    return f"{number_words(loss.bytes, 'byte')} with {batches} of {number_words(loss.records, 'record')}{where}"


def way_out(remedy: Remedy, path: str) -> str:
    """A way out in sentences, with what it loses; `path` is safe already."""
    command = " ".join(remedy.words(path))
    said = f"{command} ({remedy.note})" if command and remedy.note else command or remedy.note
    return f"{said[:1].upper()}{said[1:]}. Loses {remedy.loses}." if not command else f"{said}. Loses {remedy.loses}."

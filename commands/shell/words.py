"""Facts of the core in words, as several commands say them."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from kdump.findings.kind import Remedy
from kdump.formats.printable import command_line, safe, safe_path
from kdump.formats.words import byte_words, number_words, offset_range

from . import exit_codes
from .output import quoted

if TYPE_CHECKING:
    from kdump.change.change import Change
    from kdump.cluster.wanted import Refusal
    from kdump.recovery.outcome import Loss


def verdict(code: int, found: Sequence[str], fine: str) -> str:
    """Return the last line of a check that exits with `code`: what was found, or what is fine.

    Where something could not be read, stderr says so, and nothing here is called OK.
    """
    if found:
        return f"FOUND: {', '.join(found)}."
    if code == exit_codes.FINDINGS:
        return f"FOUND: damage. {fine}."
    return f"OK. {fine}." if code == exit_codes.OK else f"{fine}."


def refusal_lines(refusals: Iterable[Refusal]) -> Iterator[str]:
    """Yield what stands in the way of a plan, and what to do about each."""
    yield "\nIn the way:"
    for number, refusal in enumerate(refusals, 1):
        yield f"  {number}  {safe(refusal.subject)}: {safe(refusal.reason)}"
        yield f"     do: {safe(refusal.way_out)}"


ORIGINALS_KEPT = "the originals are kept, and use their space until kdump undo --prune"


def places(partitions: Iterable[str]) -> str:
    """Return a partition directory, or the log directories around several, as words of a command."""
    found = sorted(set(partitions))
    if len(found) > 1:
        found = sorted({os.path.dirname(path) or "." for path in found})
    return " ".join(map(quoted, found))


def places_by_change(changes: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return the places of changes by their ids; `changes` has each partition's path and the id, old ones first."""
    paths: dict[str, list[str]] = {}
    for path, id_ in changes:
        paths.setdefault(id_, []).append(path)
    return {id_: places(found) for id_, found in paths.items()}


def undoable(changes: Iterable[tuple[str, Change]]) -> Iterator[tuple[str, str]]:
    """Yield the path of the partition and the id of each change that undo takes back."""
    return ((path, change.id) for path, change in changes if change.keeps_old)


def check_and_undo(check: str, undo: Mapping[str, str]) -> Iterator[str]:
    """Yield what follows on what was applied: the command that checks it, and those that undo it, the last one first.

    `undo` has the places of each change by its id.
    """
    yield f"Check: kdump {check}"
    for id_, where in reversed([*undo.items()]):
        yield f"Undo:  kdump undo {where} --change {quoted(id_)}"


def start_words(who: str, stops: object, offline: Collection[str], directories: Collection[str] = ()) -> str:
    """Return whether the broker starts, as the beginning of a sentence: what `stops` it, which disks it starts without.

    `directories` are the log directories that were looked at.
    """
    if stops:
        return f"{who} will NOT start"
    if not offline:
        return f"{who} will start"
    paths = ", ".join(map(safe_path, offline))
    is_all = directories and set(directories) <= set(offline)
    return f"{who} will NOT start if {paths} is all it has" if is_all else f"{who} starts without {paths}"


def interrupted_words(change: Change, *, is_finished: bool) -> str:
    """Return that a change was interrupted, and is finished now, or how it will be."""
    how = ", and is finished now" if is_finished else ": --apply finishes it"
    return f"change {change.id} ({safe(change.command)}) was interrupted{how}"


def loss_words(loss: Loss) -> str:
    """Return a loss in words."""
    if loss.zeros and not loss.has_data:
        return number_words(loss.zeros, "zero byte")
    if not loss.batches:
        return f"{byte_words(loss.bytes)} of damaged or incomplete batches"
    batches = number_words(loss.batches, "valid batch", "valid batches")
    records, offsets = number_words(loss.records, "record"), offset_range(loss.first_offset, loss.last_offset)
    return f"{byte_words(loss.bytes)} with {batches} of {records}, offsets {offsets}"


def way_out(remedy: Remedy, path: str) -> str:
    """Return a way out in sentences, with what it loses."""
    command = command_line(*remedy.words(path))
    if not command:
        return f"{remedy.note[:1].upper()}{remedy.note[1:]}. Loses {remedy.loses}."
    return f"{command} ({remedy.note}). Loses {remedy.loses}." if remedy.note else f"{command} (loses {remedy.loses})"

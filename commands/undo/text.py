"""Changes for people: a list, what undoing one does, what is deleted."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from kdump.change.change import Change
from kdump.change.plan import CHECKPOINT, REMOVE, RENAME, REPLACE, Operation
from kdump.change.undo import Verdict
from kdump.formats.printable import command_line, safe, safe_path
from kdump.formats.time_units import MS, wall_clock
from kdump.formats.words import duration, number_words, size_text
from kdump.mend.task import FIX_BIT, SALVAGE, TRUNCATE_LOG
from kdump.operations.undo import Closed, Listed, Pruned, Undone

from ..shell.line_budget import LineBudget, more_similar
from ..shell.output import again, nothing_changed
from ..shell.tables import aligned
from ..shell.words import check_and_undo

if TYPE_CHECKING:
    from .command import UndoArgs

_HEADER = ("CHANGE", "PARTITION", "COMMAND", "AGE", "KEEPS", "STATE")


class Text:
    """Prints changes for people."""

    def __init__(
        self, write: Callable[[str], None], asked: UndoArgs, shown: Callable[[str], str], paths: tuple[str, ...]
    ) -> None:
        """`write` takes whole lines."""
        self._shown = shown
        self._write = write
        self._asked = asked
        self._paths = " ".join(map(safe_path, paths))
        self._now = wall_clock()
        self._changes: list[Listed] = []
        self._count = self._size = self._total = 0
        self._by: list[Change] = []
        self._is_read = False
        self._budget = LineBudget(is_all=asked.verbose)
        self._unlisted = 0

    def listed(self, changes: Iterable[Listed]) -> None:
        """Collect the changes below one PATH."""
        self._is_read = True
        known = {each.change.files for each in self._changes}
        self._changes += [each for each in changes if each.change.files not in known]

    def undone(self, done: Undone) -> None:
        """Print one change."""
        self._count += 1
        if done.by is not None:
            self._by.append(done.by)
        path = safe_path(self._shown(done.change.path))
        if done.is_finished:
            how = "finished" if done.is_done else "would be finished"
            self._line(f"{path}  an interrupted undo of change {done.change.id} {how}\n")
            return
        self._line(f"{path}  {_summary(done.operations)}\n")
        if self._asked.verbose:
            for operation in done.operations:
                self._write(f"  {operation.action:<10}  {safe(operation.name)}\n")

    def closed(self, done: Closed) -> None:
        """Print one change."""
        self._count += 1
        path = safe_path(self._shown(done.change.path))
        self._line(f"{path}  stays as it is now; change {done.change.id} ends, its originals stay kept\n")

    def pruned(self, done: Pruned) -> None:
        """Print one change."""
        self._count += 1
        self._size += done.size
        name, size = safe(os.path.basename(done.path)), size_text(done.size)
        self._line(f"{name}  deletes the originals of {done.kept.id} ({size})\n")

    def _line(self, line: str) -> None:
        """Print a line of a list, unless it is longer than a screen."""
        if self._budget.takes():
            self._write(line)
        else:
            self._unlisted += 1

    def end(self, reason: str) -> None:
        """Print the last lines; `reason` is why something was refused or could not be done, "" for nothing."""
        asked = self._asked
        if self._unlisted:
            self._write(f"{more_similar(self._unlisted)}\n")
        if asked.id is None and not asked.prune:
            self._list(reason)
        elif self._count and not asked.applies:
            done = f"deleted. {number_words(self._count, 'change')} would be." if asked.prune else "changed."
            self._write(f"Dry run: nothing was {done}\nNext: {again('--apply')}\n")
        elif self._count and asked.prune:
            self._write(f"Done. {number_words(self._count, 'change')} pruned, {size_text(self._size)} freed.\n")
        elif self._count:
            partitions = number_words(self._count, "partition")
            self._write(f"Done. {partitions} {'left as is' if asked.close else 'restored'}.\n")
            undo = dict.fromkeys(sorted(change.id for change in self._by), self._paths)
            self._write("".join(f"{line}\n" for line in check_and_undo(f"verify {self._paths}", undo)))
        elif reason:
            self._write(nothing_changed(reason))
        else:
            self._write("Nothing to do.\n")

    def _list(self, reason: str) -> None:
        rows = list(self._rows())
        if not rows:
            is_read = self._is_read or not reason
            self._write("No changes are kept here.\n" if is_read else "Nothing was read.\n")
            return
        for line in aligned(_HEADER, rows, right=("AGE", "KEEPS"), drop=("AGE", "KEEPS")):
            self._write(line)
        partitions = {each.change.path for each in self._changes}
        number = len(self._changes)
        size = size_text(self._total)
        verb = "keeps" if number == 1 else "keep"
        changes, where = number_words(number, "change"), number_words(len(partitions), "partition")
        self._write(f"{changes} in {where} {verb} {size}.\n")
        interrupted = [each for each in self._changes if each.judged.verdict == Verdict.INTERRUPTED]
        for change, judged in interrupted[:1]:
            self._write(f"Next: {_next(change, self._shown(change.path), judged.why)}\n")

    def _rows(self) -> Iterable[tuple[str, ...]]:
        """Yield a row for each change; partitions that one run changed alike share it unless each is to have one."""
        groups: dict[tuple[str, ...], list[Listed]] = {}
        for each in self._changes:
            change = each.change
            key = (change.id, change.command, each.judged.verdict)
            groups.setdefault((*key, change.path) if self._asked.verbose else key, []).append(each)
        for found in groups.values():
            first = found[0].change
            more = f" and {len(found) - 1} more" if len(found) > 1 else ""
            size = sum(each.change.kept_bytes for each in found)
            self._total += size
            name = safe(os.path.basename(first.path)) + more
            age = _age(self._now - first.begun)
            yield first.id, name, safe(first.command), age, size_text(size), found[0].judged.verdict


def _age(ms: int) -> str:
    return duration(ms - ms % MS["s"]) if ms >= MS["s"] else "now"


def _next(change: Change, path: str, why: str) -> str:
    if why:
        close = command_line("kdump", "undo", path, "--change", change.id, "--close")
        return f"{close} (keeps the partition as it is now)"
    if change.undoes:
        undo = command_line("kdump", "undo", path, "--change", change.undoes, "--apply")
        return f"{undo} (finishes the interrupted undo)"
    name, _, how = change.command.partition(" ")
    options: dict[str, tuple[str, ...]] = {
        **{each: ("--strategy", each) for each in (SALVAGE, TRUNCATE_LOG)}, FIX_BIT: (f"--{FIX_BIT}",)
    }
    command = name if name not in ("", "append") else "repair"
    line = command_line("kdump", command, path, *options.get(how, ()), "--apply")
    return f"{line} (finishes the interrupted change)"


def _summary(operations: Iterable[Operation]) -> str:
    found = list(operations)
    restored = {each.name for each in found if each.action in (REPLACE, RENAME)}
    removed = [each.name for each in found if each.action == REMOVE and each.name not in restored]
    offsets = [each.name for each in found if each.action == CHECKPOINT]
    parts = [f"restores {number_words(len(restored), 'file')}"] if restored else []
    if removed:
        files = safe(removed[0]) if len(removed) == 1 else number_words(len(removed), "file")
        parts.append(f"removes {files}")
    if offsets:
        parts.append(f"sets {number_words(len(offsets), 'checkpoint')} back")
    return ", ".join(parts) or "changes no file"

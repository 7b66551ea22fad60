"""Changes as JSON lines; docs/repair.md has the fields."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from kdump.change.change import Change
from kdump.operations.undo import Closed, Listed, Pruned, Undone
from kdump.storage.open import partition_of

from ..shell.rows import RowPrinter, fields_of

if TYPE_CHECKING:
    from .command import UndoArgs


class JsonLines(RowPrinter):
    """Prints changes as JSON lines."""

    def __init__(
        self, write: Callable[[str], None], asked: UndoArgs, shown: Callable[[str], str], _paths: tuple[str, ...]
    ) -> None:
        """`write` takes whole lines."""
        super().__init__(write)
        self._shown = shown
        self._asked = asked

    def listed(self, changes: Iterable[Listed]) -> None:
        """Write a line for each change."""
        for change, judged in changes:
            row = self._change(change) | {"keptBytes": change.kept_bytes}
            row |= {"state": judged.verdict, "why": judged.why or None}
            row["kept"] = [
                fields_of(each.cut, "file start stop") | {"path": self._shown(change.file(each.file))}
                for each in change.cuts
            ]
            self.row("change", row)

    def undone(self, done: Undone) -> None:
        """Write a line for a change, with its operations."""
        operations = [{"action": each.action, "file": each.name, "size": each.size} for each in done.operations]
        row = {"isApplied": done.is_done, "by": done.by.id if done.by else None, "operations": operations}
        self.row("undo", self._change(done.change) | row)

    def closed(self, done: Closed) -> None:
        """Write a line for a change."""
        self.row("close", self._change(done.change) | {"isApplied": done.is_done})

    def pruned(self, done: Pruned) -> None:
        """Write a line for a change."""
        self.row("prune", self._change(done.kept) | {"bytes": done.size, "isApplied": done.is_done})

    def end(self, reason: str) -> None:
        """Write the sum of it."""
        fields = {"isApplied": self._asked.applies, "nothingChanged": reason or None}
        self.row("summary", fields)

    def _change(self, change: Change) -> dict[str, Any]:
        fields = fields_of(change, "begunTimestamp=begun log_end_offset")
        place = {"path": self._shown(change.path)} | fields_of(partition_of(change.path), "topic partition")
        return fields_of(change, "id command") | place | fields | {"undoes": change.undoes or None}

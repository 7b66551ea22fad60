"""What `kdump append` and `kdump roll` have done, one JSON object a line, as docs/append.md has it."""

from __future__ import annotations

from kdump.operations.append import Rolled
from kdump.operations.append_input import Appended

from ..shell.paths import place_of
from ..shell.rows import RowPrinter, fields_of


class JsonLines(RowPrinter):
    """Prints what was written as JSON lines."""

    def appended(self, done: Appended, path: str, *, is_complete: bool) -> None:
        """Write what was appended to the log at this path; `is_complete`: it is all of the input."""
        counts = "first_offset last_offset? batches records markers duplicateBatches=duplicates"
        log = {"logEndOffset": done.end_offset, "newSegments": list(done.rolled), "change": done.change}
        self.row("append", {**place_of(path), **fields_of(done.tally, counts), **log})
        self.row("summary", {"isComplete": is_complete})

    def failed(self, done: Appended, path: str) -> None:
        """Write what was appended before an error."""
        self.appended(done, path, is_complete=False)

    def rolled(self, done: Rolled, path: str) -> None:
        """Write which segment of the log at this path is the last one now."""
        fields = fields_of(done, "previousBaseOffset=last_base_offset base_offset logEndOffset=end_offset change")
        self.row("roll", {**place_of(path), **fields})

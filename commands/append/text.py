"""What `kdump append` and `kdump roll` have done, for people."""

from __future__ import annotations

import os

from kdump.formats.names import segment_file_name
from kdump.formats.printable import safe
from kdump.formats.words import number_words, offset_words
from kdump.operations.append import Rolled
from kdump.operations.append_input import Appended, Tally

from ..shell.tables import TextPrinter


class Text(TextPrinter):
    """Prints what was written for people."""

    def appended(self, done: Appended, path: str, *, is_complete: bool) -> None:  # noqa: ARG002 - said on stderr
        """Print what was appended to the log at this path."""
        self._line(f"{_name(path)}: {tally_words(done.tally)}")

    def failed(self, done: Appended, path: str) -> None:
        """Print nothing: the error says what was appended before."""

    def rolled(self, done: Rolled, path: str) -> None:
        """Print which segment of the log at this path is the last one now."""
        if done.base_offset is None:
            self._line(f"{_name(path)}: the last segment is empty, so there is nothing to roll")
        else:
            name = segment_file_name(done.base_offset, ".log")
            self._line(f"{_name(path)}: {name} begins at offset {done.base_offset}")


def tally_words(tally: Tally) -> str:
    """Return what was appended."""
    parts = []
    if tally.batches:
        parts.append(f"{number_words(tally.records, 'record')} in {number_words(tally.batches, 'batch', 'batches')}")
        parts[0] += f" at {offset_words(tally.first_offset, tally.last_offset)}"
    if tally.markers:
        parts.append("the marker of a transaction")
    if tally.duplicates:
        parts.append(f"{number_words(tally.duplicates, 'batch', 'batches')} skipped that the producer had sent before")
    return ", ".join(parts) or "no records in the input: nothing was appended"


def _name(path: str) -> str:
    return safe(os.path.basename(os.path.abspath(path)))

"""What `kdump export` says of what it has written."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from kdump.exports.object_store import Uploaded
from kdump.exports.outcome import Exported
from kdump.exports.run import Summary
from kdump.formats.printable import safe, safe_path
from kdump.formats.words import number_words, size_text

from ..shell import exit_codes
from ..shell.screen import Screen
from ..shell.tables import TextPrinter

if TYPE_CHECKING:
    from kdump.operations.lost_records import LostRecords

_VERDICTS = {exit_codes.OK: "Done.", exit_codes.FINDINGS: "FOUND: damaged batches were skipped."}


class Text(TextPrinter):
    """Prints what was exported for people."""

    def exported(self, found: Exported) -> None:
        """Print nothing of a unit: what is wrong with it is said on stderr."""

    def written(self, summary: Summary, code: int) -> None:
        """Print what was written in a run that exits with `code`."""
        Screen.current.has_said_incomplete = True
        resumed = f" ({summary.resumed} of {summary.units} parts were there already)" if summary.resumed else ""
        whole = "" if summary.is_whole else "; not complete, so there is no _SUCCESS"
        self._line(
            f"{_VERDICTS.get(code, 'INCOMPLETE.')} {number_words(summary.rows, 'record')} in"
            f" {number_words(summary.files, 'file')} of"
            f" {size_text(summary.bytes)} in {safe_path(summary.folder)}"
            f"{resumed}{whole}"
        )

    def sent(self, sent: Uploaded, url: str) -> None:
        """Print what was sent to an object store."""
        already = f" ({number_words(sent.already, 'file')} already there)" if sent.already else ""
        self._line(f"{number_words(sent.files, 'file')} of {size_text(sent.bytes)} sent to {safe(url)}{already}")

    def not_sent(self) -> None:
        """Print nothing: stderr has why."""

    def lost(self, found: Iterable[LostRecords], leader: int) -> None:
        """Print what each partition loses if this broker leads it, as it comes, and what that comes to."""
        total = partitions = 0
        for lost in found:
            if lost.path is not None:
                partitions += 1
                total += lost.records
                name = f"{safe(lost.topic)}-{lost.partition}"
                self._line(f"{name}: {number_words(lost.records, 'record')} in {safe_path(lost.path)}")
        if partitions:
            where = f"{number_words(total, 'record')} of {number_words(partitions, 'partition')}"
            self._line(f"Done. {where} would be lost if broker {leader} leads.")
        else:
            self._line(f"Nothing to do. If broker {leader} leads, no record is lost.")

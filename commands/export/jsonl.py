"""`kdump export --report-format jsonl`: one JSON object a line, as docs/export.md has it."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING

from kdump.exports.object_store import Uploaded
from kdump.exports.outcome import Exported
from kdump.exports.run import Summary

from ..shell.paths import place_of
from ..shell.rows import RowPrinter, fields_of

if TYPE_CHECKING:
    from kdump.operations.lost_records import LostRecords


class JsonLines(RowPrinter):
    """Prints what was exported as JSON lines."""

    def exported(self, found: Exported) -> None:
        """Write the line of a unit."""
        unit, result, failure = found.unit, found.result, found.failure
        sources = [{"path": each.path, "position": each.start, "length": each.stop - each.start} for each in unit.all]
        damage = [
            {"path": lost.path, "position": lost.position, "length": lost.resumed - lost.position, "message": lost.text}
            for lost in found.damage
        ]
        files = result.files if result else ()
        fields = {
            **place_of(os.path.dirname(unit.path)),
            "sources": sources,
            "records": result.rows if result else 0,
            "files": [fields_of(each, "path records=rows bytes=size") for each in files],
            "isResumed": found.is_resumed,
            "damage": damage,
            "error": failure.text if failure else None,
        }
        self.row("unit", fields)

    def written(self, summary: Summary, _code: int) -> None:
        """Write the sum of it."""
        counts = "folder units resumed records=rows files bytes damagedRanges=damage failures isComplete=is_whole"
        self._sum = fields_of(summary, counts)
        self.row("summary", self._sum)

    def not_sent(self) -> None:
        """Write the sum again: what could not be sent is not complete."""
        self.row("summary", {**self._sum, "isComplete": False})

    def sent(self, sent: Uploaded, url: str) -> None:
        """Write what was sent to an object store."""
        self.row("upload", {"url": url, **fields_of(sent, "files bytes alreadySent=already")})

    def lost(self, found: Iterable[LostRecords], leader: int) -> None:
        """Write what each partition loses if this broker leads it, as it comes, and the sum of it."""
        counts = []
        for each in found:
            counts.append(each.records)
            self.row("lostRecords", fields_of(each, "topic partition path records"))
        total = {"leader": leader, "partitions": sum(map(bool, counts)), "records": sum(counts)}
        self.row("summary", total)

"""What `kdump dump` meets in the files that it dumps: batches and records, printed, and what is wrong, said."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from kdump.errors import Problem
from kdump.formats.printable import safe, safe_path
from kdump.formats.words import number_words, offset_range
from kdump.interchange.rows import Format, Origin, Value
from kdump.operations.dump import DumpedLogs
from kdump.query.sweep import Selected
from kdump.storage.damage import Damage
from kdump.storage.live import tally, was_deleted
from kdump.storage.open import KafkaFile
from kdump.storage.records import Batch, batch_at
from kdump.storage.segment import Segment
from kdump.storage.txn_state import TxnState

from ..shell import exit_codes
from ..shell.output import Output, complain, note, os_error_text, wants_color
from ..shell.paths import partition_of
from .options import Options

if TYPE_CHECKING:
    from kdump.schemas.decoder import PayloadDecoder


class LimitReached(Exception):  # noqa: N818 - no error: it ends the loop
    """--limit is."""


class Met:
    """Prints what is met in the files that are dumped, and says what is wrong with them; `code` is the exit code."""

    def __init__(
        self,
        out: Output,
        printer: Format,
        options: Options,
        logs: DumpedLogs,
        payloads: PayloadDecoder | None = None,
    ) -> None:
        self.code = exit_codes.OK
        self._logs = logs
        self._out = out
        self._printer = printer
        self._batches_only = options.request.batches_only
        if not options.raw and not self._batches_only:
            from kdump.operations.decoded_rows import DecodingFormat

            self._printer = DecodingFormat(printer, self._undecodable, payloads)
        self._options = options
        self._damaged = self._hidden = 0
        self._newer: set[str] = set()  # logs with records that are newer than kdump
        self._left = options.limit
        self._batch: Batch | None = None
        self._transaction = TxnState.NONE
        self._begun: Segment | None = None  # whose beginning was printed last

    def end(self) -> None:
        """Print the answer where damage was met: stdout may be all that somebody reads."""
        if not self._damaged or self._options.format != "text":
            return
        see = " See what can be read: --include-damaged" if self._hidden else ""
        self._out.write(f"\nFOUND: {number_words(self._damaged, 'damaged range')}.{see}\n")

    def _name(self, segment: Segment) -> str:
        """Return what a log is called."""
        return safe_path(self._logs.path_of(segment))

    def selected(self, segment: Segment, selected: Selected, size: int) -> None:
        """Print a batch, or records of it; `size` is the log's. Raises LimitReached, OSError."""
        self.check_limit()
        if segment is not self._begun:
            self.begin(segment, size)
        batches_only = self._batches_only
        if selected.starts or self._batch is None:
            self._batch = batch_at(selected.block, selected.row)
            self._transaction = self._logs.transaction_of(segment, self._batch)
            self._printer.batch(self._batch, self._transaction)
            self._count(batches_only)
        if batches_only or not selected.picks:
            return
        if self._left is not None:
            selected = selected._replace(picks=selected.picks[: self._left])
        self._printer.records(self._batch, self._transaction, selected)
        self._count(len(selected.picks))

    def _count(self, printed: int) -> None:
        if self._left is not None:
            self._left -= printed
            self.check_limit()

    def check_limit(self) -> None:
        """Raise LimitReached where that is so."""
        if self._left == 0:
            raise LimitReached

    def begin(self, segment: Segment, size: int) -> None:
        """Print whose log follows, once."""
        begun, self._begun = self._begun, segment
        if begun and begun.log_path == segment.log_path:
            return
        partition = partition_of(os.path.abspath(self._logs.folder_of(segment)))
        kept = ""
        if piece := self._logs.kept.get(segment.log_path):
            where = f"bytes {offset_range(piece.start, piece.stop - 1)} of {safe_path(piece.file)}"
            kept = f"{where}, taken out by {safe(piece.command)} ({piece.id})"
        origin = Origin(
            self._name(segment),
            partition.topic if partition else None,
            partition.partition if partition else None,
            None if segment.is_checkpoint else segment.base_offset,
            kept,
        )
        self._printer.begin(origin, size)

    def zeros(self, segment: Segment, damage: Damage) -> None:
        """Say that a log ends in zeros, which are no loss."""
        self._out.flush()
        note(f"{self._name(segment)}: byte {damage.position}: {safe(damage.text)}")

    def damage(self, segment: Segment, damage: Damage, size: int, *, hides: bool = False) -> None:
        """Say what is damaged in a log of `size` bytes; `hides`: there are batches in it that are not shown."""
        self._damaged += 1
        self._hidden += hides
        onward = f"the dump continues at byte {damage.resumed}"
        if damage.resumed >= size:
            onward = "nothing that can be trusted follows"
        see = " (--include-damaged shows what can be read)" if hides else ""
        self._report(f"{self._name(segment)}: byte {damage.position}: {safe(damage.text)}{see}; {onward}")

    def _undecodable(self, path: str, batch: Batch, text: str, is_newer: bool) -> None:
        place = f"{path}: byte {batch.position}: {safe(text)}"
        if not is_newer:
            self._report(place)
        elif path not in self._newer:
            self._newer.add(path)
            self._out.flush()
            note(f"{place}: newer than this kdump, printed as it is")

    def problem(self, problem: Problem) -> None:
        """Say what is wrong with a file."""
        place = "" if problem.position is None else f"byte {problem.position}: "
        self._report(f"{safe_path(problem.path)}: {place}{safe(problem.text)}")

    def _report(self, text: str) -> None:
        """Say what is wrong with the data, after what was printed before it."""
        self._out.flush()
        complain(text)
        self.code = max(self.code, exit_codes.FINDINGS)

    def failed(self, path: str, error: OSError) -> None:
        """Say that a file cannot be read, unless a running broker has deleted it."""
        if was_deleted(path, error):
            return
        tally.cannot_read(path)
        self.tell(path, error)

    def tell(self, path: str, error: OSError) -> None:
        """Say why nothing of a file or PATH is printed."""
        self._out.flush()
        complain(os_error_text(error, path))
        self.code = exit_codes.INCOMPLETE

    def flush(self) -> None:
        """Print what is held: nothing comes for now."""
        self._out.flush()

    def _counted(self, rows: Iterator[Sequence[Value]]) -> Iterator[Sequence[Value]]:
        for row in rows:
            if self._left is not None:
                if self._left == 0:
                    return
                self._left -= 1
            yield row

    def table(self, file: KafkaFile, rows: Iterator[Sequence[Value]]) -> None:
        """Print the rows of a file that is no log. Raises OSError, KdumpError."""
        from kdump.interchange.file_rows import TABLES

        partition = file.partition
        origin = Origin(
            safe_path(file.path),
            partition.topic if partition else None,
            partition.partition if partition else None,
            file.name.offset,
        )
        self._printer.table(TABLES[file.name.kind], origin, self._counted(rows))


def format_of(out: Output, options: Options, *, schemas: bool) -> Format:
    """Return what prints in the format that is asked for."""
    if options.format == "jsonl":
        from kdump.interchange.jsonl import JsonLines

        return JsonLines(out.write, schemas=schemas)
    if options.format == "csv":
        from kdump.interchange.csv import CsvRows

        return CsvRows(out.write, batches=options.request.batches_only, schemas=schemas)
    from .text import TextLines

    batches_only = options.request.batches_only
    return TextLines(out.write, color=wants_color(options.color), full=options.full, batches_only=batches_only)

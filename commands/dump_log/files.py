"""kafka-dump-log file by file: the one of each kind, and how logs are printed."""

from __future__ import annotations

import os
import sys
from io import DEFAULT_BUFFER_SIZE
from typing import TYPE_CHECKING, BinaryIO

from kdump import kernels
from kdump.blocks import BatchBlock
from kdump.errors import CorruptRecordError
from kdump.formats.faults import SHORT_HEADER, UNDERSIZED, undersized_error
from kdump.formats.names import BOOTSTRAP_CHECKPOINT
from kdump.releases import DUMP_IN_JAVA
from kdump.storage.log_reader import LogFile
from kdump.storage.payloads import inflate

from ..shell.whole_lines import write_lines
from .contents import contents_printer, control_printer
from .exceptions import JavaError
from .java import INT_MAX, base_offset_of, check_size, java_fault, slice_end, snapshot_end_of
from .report import Report

if TYPE_CHECKING:
    from .options import Options

PROCESSES_FROM = 16 << 20
"""Bytes from which on several processes print the records of a log; for batches alone they gain too little."""
MAX_PROCESSES = 4


def processors() -> int:
    """Return how many processors there are for processes of this one; 1 where it is not to have any."""
    from kdump.storage import parallel

    return parallel.processors() if sys.platform == "linux" else 1


class Dump:
    """One run of the tool: prints file by file and remembers what is reported at the end."""

    def __init__(self, options: Options, out: BinaryIO) -> None:
        self.options = options
        self.is_java = options.release.has(DUMP_IN_JAVA)
        self.report = Report(is_java=self.is_java)
        self._out = out
        self._contents = contents_printer(options)

    def file(self, path: str) -> None:
        """Print one file. Raises what Kafka's tool would die of."""
        self.line(f"Dumping {path}")
        name = os.path.basename(path)
        dot = name.rfind(".")
        if dot < 0 and not self.is_java:
            raise JavaError(
                "java.lang.StringIndexOutOfBoundsException", f"begin -1, end {len(name)}, length {len(name)}"
            )
        if dot >= 0 and name[dot:] in (".log", ".checkpoint"):
            self._log(path)
            return
        from .indexes import PRINTERS

        printer = PRINTERS.get(name[dot:]) if dot >= 0 else None
        if printer is None:
            self.report.notes.append(f"Ignoring unknown file {path}")
        else:
            printer(self, path)

    def line(self, text: str) -> None:
        """Print one line."""
        self._write(os.fsencode(text) + b"\n")

    def _write(self, text: bytes | memoryview) -> None:
        if len(text) < DEFAULT_BUFFER_SIZE:
            self._out.write(text)
        else:
            write_lines(self._out, text)

    def _log(self, path: str) -> None:
        if self.options.topic_decoder is None:
            self.options.need("value-decoder-class", "key-decoder-class")
        for text in self.options.deprecations:
            self.line(text)
        self.options.need("max-bytes")
        name = os.path.basename(path)
        if name.endswith(".log"):
            self.line(f"Log starting offset: {base_offset_of(path)}")
        elif name == BOOTSTRAP_CHECKPOINT:
            self.line("KRaft bootstrap snapshot")
        else:
            offset, epoch = snapshot_end_of(name)
            self.line(f"Snapshot end offset: {offset}, epoch: {epoch}")
        with LogFile(path) as log:
            check_size(log)
            stop = slice_end(log, 0, self.options.max_bytes)
            position = self._batches(log, stop)
            if position < stop and self.options.max_bytes == INT_MAX:
                self.line(f"Found {stop - position} invalid bytes at the end of {name}")

    def _batches(self, log: LogFile, stop: int) -> int:
        """Print the batches before byte `stop`; the position at which they end."""
        text = self._renderer()
        start = self._regions(log, stop, text) if self.options.deep and stop >= PROCESSES_FROM else 0
        try:
            for block in log.blocks(start, stop, whole=self.options.deep):
                self._block(text, block)
        finally:
            self.report.gaps(log.path, text.gaps)
        if block.status == UNDERSIZED:
            raise undersized_error(block.bad_size, log.path)
        if block.status == SHORT_HEADER:
            raise CorruptRecordError("Unexpected EOF while attempting to read the next batch")
        return block.next_position

    def _regions(self, log: LogFile, stop: int, text: kernels.LogText) -> int:
        """Let several processes print what they can before byte `stop`; where `text` is to go on after them."""
        count = min(MAX_PROCESSES, processors())
        if count == 1 or self._contents or kernels.active != "native":
            return 0
        from .regions import print_regions

        self._out.flush()
        renderers = [self._renderer(hold=True) for _ in range(count)]
        position, last_offset, gaps = print_regions(log, stop, renderers, self._out.fileno(), from_zero=self.is_java)
        for piece in gaps:
            self.report.gaps(log.path, memoryview(piece).cast("q"))
        text.restart(last_offset)
        return position

    def _renderer(self, *, hold: bool = False) -> kernels.LogText:
        options = self.options
        control = control_printer(self.options.release)
        printing = (options.deep, options.print_data, options.skip_record_metadata, control)
        if not self._contents:
            return kernels.LogText(*printing, hold=hold, java=self.is_java)
        from kdump.kernels.portable.text import LogText

        return LogText(*printing, contents=self._contents, java=self.is_java)

    def _block(self, text: kernels.LogText, block: BatchBlock) -> None:
        if not self.options.deep:
            fault = text.render(block, 0, block.length, (), self._write)
            if fault:
                raise java_fault(fault)
            return
        row = 0
        while row < block.length:
            stretch = inflate(block, row)
            fault = text.render(block, row, stretch.stop, stretch.payloads, self._write)
            row = stretch.stop
            if fault:
                from .payload_errors import java_printing_fault  # as below: most logs have no use for its import

                raise java_printing_fault(fault, block, stretch, self.options.release)
            if stretch.fault:
                raise java_fault(stretch.fault)
            if stretch.error:
                from .payload_errors import java_codec_error

                raise java_codec_error(block, row - 1, stretch.error)

"""One run of Kafka's dump tool: each file by its kind, how logs are printed, and what a run comes to."""

from __future__ import annotations

import os
import sys
from collections.abc import Generator, Iterable, Iterator
from typing import Protocol

from kdump import kernels
from kdump.blocks import BatchBlock
from kdump.dump_log_segments.contents import contents_printer, control_printer
from kdump.dump_log_segments.java import base_offset_of, check_size, java_error, java_fault, slice_end, snapshot_end_of
from kdump.dump_log_segments.options import INT_MAX, DumpLogOptions
from kdump.dump_log_segments.report import Report
from kdump.errors import CorruptRecordError, JavaError, KdumpError
from kdump.formats.faults import SHORT_HEADER, UNDERSIZED, undersized_error
from kdump.formats.names import BOOTSTRAP_CHECKPOINT
from kdump.storage.log_reader import LogFile
from kdump.storage.payloads import inflate

PROCESSES_FROM = 16 << 20
"""Bytes from which on several processes print the records of a log; for batches alone they gain too little."""
MAX_PROCESSES = 4


def processors() -> int:
    """Return how many processors there are for processes of this one; 1 where it is not to have any."""
    from kdump.storage import parallel

    return parallel.processors() if sys.platform == "linux" else 1


class Sink(Protocol):
    """Where the text goes."""

    def write(self, text: bytes | memoryview, /) -> object:
        """Take whole lines; the memory that they are in is used again. Raises OSError."""

    def flush(self) -> object:
        """Have all that was written where it goes. Raises OSError."""

    def descriptor(self) -> int | None:
        """Return the file descriptor that processes may write to behind what was written; None where there is none."""


class DumpLogSegments:
    """One run of the tool (Kafka: DumpLogSegments): prints file by file, and remembers what is reported at the end.

    `error` is the exception that the tool died of.
    """

    def __init__(self, options: DumpLogOptions, sink: Sink) -> None:
        self.error: JavaError | None = None
        self._options = options
        self._report = Report(is_java=options.is_java)
        self._sink = sink
        self._contents = contents_printer(options)

    def steps(self, paths: Iterable[str]) -> Generator[None, None, None]:
        """Print files step by step, up to the first exception. Raises BrokenPipeError where nobody reads on."""
        try:
            for path in paths:
                yield from self._file(path)
            self._sink.flush()
        except BrokenPipeError:
            raise
        except (KdumpError, OSError) as error:
            self.error = java_error(error)

    @property
    def exit_status(self) -> int:
        """That of the tool."""
        return 0 if self.error is None else 1

    def stderr(self) -> Iterator[str]:
        """Yield the lines that the tool prints on stderr at its end: the exception, or else the report."""
        yield from self._report.lines() if self.error is None else self.error.lines()

    def _file(self, path: str) -> Iterator[None]:
        """Print one file. Raises what Kafka's tool would die of."""
        self._line(f"Dumping {path}")
        name = os.path.basename(path)
        dot = name.rfind(".")
        if dot < 0 and not self._options.is_java:
            raise JavaError(
                "java.lang.StringIndexOutOfBoundsException", f"begin -1, end {len(name)}, length {len(name)}"
            )
        if dot >= 0 and name[dot:] in (".log", ".checkpoint"):
            yield from self._log(path)
            return
        from kdump.dump_log_segments.indexes import PRINTERS

        printer = PRINTERS.get(name[dot:]) if dot >= 0 else None
        if printer is None:
            self._report.notes.append(f"Ignoring unknown file {path}")
            return
        for line in printer(self._options, self._report, path):
            self._line(line)
            yield

    def _line(self, text: str) -> None:
        self._sink.write(os.fsencode(text) + b"\n")

    def _log(self, path: str) -> Iterator[None]:
        options = self._options
        if options.topic_decoder is None:
            options.need("value-decoder-class", "key-decoder-class")
        for text in options.deprecations:
            self._line(text)
        options.need("max-bytes")
        name = os.path.basename(path)
        if name.endswith(".log"):
            self._line(f"Log starting offset: {base_offset_of(path)}")
        elif name == BOOTSTRAP_CHECKPOINT:
            self._line("KRaft bootstrap snapshot")
        else:
            offset, epoch = snapshot_end_of(name)
            self._line(f"Snapshot end offset: {offset}, epoch: {epoch}")
        with LogFile(path) as log:
            check_size(log)
            stop = slice_end(log, 0, options.max_bytes)
            position = yield from self._batches(log, stop)
            if position < stop and options.max_bytes == INT_MAX:
                self._line(f"Found {stop - position} invalid bytes at the end of {name}")

    def _batches(self, log: LogFile, stop: int) -> Generator[None, None, int]:
        """Print the batches before byte `stop`; the position at which they end."""
        text = self._renderer()
        start = self._regions(log, stop, text) if self._options.is_deep and stop >= PROCESSES_FROM else 0
        try:
            for block in log.blocks(start, stop, whole=self._options.is_deep):
                self._block(text, block)
                yield
        finally:
            self._report.gaps(log.path, text.gaps)
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
        if (target := self._sink.descriptor()) is None:
            return 0
        from kdump.dump_log_segments.regions import print_regions

        renderers = [self._renderer(hold=True) for _ in range(count)]
        position, last_offset, gaps = print_regions(log, stop, renderers, target, from_zero=self._options.is_java)
        for piece in gaps:
            self._report.gaps(log.path, memoryview(piece).cast("q"))
        text.restart(last_offset)
        return position

    def _renderer(self, *, hold: bool = False) -> kernels.LogText:
        options = self._options
        control = control_printer(options.release)
        printing = (options.is_deep, options.prints_data, options.skip_record_metadata, control)
        if not self._contents:
            return kernels.LogText(*printing, hold=hold, java=options.is_java)
        from kdump.kernels.portable.text import LogText

        return LogText(*printing, contents=self._contents, java=options.is_java)

    def _block(self, text: kernels.LogText, block: BatchBlock) -> None:
        if not self._options.is_deep:
            fault = text.render(block, 0, block.length, (), self._sink.write)
            if fault:
                raise java_fault(fault)
            return
        row = 0
        while row < block.length:
            inflated = inflate(block, row)
            fault = text.render(block, row, inflated.stop, inflated.payloads, self._sink.write)
            row = inflated.stop
            if fault:
                # as below: most logs have no use for its import
                from kdump.dump_log_segments.payload_errors import java_printing_fault

                raise java_printing_fault(fault, block, inflated, self._options.release)
            if inflated.fault:
                raise java_fault(inflated.fault)
            if inflated.error:
                from kdump.dump_log_segments.payload_errors import java_codec_error

                raise java_codec_error(block, row - 1, inflated.error)

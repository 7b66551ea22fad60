"""`dump-log`: a drop-in for kafka-dump-log.sh of any release: same options, same bytes on stdout and stderr."""

from __future__ import annotations

import atexit
import gc
import os
import sys
from io import DEFAULT_BUFFER_SIZE

from kdump.disk.descriptors import lead_nowhere
from kdump.errors import RUNTIME, JavaError, is_out_of_memory, shows_where

from ..shell.exit_codes import INTERRUPTED
from ..shell.unexpected import unexpected_text
from ..shell.whole_lines import write_lines
from .options import Options, help_text, parse


def main() -> int:
    """Run the command line; Kafka's exit codes: 0, or 1 where its tool would die of an exception."""
    try:
        return _run(sys.argv[1:])
    except BrokenPipeError:
        # nobody reads on: Java's tool would print on into the void and exit with 0
        lead_nowhere(sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return INTERRUPTED
    except Exception as error:
        if is_out_of_memory(error):
            text = "there is not enough memory for a record or a batch this large"
            return _die(JavaError("java.lang.OutOfMemoryError", text))
        if shows_where():
            raise
        return _die(JavaError(RUNTIME, unexpected_text(error)))


def _run(arguments: list[str]) -> int:
    try:
        options = parse(arguments)
    except JavaError as error:
        return _die(error)
    except ValueError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    if options.help or not arguments:
        sys.stderr.write(help_text())
        return 1
    if options.version:
        from kdump import __version__

        sys.stdout.write(f"{__version__} (kdump)\n")
        return 0
    if options.files is None:
        sys.stderr.write(f'Missing required argument "[files]"\n{help_text()}')
        return 1
    return _dump(options)


def _dump(options: Options) -> int:
    from kdump.dump_log_segments.run import DumpLogSegments

    out = StandardOutput()
    dump = DumpLogSegments(options.dump, out)
    for _ in dump.steps(options.files or ()):
        pass
    if dump.error is not None:
        out.print_what_is_held()
        return _die(dump.error)
    for line in dump.stderr():
        os.write(sys.stderr.fileno(), os.fsencode(line) + b"\n")
    atexit.register(gc.freeze)  # the process ends next and gives all back; nothing in it need be looked for as garbage
    return 0


class StandardOutput:
    """Standard output, which the processes that print a large log write to as well (Sink)."""

    def __init__(self) -> None:
        self._out = sys.stdout.buffer
        self.flush = self._out.flush

    def write(self, text: bytes | memoryview) -> None:
        """Write whole lines. Raises OSError."""
        if len(text) < DEFAULT_BUFFER_SIZE:
            self._out.write(text)
        else:
            write_lines(self._out, text)

    def descriptor(self) -> int:
        """Return its file descriptor, behind what was written. Raises OSError."""
        self._out.flush()
        return self._out.fileno()

    def print_what_is_held(self) -> None:
        """Print what was written before an error; where that is what fails, Python must not try it again at its end."""
        try:
            self._out.flush()
        except BrokenPipeError:
            raise
        except OSError:
            lead_nowhere(sys.stdout.fileno())


def _die(error: JavaError) -> int:
    """Report an exception as the JVM does when it ends the program."""
    sys.stderr.flush()
    message = "".join(f"{line}\n" for line in error.lines())
    os.write(sys.stderr.fileno(), message.encode("utf-8", "surrogateescape"))
    return 1

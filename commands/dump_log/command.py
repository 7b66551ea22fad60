"""`dump-log`: a drop-in for kafka-dump-log.sh of any release: same options, same bytes on stdout and stderr."""

from __future__ import annotations

import atexit
import gc
import os
import sys
from typing import BinaryIO

from kdump.errors import KdumpError, is_out_of_memory

from ..shell.unexpected import shows_where, unexpected_text
from .exceptions import JavaError
from .options import Options, help_text, parse

INTERRUPTED = 130


def main() -> int:
    """Run the command line; Kafka's exit codes: 0, or 1 where its tool would die of an exception."""
    try:
        return _run(sys.argv[1:])
    except BrokenPipeError:
        # nobody reads on: Java's tool would print on into the void and exit with 0
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return INTERRUPTED
    except Exception as error:
        if is_out_of_memory(error):
            text = "there is not enough memory for a record or a batch this large"
            return _die(JavaError("java.lang.OutOfMemoryError", text))
        if shows_where():
            raise
        return _die(JavaError("java.lang.RuntimeException", unexpected_text(error)))


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
    from .files import Dump
    from .java import java_error

    out = sys.stdout.buffer
    dump = Dump(options, out)
    try:
        for path in options.files or ():
            dump.file(path)
        out.flush()
    except BrokenPipeError:
        raise
    except (JavaError, KdumpError, OSError) as error:
        _print_what_is_held(out)
        return _die(java_error(error))
    for line in dump.report.lines():
        os.write(sys.stderr.fileno(), os.fsencode(line) + b"\n")
    atexit.register(gc.freeze)  # the process ends next and gives all back; nothing in it need be looked for as garbage
    return 0


def _print_what_is_held(out: BinaryIO) -> None:
    """Print what was written before an error; where that is what fails, Python must not try it again at its end."""
    try:
        out.flush()
    except BrokenPipeError:
        raise
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _die(error: JavaError) -> int:
    """Report an exception as the JVM does when it ends the program."""
    sys.stderr.flush()
    message = "".join(f"{line}\n" for line in error.lines())
    os.write(sys.stderr.fileno(), message.encode("utf-8", "surrogateescape"))
    return 1

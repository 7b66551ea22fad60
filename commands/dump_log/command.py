"""`dump-log`: a drop-in for kafka-dump-log.sh of any release: same options, same bytes on stdout and stderr."""

from __future__ import annotations

import os
import sys

from kdump.errors import KdumpError

from .options import DecoderError, OptionError, Options, help_text, parse

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
    except MemoryError:
        return _die("java.lang.OutOfMemoryError", "there is not enough memory for a record or a batch this large")


def _run(arguments: list[str]) -> int:
    try:
        options = parse(arguments)
    except OptionError as error:
        return _die(error.java_class, str(error))
    except (DecoderError, ValueError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    if options.help or not arguments:
        sys.stderr.write(help_text())
        return 1
    if options.version:
        from kdump import __version__

        sys.stdout.write(f"{__version__} (kdump)\n")
        return 0
    if not options.files:
        sys.stderr.write(f'Missing required argument "[files]"\n{help_text()}')
        return 1
    return _dump(options)


def _dump(options: Options) -> int:
    from .files import Dump
    from .java import JavaError, java_error

    out = sys.stdout.buffer
    dump = Dump(options, out)
    try:
        for path in options.files:
            dump.file(path)
    except BrokenPipeError:
        raise
    except (JavaError, KdumpError, OSError) as error:
        out.flush()
        died = java_error(error)
        return _die(died.java_class, died.text)
    out.flush()
    for line in dump.report.lines():
        os.write(sys.stderr.fileno(), os.fsencode(line) + b"\n")
    return 0


def _die(java_class: str, text: str) -> int:
    """Report an exception as the JVM does when it ends the program."""
    sys.stderr.flush()
    message = f'Exception in thread "main" {java_class}' + (f": {text}" if text else "") + "\n"
    os.write(sys.stderr.fileno(), message.encode("utf-8", "surrogateescape"))
    return 1

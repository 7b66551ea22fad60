"""`kdump explain`: what a finding's code, or a line that Kafka prints, means and what to do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TextIO

import click

from kdump.errors import KdumpError
from kdump.findings.explained import kinds_named, recognized
from kdump.findings.kind import FindingKind
from kdump.findings.server_log import ServerLog
from kdump.formats.printable import safe, safe_path

from ..shell import exit_codes
from ..shell.completing import finding_codes
from ..shell.options import color_option
from ..shell.output import Output, wants_color
from ..shell.prose import prose_width
from ..shell.rows import OutputFormat, format_option, json_line, output_for
from .text import explained_lines, listed, recognized_lines, summarized


@click.command("explain")
@click.argument("words", nargs=-1, metavar="[CODE | 'LINE OF server.log']...", shell_complete=finding_codes)
@click.option("--log", "log", type=click.File("r", encoding="utf-8", errors="replace"), metavar="FILE",
    help="Read a server.log (- is standard input) and list what it says about log directories.")
@format_option
@color_option
def command(words: tuple[str, ...], log: TextIO | None, format_: OutputFormat, color: str) -> int:
    """Explain a finding's code, or a line that a broker or consumer printed: meaning, effect, causes, what to do.

    Without arguments it lists all codes. A pattern such as KD-IDX-* lists the codes that it matches.

    Exit codes: 0 explained, 1 kdump does not know the line, or --log found lines that need you.

    \b
    Examples:
      kdump explain KD-LOG-CRC
      kdump explain 'Found invalid messages in log segment \\
        /data/orders-17/00000000000000000235.log at byte offset 839.'
      kdump explain --log /var/log/kafka/server.log
    """
    if log is not None and words:
        raise click.UsageError("--log reads lines from its file: give no CODE or line with it.")
    with output_for(format_) as out:
        if log is not None:
            return _explain_log(log, out, format_)
        kinds = _kinds(words)
        if kinds:
            is_list = not words or any("*" in word for word in words)
            _explain_codes(kinds, out, format_, is_colored=wants_color(color), is_list=is_list)
            return exit_codes.OK
        return _explain_line(" ".join(words), out, format_)


def _kinds(words: Sequence[str]) -> list[FindingKind]:
    """Return the kinds that are named by code or pattern; none where the words are a line. Raises click.UsageError."""
    try:
        return kinds_named(words)
    except KdumpError as error:
        raise click.UsageError(safe(str(error))) from None


def _explain_codes(
    kinds: list[FindingKind], out: Output, format_: OutputFormat, *, is_colored: bool, is_list: bool
) -> None:
    if format_ is OutputFormat.JSONL:
        from .jsonl import explanation

        for kind in kinds:
            out.write(json_line("explanation", explanation(kind)))
        return
    width = prose_width()
    if is_list:
        texts = [list(listed(kinds))]
    else:
        texts = [list(explained_lines(kind, width, is_colored=is_colored)) for kind in kinds]
    out.write("\n".join("".join(f"{line}\n" for line in lines) for lines in texts))


def _explain_line(line: str, out: Output, format_: OutputFormat) -> int:
    """Explain a line; the first message that it has is the one that matters."""
    found = recognized(line)
    if found is None:
        if format_ is not OutputFormat.JSONL:
            out.write("kdump does not know this line. It knows what Kafka prints about log directories.\n")
            out.write("Look at them: kdump doctor LOG_DIRECTORY\n")
        return exit_codes.FINDINGS
    if format_ is OutputFormat.JSONL:
        from .jsonl import message

        out.write(json_line("message", message(found.message, found.place)))
    else:
        out.write("".join(f"{each}\n" for each in recognized_lines(found.message, found.place, prose_width())))
    return exit_codes.OK


def _explain_log(log: TextIO, out: Output, format_: OutputFormat) -> int:
    """List what a server.log says. Raises KdumpError where it cannot be read."""
    found = ServerLog()
    try:
        found.read(log)
    except OSError as error:
        raise KdumpError(f"{safe_path(log.name)}: {error.strerror}") from None
    if format_ is OutputFormat.JSONL:
        from .jsonl import message

        for entry in found.entries():
            where = {"line": entry.line, "time": entry.time, "lines": entry.count}
            out.write(json_line("message", message(entry.message, entry.place) | where))
    else:
        out.write("".join(f"{each}\n" for each in summarized(found, log.name, prose_width())))
    needs_somebody = any(entry.message.do for entry in found.entries())
    return exit_codes.FINDINGS if needs_somebody else exit_codes.OK

"""Writes the man pages of this folder from the commands themselves, so that --help and man never disagree.

    python man/generate.py [--check] [--output DIR]

`kdump` and each of its commands give a page each, out of their docstrings and options; `dump-log`, which is no click
command, gives one out of its table of options. `--check` writes nothing and fails where a page is not current.

In a docstring click's marker for a paragraph that keeps its lines (backslash b) keeps them here too, and a paragraph
that opens with a key of SECTIONS begins that section.
"""

from __future__ import annotations

import argparse
import re
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from inspect import cleandoc
from pathlib import Path

import click

FOLDER = Path(__file__).resolve().parent

SECTIONS = {
    "Example:": "EXAMPLES",
    "Examples:": "EXAMPLES",
    "Exit codes:": "EXIT STATUS",
    "Environment:": "ENVIRONMENT",
    "Files:": "FILES",
}

# Where roff would put a typographic character, or a command, in place of the one that is to be copied and pasted.
ROFF = str.maketrans(
    {"\\": r"\(rs", "-": r"\-", "'": r"\(aq", "`": r"\(ga", "^": r"\(ha", "~": r"\(ti", '"': r"\(dq"}
    | {"\N{EN DASH}": r"\(en", "\N{EM DASH}": r"\(em"}
)

OPTION_WORD = re.compile(r"(?P<separator>[\s,/|]+)|(?P<option>-[^\s,]*)|(?P<argument>[^\s,]+)")


@dataclass(frozen=True, slots=True)
class Page:
    """What a man page says; `text` is written as a docstring is, the rest is plain text."""

    command: str
    summary: str
    synopsis: str
    text: str
    options: tuple[tuple[str, str], ...]
    commands: tuple[tuple[str, str], ...] = ()
    see_also: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return page_name(self.command)


def page_name(command: str) -> str:
    """`kdump dump` → `kdump-dump`, as man wants it."""
    return command.replace(" ", "-")


def escape(text: str) -> str:
    """Text as roff input that prints as exactly that text, on any output device."""
    escaped = text.translate(ROFF)
    escaped = "".join(char if char.isascii() else f"\\[u{ord(char):04X}]" for char in escaped)
    return rf"\&{escaped}" if escaped.startswith(".") else escaped


def option_heading(text: str) -> str:
    """An option's names in bold and its arguments in italics."""
    parts = []
    for word in OPTION_WORD.finditer(text):
        font = {"option": r"\fB", "argument": r"\fI"}.get(word.lastgroup or "")
        parts.append(f"{font}{escape(word.group())}\\fR" if font else escape(word.group()))
    return "".join(parts)


def body(text: str) -> Iterator[str]:
    """A docstring as roff lines, to stand after a section's heading."""
    after_heading = True
    for paragraph in re.split(r"\n[ \t]*\n", cleandoc(text.partition("\f")[0])):
        lines = paragraph.splitlines()
        keeps_lines = lines[0].strip() == "\b"
        if keeps_lines:
            del lines[0]
        heading = next((key for key in SECTIONS if lines and lines[0].lstrip().startswith(key)), None)
        if heading:
            yield f".SH {SECTIONS[heading]}"
            after_heading = True
            lines[0] = lines[0].lstrip().removeprefix(heading).strip()
            lines = lines if lines[0] else lines[1:]
        elif not after_heading:
            yield ".PP"
        after_heading = after_heading and not lines
        if keeps_lines:
            yield from (".RS 4", ".nf")
            yield from (escape(line) for line in textwrap.dedent("\n".join(lines)).splitlines())
            yield from (".fi", ".RE")
        else:
            yield from (escape(line.strip()) for line in lines)


def render(page: Page, version: str) -> str:
    """The page's roff source. It carries no date: the same commands give the same bytes on any day."""
    lines = [
        f'.TH {escape(page.name.upper())} 1 "" "kdump {escape(version)}" "kdump manual"',
        ".SH NAME",
        rf"{escape(page.name)} \- {escape(page.summary)}",
        ".SH SYNOPSIS",
        rf"\fB{escape(page.command)}\fR {option_heading(page.synopsis)}",
    ]
    if page.text:
        lines += [".SH DESCRIPTION", *body(page.text)]
    for title, rows in (("OPTIONS", page.options), ("COMMANDS", page.commands)):
        if rows:
            lines.append(f".SH {title}")
        for heading, text in rows:
            lines += [".TP", option_heading(heading) if title == "OPTIONS" else rf"\fB{escape(heading)}\fR(1)"]
            lines.append(escape(" ".join(text.split())) or r"\&")
    if page.see_also:
        lines.append(".SH SEE ALSO")
        lines.append(", ".join(rf"\fB{escape(name)}\fR(1)" for name in page.see_also))
    return "\n".join(lines) + "\n"


def click_pages(command: click.Command, parent: click.Context | None, name: str) -> Iterator[Page]:
    """The page of a click command, then those of the commands under it."""
    context = command.context_class(command, info_name=name, parent=parent, **command.context_settings)
    options = (param for param in command.get_params(context) if isinstance(param, click.Option))
    records = (option.get_help_record(context) for option in options)
    children = []
    if isinstance(command, click.Group):
        found = ((child, command.get_command(context, child)) for child in command.list_commands(context))
        children = [(child, below) for child, below in found if below is not None and not below.hidden]
    path = context.command_path
    rows = tuple((page_name(f"{path} {child}"), summary(below)) for child, below in children)
    yield Page(
        command=path,
        summary=summary(command),
        synopsis=" ".join(command.collect_usage_pieces(context)),
        text=command.help or "",
        options=tuple(record for record in records if record is not None),
        commands=rows,
        see_also=("dump-log",) if parent is None else (page_name(parent.command_path), "dump-log"),
    )
    for child, below in children:
        yield from click_pages(below, context, child)


def summary(command: click.Command) -> str:
    """A command's first sentence, without its full stop."""
    return command.get_short_help_str(limit=200).removesuffix(".")


def dump_log_page() -> Page:
    """The page of dump-log, whose option parser is Kafka's and not click's."""
    from kdump.commands.dump_log.options import OPTIONS

    return Page(
        command="dump-log",
        summary="print Kafka log segments and their index files as kafka-dump-log.sh does",
        synopsis="--files file1,file2,... [option ...]",
        text=DUMP_LOG,
        options=tuple((f"--{o.name}" + (f" {o.argument}" if o.argument else ""), o.help) for o in OPTIONS),
        see_also=("kdump", "kdump-dump", "kdump-ls"),
    )


DUMP_LOG = """\
Takes the options of kafka-dump-log.sh of Apache Kafka 4.0 and prints the same bytes, without a Java virtual machine.
It knows a file by the end of its name: .log, .index, .timeindex, .txnindex, .snapshot or .checkpoint. It reads the .log
of an index from the same directory. It creates and changes no file. If an index file is missing, Kafka's tool creates
one, and this one does not.

Option names cannot be abbreviated. Words that belong to no option are ignored.

Exit codes:

0 when the files were dumped, also if entries disagree or batches are not valid. 1 when Kafka's tool would end with an
exception; its first line is then on standard error. 1 also after --help. 130 after an interrupt.

Example:

\b
dump-log --files /data/orders-0/00000000000000000000.log --print-data-log
"""


def pages() -> dict[str, str]:
    """File name → content, of every man page."""
    from kdump import __version__
    from kdump.commands.cli import cli

    every = [*click_pages(cli, None, "kdump"), dump_log_page()]
    return {f"{page.name}.1": render(page, __version__) for page in every}


def stale(wanted: dict[str, str], folder: Path) -> list[str]:
    """Names of the files in which the folder differs from the pages wanted."""
    found = {path.name: path.read_text(encoding="ascii", errors="replace") for path in folder.glob("*.1")}
    return sorted(name for name in wanted.keys() | found.keys() if wanted.get(name) != found.get(name))


def main() -> int:
    parser = argparse.ArgumentParser(description="Write the man pages from the commands.")
    parser.add_argument("--check", action="store_true", help="write nothing; fail where a page is not current")
    parser.add_argument("--output", type=Path, default=FOLDER, help="folder of the pages (default: this script's)")
    options = parser.parse_args()
    wanted = pages()
    names = stale(wanted, options.output)
    if options.check:
        for name in names:
            print(f"{options.output / name} is not current: run ./dev man")
        return 1 if names else 0
    for name in names:
        if name in wanted:
            (options.output / name).write_text(wanted[name], encoding="ascii")
        else:
            (options.output / name).unlink()
    return 0


if __name__ == "__main__":
    sys.exit(main())

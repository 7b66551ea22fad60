"""What stands around the rows of every command in JSON: a header before them, a summary after them.

A command writes its rows, one object a line; as JSON lines they go out as they are, as one document they become its
`rows`. The summary has the verdict and the exit code, which are known only when the command is over: `cli.main` ends
what is open. Without a summary the output is not complete.
"""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, ItemsView, Mapping, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from functools import cache
from importlib import import_module
from operator import attrgetter
from typing import Any, ClassVar

import click
from click.core import ParameterSource

from kdump.formats.printable import escape_json

from . import exit_codes
from .choice import places_in
from .options import Option, all_of
from .output import Output, verbatim

SCHEMA_VERSION = 1

_HEADER, _SUMMARY = "header", "summary"
_SUMMARY_START = '{"type":"summary"'
_NOT_OPTIONS = frozenset({"path", "paths", "format_", "format", "is_headless"})
_MAX_WORDS = 100


class OutputFormat(StrEnum):
    """A form in which a command prints what it finds."""

    TEXT = "text"
    JSON = "json"
    JSONL = "jsonl"
    CSV = "csv"
    JUNIT = "junit"
    SARIF = "sarif"
    PROM = "prom"
    HTML = "html"


VERDICTS = {
    exit_codes.OK: "ok",
    exit_codes.FINDINGS: "found",
    exit_codes.INCOMPLETE: "incomplete",
    exit_codes.REFUSED: "refused",
    exit_codes.INTERRUPTED: "interrupted",
    exit_codes.TERMINATED: "interrupted",
}
"""The verdict for each exit code; text has the same word in capitals."""


class Envelope:
    """What stands around the rows of one run; takes them as lines, gives back what is to be printed."""

    current: ClassVar[Envelope | None] = None
    """The one around what goes to standard output."""

    def __init__(self, ctx: click.Context, *, is_document: bool) -> None:
        self._ctx = ctx
        self._is_document = is_document
        self._started_at = time.time()
        self._is_begun = False
        self._has_rows = False
        self._summary: dict[str, Any] = {}

    @property
    def has_summary(self) -> bool:
        """Whether the command has given a summary of its own."""
        return bool(self._summary)

    def rows(self, text: str) -> str:
        """Return complete lines of rows with what comes before them; a summary is kept for the end."""
        if text.startswith(_SUMMARY_START):
            import json

            self._summary = json.loads(text)
            return ""
        if not text:
            return text
        rows = self._elements(text) if self._is_document else text
        return rows if self._is_begun else self.begin() + rows

    def begin(self) -> str:
        """Return the header, unless it was given already or is not wanted."""
        if self._is_begun:
            return ""
        self._is_begun = True
        if self._is_document:
            return f'{row_line(self._header())[:-2]},"rows":['
        return "" if self._ctx.meta.get(_HEADLESS) else row_line({"type": _HEADER} | self._header())

    def end(self, code: int) -> str:
        """Return what comes after the last row, by the exit code."""
        summary = {"verdict": VERDICTS.get(code, "failed"), "exitCode": code}
        given = {name: value for name, value in self._summary.items() if name != "type"}
        row = {"type": _SUMMARY} | given | {name: value for name, value in summary.items() if name not in given}
        if self._is_document:
            last = "\n]" if self._has_rows else "]"
            return f'{self.begin()}{last},"summary":{row_line(row)[:-1]}}}\n'
        if self._ctx.meta.get(_HEADLESS) and not given:
            return ""
        return self.begin() + row_line(row)

    def _elements(self, text: str) -> str:
        before = ",\n" if self._has_rows else "\n"
        self._has_rows = True
        return before + text.removesuffix("\n").replace("\n", ",\n")

    def _header(self) -> dict[str, Any]:
        from kdump import __version__

        return {
            "schema": f"kdump.{_command_name(self._ctx)}/{SCHEMA_VERSION}",
            "kdump": __version__,
            "host": platform.node(),
            "startedAt": datetime.fromtimestamp(int(self._started_at), UTC).isoformat().replace("+00:00", "Z"),
            "paths": list(places_in(self._ctx.params)),
            "options": _options(self._ctx),
        }


class RowOutput(Output):
    """stdout as rows in JSON."""

    def __init__(self, envelope: Envelope) -> None:
        super().__init__(escape_json)
        self._envelope = envelope

    def write(self, text: str) -> None:
        """Print complete lines, an object each."""
        if text := self._envelope.rows(text):
            super().write(text)


class ReportFile:
    """A report in a file, which is there as a whole when the run is over and not before."""

    def __init__(self, format_: OutputFormat, path: str, sources: Sequence[str]) -> None:
        """Begin a report about `sources`: the file gets no rights that these paths do not have."""
        self.format = format_
        self.path = path
        self._sources = sources
        self._pieces: list[str] = []
        is_rows = format_ in (OutputFormat.JSON, OutputFormat.JSONL)
        is_document = format_ is OutputFormat.JSON
        self._envelope = Envelope(click.get_current_context(), is_document=is_document) if is_rows else None

    def write(self, text: str) -> None:
        """Hold it for the end."""
        self._pieces.append(text if self._envelope is None else self._envelope.rows(text))

    def end(self, code: int) -> None:
        """Write the file, at the end of a run with this exit code. Raises OSError."""
        from kdump.disk.durable import replace_alone
        from kdump.disk.rights import rights_of

        if self._envelope is not None:
            self._pieces.append(self._envelope.end(code))
        text = "".join(self._pieces)
        data = escape_json(text) if self._envelope is not None or self.format is OutputFormat.SARIF else text
        encoded = data.encode("utf-8", "backslashreplace")
        replace_alone(self.path, encoded, durable=False, rights=rights_of(self._sources))


def output_for(format_: OutputFormat) -> Output:
    """Return stdout for one of the formats that `format_option` gives to a command."""
    if format_ is OutputFormat.TEXT:
        return Output()
    if format_ is not OutputFormat.JSONL:
        return Output(verbatim)
    return Output(escape_json) if Envelope.current is None else RowOutput(Envelope.current)


def bare_rows() -> Output:
    """Return stdout for answers to requests, one JSON object a line each, with nothing around them."""
    Envelope.current = None
    return Output(escape_json)


def finish_rows(code: int) -> None:
    """End the rows on stdout, if there are any, by the exit code."""
    envelope, Envelope.current = Envelope.current, None
    was_cut = code in (exit_codes.INTERRUPTED, exit_codes.TERMINATED)
    if envelope is None or code == exit_codes.USAGE or (was_cut and not envelope.has_summary):
        return
    with Output(escape_json) as out:
        out.write(envelope.end(code))


_HEADLESS = "kdump.shell.rows.headless"


def _choose(ctx: click.Context, _param: click.Parameter, word: str) -> OutputFormat:
    """Say that a command prints rows where one document is asked for; what is around them is another matter."""
    format_ = OutputFormat(word)
    is_document = format_ is OutputFormat.JSON
    is_rows = is_document or format_ is OutputFormat.JSONL
    Envelope.current = Envelope(ctx, is_document=is_document) if is_rows else None
    return OutputFormat.JSONL if is_document else format_


def _leave_out_header(ctx: click.Context, _param: click.Parameter, is_wanted: bool) -> None:
    ctx.meta[_HEADLESS] = is_wanted


def _check_schema(ctx: click.Context, param: click.Parameter, number: int | None) -> None:
    if number not in (None, SCHEMA_VERSION):
        raise click.BadParameter(f"the rows of {ctx.command_path} have the schema {SCHEMA_VERSION}", ctx, param)


def format_options(*others: OutputFormat, name: str = "format_", option: str = "--format") -> Option:
    """Return the options --format, of which a command sees `text`, `jsonl` and `others`, and --no-header.

    `option` is the name where --format is that of records.
    """
    more = f", {', '.join(others)}" if others else ""
    always = (OutputFormat.TEXT, OutputFormat.JSON, OutputFormat.JSONL)
    words = click.Choice([each.value for each in (*always, *others)])
    return all_of(
        click.option(
            "-o", option, name, type=words, default=OutputFormat.TEXT.value, show_default=True,
            callback=_choose, help=f"text for people, one JSON document, one JSON object a line{more}.",
        ),
        click.option(
            "--no-header", is_flag=True, expose_value=False, callback=_leave_out_header,
            help=f"With {option} jsonl: only the rows, without header and plain summary.",
        ),
        click.option(
            "--schema", type=int, metavar="N", expose_value=False, callback=_check_schema,
            help=f"In JSON, rows of this version of their schema. [default: {SCHEMA_VERSION}]",
        ),
    )  # fmt: skip


format_option = format_options()
report_format_option = format_options(option="--report-format")
"""For commands whose --format is that of the records that they read or write."""


def json_line(kind: str, fields: Mapping[str, Any]) -> str:
    """Return an object of a type as a line."""
    return row_line({"type": kind} | dict(fields))


def printer_of(package: str | None, format_: OutputFormat, *arguments: Any, **how: Any) -> Any:
    """Return what prints in a format what the command in a package finds: its `JsonLines` or its `Text`.

    Both are made with the same arguments. Only the module of the one is loaded.
    """
    module, name = ("jsonl", "JsonLines") if format_ is OutputFormat.JSONL else ("text", "Text")
    return getattr(import_module(f"{package}.{module}"), name)(*arguments, **how)


class RowPrinter:
    """Prints what a command finds as rows."""

    def __init__(self, write: Callable[[str], object], *_seen: Any, **_how: Any) -> None:
        """`write` takes whole lines; what else a printer for people is told does not matter."""
        self._write = write

    def row(self, kind: str, fields: Mapping[str, Any]) -> None:
        """Print an object of a type, as `json_line` has it."""
        self._write(json_line(kind, fields))

    def end(self, *_seen: Any, **_how: Any) -> None:
        """Print nothing after the last row: the summary is every command's."""


def row_line(row: Mapping[str, Any]) -> str:
    """Return an object as a line."""
    import json

    return json.dumps(row, separators=(",", ":"), ensure_ascii=False) + "\n"


def fields_of(thing: object, names: str) -> dict[str, Any]:
    """Return fields of a thing as a row has them: `end_offset` as endOffset; null for each where there is no thing.

    `bytes=size` is a field that has another name in the row, `epoch?` a number that is null where it is negative, as
    Kafka has those that are not known.
    """
    return {name: None if thing is None else read(thing) for name, read in _readers(names)}


@cache
def _readers(names: str) -> ItemsView[str, Callable[[object], Any]]:
    """Return the names in a row, and what reads each field of a thing."""
    words = (word.rpartition("=") for word in names.split())
    return {name or _camel_case(field.strip("?").split("_")): _reader(field) for name, _, field in words}.items()


def _reader(field: str) -> Callable[[object], Any]:
    read = attrgetter(field.strip("?"))
    return (lambda thing: None if (number := read(thing)) < 0 else number) if field.endswith("?") else read


def _camel_case(words: Sequence[str]) -> str:
    return "".join((words[0], *map(str.title, words[1:])))


def _command_name(ctx: click.Context) -> str:
    """Return the words after `kdump` on the command line, as in `fixture faults`, joined by a hyphen."""
    return "-".join((ctx.command_path or "").split()[1:]) or str(ctx.info_name)


def _options(ctx: click.Context) -> dict[str, Any]:
    """Return the options of the command line, by the names that they have there."""
    found = {}
    for param in ctx.command.params:
        name = str(param.name)
        is_given = ctx.get_parameter_source(name) == ParameterSource.COMMANDLINE
        if isinstance(param, click.Option) and is_given and name in ctx.params and name not in _NOT_OPTIONS:
            found[_camel_case(max(param.opts, key=len).lstrip("-").split("-"))] = _plain(ctx.params[name])
    return found


def _plain(value: Any) -> Any:
    """Return a value as JSON has it; of what it cannot have, that it was given."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, tuple | list):
        return [_plain(each) for each in value[:_MAX_WORDS]]
    return True

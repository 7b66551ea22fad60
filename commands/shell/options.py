"""The options that every command has: one table says which, and each is defined once.

A command that needs the value of one takes it from here (`verbose_option`, `now_option`, ...); all others get theirs
when they are called. What they ask for is in `Screen.current`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import wraps
from operator import not_
from typing import Any

import click

from kdump.formats.time_units import wall_clock
from kdump.releases import NEWEST, KafkaRelease

from . import exit_codes
from .choice import are_missing, check_chosen, chosen_paths, given_paths, places_in
from .completing import offer_files, topics_of_paths
from .release import ENVIRONMENT, asked_release
from .screen import FailOn, Screen
from .values import duration_seconds, read_by, time_ms

Option = Callable[[Callable[..., Any]], Callable[..., Any]]


def all_of(*options: Option) -> Option:
    """Return several options as one decorator; the help has them in this order."""

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


NO_PATHS = frozenset({"explain", "help", "completion", "fixture build", "fixture faults", "fixture schema"})
"""Commands that take no log directories."""
NO_REPORT = frozenset({"help", "completion", "fixture schema"})
"""Commands that print what is asked for, and look at nothing that could be found wrong."""
OF_A_CLUSTER = frozenset({"resurrect", "quorum show", "quorum set-voters", "serve"})
"""Commands that need all partitions of a directory, or its metadata log alone."""
CHOOSE_AMONG_OTHERS = frozenset({"groups", "metadata"})
"""Commands that choose among the topics which records name, whatever partitions are at hand."""
OF_ONE_PARTITION = frozenset({"append", "roll"})
CHOOSE_THEMSELVES = frozenset({
    "ls", "lookup", "stats", "groups", "txns", "metadata", "schemas", "replicas", "retain", "export",
})  # fmt: skip
"""Commands that look at whole directories also where only some partitions are to be shown."""
QUIET_IF_OK = frozenset({
    "doctor", "verify", "startup", "replicas", "retain", "compact", "repair", "rebuild-index", "trim", "undo", "txns",
    "quorum show", "explain",
})  # fmt: skip
"""Commands of which -q prints nothing where nothing is to be done."""
SHOW_READING = frozenset({"dump", "groups", "txns", "metadata", "schemas", "replicas", "quorum show"})
"""Commands of which what they read says how far they have got."""
WITH_SEVERITIES = frozenset({"doctor", "verify"})

SEVERITIES = ("error", "warning", "note")
"""From the weightiest on."""


def severities_from(least: str) -> frozenset[str]:
    """Return the severities from `least` on."""
    return frozenset(SEVERITIES[: SEVERITIES.index(least) + 1])


def _sets(name: str, read: Callable[[Any], Any] = lambda value: value) -> Callable[..., Any]:
    """Return a callback that keeps an option's value in the present screen."""

    def callback(ctx: click.Context, _param: click.Parameter, value: Any) -> Any:
        if value is not None and not ctx.resilient_parsing:
            setattr(Screen.current, name, read(value))
        return value

    return callback


def partition_numbers(texts: Iterable[str]) -> Callable[[int], bool]:
    """Return a test for numbers such as `3`, `0-4` and `1,7`. Raises ValueError."""
    ranges: list[tuple[int, int]] = []
    for part in (part for text in texts for part in text.split(",")):
        found = re.fullmatch(r"\s*([0-9]{1,10})(?:[-\u2013]([0-9]{1,10}))?\s*", part)
        if not found:
            raise ValueError(f"{part!r}: expected numbers and ranges, as in 3, 0-4 or 1,7")
        ranges.append((int(found[1]), int(found[2] or found[1])))
    return lambda number: any(first <= number <= last for first, last in ranges)


def _choose_partitions(ctx: click.Context, param: click.Parameter, texts: tuple[str, ...]) -> tuple[str, ...]:
    if texts and not ctx.resilient_parsing:
        try:
            Screen.current.has_partition = partition_numbers(texts)
        except ValueError as error:
            raise click.BadParameter(str(error), ctx, param) from None
    return texts


topic_option: Option = click.option(
    "--topic", "topics", multiple=True, metavar="GLOB", shell_complete=topics_of_paths,
    help="Only partitions of topics that match. May be repeated: any of them.",
)  # fmt: skip
partition_option: Option = click.option(
    "--partition", "partitions", multiple=True, metavar="N,N-M", callback=_choose_partitions,
    help="Only partitions with these numbers. May be repeated.",
)  # fmt: skip
quiet_option: Option = click.option(
    "-q", "--quiet", is_flag=True, expose_value=False, callback=_sets("is_quiet"),
    help="No notes and no progress; nothing at all where a check finds nothing.",
)  # fmt: skip
verbose_option: Option = click.option(
    "-v", "--verbose", count=True, callback=_sets("verbosity"),
    help="Show notes and routine partitions too; -vv: every step.",
)  # fmt: skip
color_option: Option = click.option(
    "--color", type=click.Choice(("auto", "always", "never")), default="auto", show_default=True,
    callback=_sets("color"), help="Colour in text; auto: on a terminal, unless NO_COLOR is set.",
)  # fmt: skip
wide_option: Option = click.option(
    "--wide", is_flag=True, expose_value=False, callback=_sets("is_wide"),
    help="On a terminal, leave out no column and fold no line.",
)  # fmt: skip
pager_option: Option = click.option(
    "--no-pager", is_flag=True, expose_value=False, callback=_sets("has_pager", not_),
    help="Print what is longer than the terminal without KDUMP_PAGER, PAGER or less.",
)  # fmt: skip
progress_option: Option = click.option(
    "--progress", type=click.Choice(("auto", "never")), default="auto", show_default=True, expose_value=False,
    callback=_sets("has_progress", lambda value: value == "auto"), help="Progress on a terminal, after a second.",
)  # fmt: skip
times_option: Option = click.option(
    "--times", type=click.Choice(("utc", "ms")), default="utc", show_default=True, expose_value=False,
    callback=_sets("times_in_ms", lambda value: value == "ms"),
    help="Times in text: UTC in ISO 8601, or ms since 1970.",
)  # fmt: skip
fail_on_option: Option = click.option(
    "--fail-on", type=click.Choice([each.value for each in FailOn]), callback=_sets("fail_on", FailOn),
    help="From which severity on to exit with 1. [default: any finding]",
)  # fmt: skip
min_severity_option: Option = click.option(
    "--min-severity", type=click.Choice(SEVERITIES), callback=_sets("min_severity"), expose_value=False,
    help="Show findings from this severity on. [default: warning]",
)  # fmt: skip


def _now(ctx: click.Context, param: click.Parameter, text: str | None) -> int:
    return wall_clock() if text is None else int(read_by(time_ms)(ctx, param, text))


NOW_HELP = "Compute ages at this time: ISO 8601, ms, or -15m for a quarter of an hour ago."
now_option: Option = click.option(
    "--now", metavar="TIME", callback=_now, help=f"{NOW_HELP} [default: the clock]"
)  # fmt: skip
now_if_given_option: Option = click.option(
    "--now", metavar="TIME", callback=read_by(time_ms), help=f"{NOW_HELP} [default: the clock]"
)  # fmt: skip
"""As `now_option`, but None where no time is given."""


apply_option: Option = click.option(
    "--apply", "applies", is_flag=True, help="Do it; else it is only shown."
)  # fmt: skip
threads_option: Option = click.option(
    "--jobs", type=click.IntRange(1), metavar="N",
    help="Threads that read, of partitions and of one large segment. [default: one a core]",
)  # fmt: skip
ignore_lock_option: Option = click.option(
    "--ignore-lock", "force", metavar="NAME",
    help="Do not look whether a broker uses the directory. NAME must be that of the directory.",
)  # fmt: skip


def max_duration_option(default: str | None = None, note: str = "") -> Option:
    """Return the option after which time a command begins no further segment; `note` ends its help."""
    return click.option(
        "--max-duration", metavar="TIME", callback=read_by(duration_seconds), default=default,
        show_default=default is not None, help=f"Begin no further segment after this time (90s, 15m, 1h30m){note}.",
    )  # fmt: skip


def _release(ctx: click.Context, param: click.Parameter, text: str | None) -> KafkaRelease | None:
    try:
        return asked_release(text)
    except ValueError as error:
        raise click.BadParameter(str(error), ctx, param) from None


kafka_option: Option = click.option(
    "--kafka", "kafka", metavar="RELEASE", callback=_release,
    help=f"Do as this release of Kafka does, such as {NEWEST.value}. By default {ENVIRONMENT}, else the release that"
    " wrote the log directory, by the brokers in its cluster metadata, else the newest.",
)  # fmt: skip


def _everywhere(name: str) -> bool:
    return name not in NO_REPORT


def _takes_paths(name: str) -> bool:
    return name not in NO_PATHS | OF_ONE_PARTITION


def _chooses_partitions(name: str) -> bool:
    return name not in NO_PATHS | OF_A_CLUSTER | OF_ONE_PARTITION


directories_option: Option = click.option(
    "--config", "config_file", type=click.Path(exists=True, dir_okay=False), metavar="FILE",
    help="A server.properties: without PATH its log.dirs, and the settings that the command goes by.",
)  # fmt: skip

COMMON: tuple[tuple[str, Callable[[str], bool], Option], ...] = (
    ("--topic", _chooses_partitions, topic_option),
    ("--partition", _chooses_partitions, partition_option),
    ("--config", lambda name: name not in NO_PATHS | {"lookup", "metadata"}, directories_option),
    ("--min-severity", WITH_SEVERITIES.__contains__, min_severity_option),
    ("--fail-on", lambda name: _everywhere(name) and name not in NO_PATHS, fail_on_option),
    ("--quiet", _everywhere, quiet_option),
    ("--verbose", _everywhere, verbose_option),
    ("--times", _everywhere, times_option),
    ("--wide", _everywhere, wide_option),
    ("--color", _everywhere, color_option),
    ("--no-pager", _everywhere, pager_option),
    ("--progress", _everywhere, progress_option),
)
"""Each option, the commands that have it, and its definition."""


def with_common_options(
    name: str, command: click.Command
) -> tuple[list[click.Parameter], Callable[..., Any] | None]:
    """Return the parameters of a command with those that all have, and its function with what they ask for around it.

    Options that the command defines itself are left alone.
    """
    known = {each for param in command.params for each in param.opts}
    added = [_as_parameter(option) for each, applies, option in COMMON if applies(name) and each not in known]
    offer_files(command.params)
    if command.callback is None:
        return [*command.params, *added], None
    is_required = False
    has_several_paths = _takes_paths(name) and name not in ("lookup", "metadata")
    for param in command.params:
        if has_several_paths and isinstance(param, click.Argument) and param.name == "paths":
            is_required, param.required, param.metavar = param.required, False, "[PATH...]"
    names = {str(param.name) for param in added if param.expose_value}
    return [*command.params, *added], _run_with(name, command.callback, names, is_required=is_required)


def _as_parameter(option: Option) -> click.Parameter:
    """Return the option as an object of its own."""

    def nothing() -> None:
        """Take it."""

    found: click.Parameter = option(nothing).__click_params__[0]  # type: ignore[attr-defined]
    return found


def help_of(option: Option) -> str | None:
    """Return what the help says of one of the common options."""
    found = _as_parameter(option)
    return found.help if isinstance(found, click.Option) else None


def _run_with(name: str, run: Callable[..., Any], added: set[str], *, is_required: bool) -> Callable[..., Any]:
    """Return the command itself, called with what it knows; what the added options ask for is done around it."""

    @wraps(run)
    def call(*arguments: Any, **given: Any) -> Any:
        values = {each: given.pop(each) for each in added if each in given}
        screen = Screen.current
        screen.drops_if_ok = screen.is_quiet and name in QUIET_IF_OK
        if given.get("applies") or given.get("follow"):
            screen.has_pager = False
        if _takes_paths(name) and "paths" in given:
            given["paths"] = given_paths(given["paths"], {**values, **given}, is_required=is_required)
            if name not in CHOOSE_THEMSELVES and _chooses_partitions(name):
                given["paths"] = chosen_paths(given["paths"], *_choice({**given, **values}))
        if values.get("config_file") is not None:
            from .server_settings import from_server

            given |= from_server(name, values["config_file"])
        places = places_in(given)
        screen.is_in_vain = _takes_paths(name) and are_missing(places)
        if name in CHOOSE_THEMSELVES - CHOOSE_AMONG_OTHERS:
            check_chosen(places, *_choice({**given, **values}))
        try:
            with _progress_of(name, given):
                code = run(*arguments, **given)
        except click.exceptions.Exit as done:
            raise click.exceptions.Exit(_exit_code(done.exit_code)) from None
        return _exit_code(code)

    return call


def _choice(given: Mapping[str, Any]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    return given.get("topics") or given.get("patterns") or (), given.get("partitions") or ()


def _progress_of(name: str, given: Mapping[str, Any]) -> AbstractContextManager[object]:
    """Return a bar around a command that walks logs and shows none of its own; none in the middle of what it prints."""
    is_printing = name == "dump" and (given.get("follow") or sys.stdout.isatty())
    if name not in SHOW_READING or is_printing:
        return nullcontext()
    from .progress import ReadingBar

    return ReadingBar(places_in(given))


def _exit_code(code: Any) -> Any:
    is_forgiven = code == exit_codes.FINDINGS and Screen.current.fail_on is FailOn.NEVER
    return exit_codes.OK if is_forgiven else code

"""Every option of every command, and every format that it prints or reads, stands in a step of a session.

A new option without a transcript fails here: add a step, or a line with the reason to LEFT_OUT.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import takewhile

import click
import pytest

from kdump.commands.cli import cli
from kdump.commands.shell.options import COMMON, help_of
from tests.transcripts.sessions import SESSIONS, Step, steps

Path = tuple[str, ...]
"""A command with the groups that it is in: `("quorum", "show")`."""

SPARK = "needs PySpark; tests/spark has it"
LEFT_OUT = {
    "--engine": SPARK,
    "--master": SPARK,
    "--conf": SPARK,
    "--help": "the session `help` has it",
}
"""Options that no session has, and why."""
OF_ALL = {name: help_of(option) for name, _, option in COMMON} | {"--no-header": None, "--schema": None}
"""Options that are defined once for all commands, with their help: a step of one command is enough. Some commands have
an option of their own of that name, with a help of its own.
"""


def commands(group: click.Group = cli, path: Path = ()) -> Iterator[tuple[Path, click.Command]]:
    """The commands that do something, those of groups too."""
    context = click.Context(group, info_name="kdump")
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from commands(command, (*path, name))
        elif command is not None:
            yield (*path, name), command


COMMANDS = dict(commands())


def command_of(step: Step) -> Path:
    """The command that a step runs."""
    words = tuple(takewhile(lambda word: not word.startswith("-"), step.words))
    named = next((path for path in COMMANDS if words[: len(path)] == path), ())
    if named or not words:
        return named
    return ("quorum", "show") if words[0] == "quorum" else ("doctor",) if "--brief" in step.words else ()


def told() -> dict[Path, list[list[str]]]:
    """The arguments of all steps by command."""
    found: dict[Path, list[list[str]]] = {path: [] for path in COMMANDS}
    for session in sorted(SESSIONS.glob("*.txt")):
        for step in steps(session.read_text(encoding="utf-8", errors="surrogateescape")):
            if path := command_of(step):
                found[path].append(step.words)
    return found


TOLD = told()


def given(path: Path, names: list[str]) -> Iterator[str | None]:
    """What steps of a command give for an option of these names; None where nothing follows."""
    for words in TOLD[path]:
        for word, after in zip(words, [*words[1:], None], strict=True):
            name, equals, value = word.partition("=")
            if name in names:
                yield value if equals else after


def options(command: click.Command, *, of_all: bool) -> Iterator[list[str]]:
    """The names of each option, those of all commands or its own; what turns it off is one of its own."""
    for option in command.params:
        if not isinstance(option, click.Option) or LEFT_OUT.keys() & set(option.opts):
            continue
        if of_all == any(OF_ALL.get(name, "") in (None, option.help) for name in option.opts):
            yield option.opts
            if option.secondary_opts:
                yield option.secondary_opts


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_every_option_has_a_transcript(path: Path) -> None:
    own = options(COMMANDS[path], of_all=False)
    assert [names for names in own if not list(given(path, names))] == [], "no session has these: add a step"


@pytest.mark.parametrize("name", sorted(OF_ALL))
def test_every_option_of_all_commands_has_a_transcript(name: str) -> None:
    each = ((path, names) for path, command in COMMANDS.items() for names in options(command, of_all=True))
    having = {path: names for path, names in each if name in names}
    assert having
    assert any(list(given(path, names)) for path, names in having.items()), f"no session has {name}"


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_every_format_has_a_transcript(path: Path) -> None:
    """The default one stands where none is named, and the sessions of each command have it in text."""
    for option in COMMANDS[path].params:
        if {"--format", "--report-format"} & set(option.opts) and isinstance(option.type, click.Choice):
            printed = {*given(path, option.opts), option.default}
            assert [each for each in option.type.choices if each not in printed] == [], "no session has these"


def test_what_is_left_out_exists() -> None:
    known = {name for command in COMMANDS.values() for option in command.params for name in option.opts} | {"--help"}
    assert LEFT_OUT.keys() <= known

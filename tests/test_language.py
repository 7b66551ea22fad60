"""What commands print: no losing advice first, and lines that fit a terminal."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from kdump.commands.cli import COMMANDS, cli

HERE = Path(__file__).parent
SESSIONS = HERE / "transcripts" / "sessions"

def commands() -> Iterator[tuple[str, click.Command, click.Context]]:
    """Every command with its context, those of groups too."""
    root = click.Context(cli, info_name="kdump", **cli.context_settings)
    for name in COMMANDS:
        command = cli.get_command(root, name)
        assert command is not None
        context = click.Context(command, parent=root, info_name=name, **command.context_settings)
        yield name, command, context
        if isinstance(command, click.Group):
            for inner in command.list_commands(context):
                found = command.get_command(context, inner)
                assert found is not None
                yield f"{name} {inner}", found, click.Context(found, parent=context, info_name=inner)


ADVISING = re.compile(r"--strategy (?:truncate|salvage)|--accept-loss|\brm -|\bdelete the (?:file|directory)")
LOSSLESS = re.compile(r"[Ll]oses nothing|loses nothing|--fix-bit|--from|in-sync replica|other copy")


@pytest.mark.parametrize("name", ["doctor", "explain", "verify", "repair"])
def test_what_loses_data_is_never_advised_first(name: str) -> None:
    text = (SESSIONS / f"{name}.txt").read_text(encoding="utf-8")
    for block in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        command, _, printed = block.partition("\n")
        if "--format" in command or "--strategy" in command or "--help" in command:
            continue
        advised = ADVISING.search(printed)
        if advised is not None:
            assert LOSSLESS.search(printed[: advised.start()]), f"$ {command}"


def test_help_fits_a_terminal() -> None:
    for name, command, context in commands():
        context.terminal_width = context.max_content_width = 80
        long = [line for line in command.get_help(context).splitlines() if len(line) > 80]
        assert long == [], name


# Screens for people at a terminal of 80 columns.
@pytest.mark.parametrize("name", ["doctor", "explain"])
def test_lines_fit_a_terminal(name: str) -> None:
    text = (SESSIONS / f"{name}.txt").read_text(encoding="utf-8")
    for block in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        command, _, printed = block.partition("\n")
        if not command.startswith("COLUMNS=80 "):
            continue
        long = [line for line in printed.splitlines() if len(line) > 80 and not line.startswith("2> ")]
        assert long == [], f"$ {command}"

"""What a shell offers while a command line is typed: codes, topics of the PATHs that are there, faults, change ids."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress

import click

from kdump.errors import KdumpError

from .choice import places_in, topics_at

MAX_OFFERED = 200
PATH_ARGUMENTS = frozenset({"paths", "path", "spec", "out"})


def _beginning(words: Iterable[str], incomplete: str) -> list[str]:
    return sorted({word for word in words if word.startswith(incomplete)})[:MAX_OFFERED]


def command_names(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Return the commands."""
    root = ctx.find_root()
    names = root.command.list_commands(root) if isinstance(root.command, click.Group) else []
    return _beginning(names, incomplete)


def finding_codes(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Return the codes of findings."""
    from kdump.findings.catalogue import CATALOGUE

    return _beginning(CATALOGUE, incomplete.upper())


def fault_names(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Return the faults that a fixture can have."""
    from kdump.fixture.faults import FAULTS

    return _beginning(FAULTS, incomplete)


def topics_of_paths(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Return the topics in the log directories that are typed already."""
    return _beginning(topics_at(_paths(ctx)), incomplete)


def change_ids(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Return the changes of the PATHs that are typed already."""
    from kdump.operations.undo import list_changes

    found: set[str] = set()
    for path in _paths(ctx):
        with suppress(OSError, KdumpError):
            found.update(each.change.id for each in list_changes(path, None).changes)
    return _beginning(found, incomplete)


def one_of(words: Iterable[str]) -> Callable[[click.Context, click.Parameter, str], list[str]]:
    """Return what offers some words; an option that reads its value by itself has no click.Choice."""
    return lambda _ctx, _param, incomplete: _beginning(words, incomplete)


def offer_files(params: Iterable[click.Parameter]) -> None:
    """Let a shell offer files and directories for arguments that are paths: without a type it would offer nothing."""
    for param in params:
        if isinstance(param, click.Argument) and param.name in PATH_ARGUMENTS:
            param.type = click.Path(readable=False)  # that one cannot be read is found, and said, later


def _paths(ctx: click.Context) -> Iterable[str]:
    return places_in(ctx.params) or ctx.args

"""A command with the options that all have: these are in its help only with `--help --all`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import click

from .given_once import GivenOnce
from .options import COMMON, help_of, with_common_options
from .prose import folded
from .screen import Screen

_ORDER = {name: (number, help_of(option)) for number, (name, _, option) in enumerate(COMMON)}


class Command(click.Command):
    """A click command whose help leaves out what every command has, unless --all asks for it."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the arguments; what is wrong with them is this command's."""
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            error.ctx = error.ctx or ctx
            raise

    def make_parser(self, ctx: click.Context) -> Any:
        """Return the parser of the command's options; one that takes a single value may not be given two."""
        empty = type(super().make_parser(ctx))(ctx)
        parser: Any = GivenOnce(empty, ctx)
        for param in self.get_params(ctx):
            param.add_to_parser(parser, ctx)
        return parser

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the command's own options, and which there are beside them."""
        options = [param for param in self.get_params(ctx) if isinstance(param, click.Option)]
        common = sorted(filter(_is_common, options), key=lambda param: _ORDER[param.opts[-1]][0])
        with formatter.section("Options"):
            formatter.write_dl(_records(ctx, (param for param in options if param not in common)))
        if common and Screen.current.shows_all_options:
            with formatter.section("Options that all commands have"):
                formatter.write_dl(_records(ctx, common))
        elif common:
            names = " ".join(param.opts[0] for param in common)
            formatter.write_paragraph()
            for line in folded(f"Also, as in all commands: {names} (--help --all describes them).", formatter.width):
                formatter.write(f"{line}\n")


def _is_common(param: click.Option) -> bool:
    """Return whether an option is one of those that all have, and means here what it does everywhere."""
    return param.opts[-1] in _ORDER and param.help == _ORDER[param.opts[-1]][1]


def _records(ctx: click.Context, options: Iterable[click.Option]) -> list[tuple[str, str]]:
    records = (param.get_help_record(ctx) for param in options)
    return [record for record in records if record is not None]


def complete_command(name: str, command: click.Command) -> click.Command:
    """Return the command, named as in `quorum show`, with the options that all have; of a group each of its commands.

    It names its help option itself: click keeps the option that the first call made, whoever made it.
    """
    command.context_settings.setdefault("help_option_names", ["-h", "--help"])
    if isinstance(command, click.Group):
        for inner, each in command.commands.items():
            command.commands[inner] = complete_command(f"{name} {inner}", each)
        return command
    if isinstance(command, Command):
        return command
    params, callback = with_common_options(name, command)
    return Command(
        command.name,
        context_settings=command.context_settings,
        callback=callback,
        params=params,
        help=command.help,
        epilog=command.epilog,
        short_help=command.short_help,
        options_metavar=command.options_metavar,
        no_args_is_help=command.no_args_is_help,
        hidden=command.hidden,
        deprecated=command.deprecated,
    )

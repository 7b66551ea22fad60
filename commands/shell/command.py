"""A command with the options that all have, and with two helps: a short one, and all of it with `--help --all`."""

from __future__ import annotations

import inspect
import os
from collections.abc import Iterable
from typing import Any

import click

from kdump.disk import meeting

from .given_once import GivenOnce
from .options import COMMON, help_of, with_common_options
from .screen import Screen

_ORDER = {name: (number, help_of(option)) for number, (name, _, option) in enumerate(COMMON)}


MAX_EXAMPLES = 3
"""Examples in the short help."""
_EXAMPLES, _EXIT_CODES = "Examples:", "Exit"

_ENVIRONMENT, _NORMAL = "KDUMP_PRIORITY", "normal"
_OWN = frozenset({"verify", "serve"})
"""Commands that see to it themselves: by an option, or because clients wait for them as they wait for a broker."""


class Command(click.Command):
    """A click command whose help says in short what it does and how it is called, unless --all asks for all."""

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

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command, behind a broker where it meets one."""
        _yield_to_brokers(ctx.command.name)
        return super().invoke(ctx)

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write what the command does; in short: the first paragraph, the exit codes, and a few examples."""
        if Screen.current.shows_all_options:
            super().format_help_text(ctx, formatter)
            return
        paragraphs = inspect.cleandoc(self.help or "").split("\n\n")
        kept = [text for at, text in enumerate(paragraphs) if not at or _begins(text, _EXIT_CODES)]
        kept += [_few_examples(text) for text in paragraphs if _begins(text, _EXAMPLES)]
        formatter.write_paragraph()
        with formatter.indentation():
            formatter.write_text("\n\n".join(kept))

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the command's own options, and which there are beside them; in short: their names."""
        options = [param for param in self.get_params(ctx) if isinstance(param, click.Option) and not param.hidden]
        common = sorted(filter(_is_common, options), key=lambda param: _ORDER[param.opts[-1]][0])
        own = [param for param in options if param not in common]
        if Screen.current.shows_all_options:
            with formatter.section("Options"):
                formatter.write_dl(_records(ctx, own))
            if common:
                with formatter.section("Options that all commands have"):
                    formatter.write_dl(_records(ctx, common))
            return
        for title, some in (("Options:", own), ("As in all commands:", common)):
            if some:
                formatter.write_paragraph()
                self._write_lines(formatter, f"{title} {' '.join(map(_name_of, some))}")
        formatter.write_paragraph()
        self._write_lines(formatter, f"All of it, with each option: {ctx.command_path} --help --all")

    def _write_lines(self, formatter: click.HelpFormatter, text: str) -> None:
        from .prose import folded

        for line in folded(text, formatter.width, indent="  "):
            formatter.write(f"{line}\n")


def _yield_to_brokers(command: str | None) -> None:
    """Let a command go on behind a broker once it meets one, unless the environment has KDUMP_PRIORITY=normal."""
    yields = command not in _OWN and os.environ.get(_ENVIRONMENT) != _NORMAL
    meeting.at_broker = _come_second if yields else None


def _come_second() -> None:
    from kdump.disk.pace import lower_priority

    from .output import note

    meeting.at_broker = None
    gained = lower_priority()
    if Screen.current.verbosity:
        how = ", ".join(gained) or "cannot be had here"
        note(f"low priority while a broker runs: {how} ({_ENVIRONMENT}=normal: usual priority)")


def _begins(text: str, words: str) -> bool:
    """Return whether a paragraph begins with some words, behind what tells click to leave its lines as they are."""
    return text.removeprefix("\b\n").startswith(words)


def _few_examples(text: str) -> str:
    """Return a paragraph of examples with the first few of them; lines further in continue with the one before."""
    title, _, rest = text.partition(f"{_EXAMPLES}\n")
    kept, count = [], 0
    for line in rest.split("\n"):
        count += not line.startswith("   ")
        if count > MAX_EXAMPLES:
            break
        kept.append(line)
    return f"{title}{_EXAMPLES}\n" + "\n".join(kept)


def _name_of(param: click.Option) -> str:
    """Return the longest name of an option, with that of its opposite."""
    return "/".join(max(names, key=len) for names in (param.opts, param.secondary_opts) if names)


def _is_common(param: click.Option) -> bool:
    """Return whether an option is one of those that all have, and means here what it does everywhere."""
    return param.opts[-1] in _ORDER and param.help == _ORDER[param.opts[-1]][1]


def _records(ctx: click.Context, options: Iterable[click.Option]) -> list[tuple[str, str]]:
    records = (param.get_help_record(ctx) for param in options)
    return [record for record in records if record is not None]


_TAKEN_OVER = (
    "name", "context_settings", "help", "epilog", "short_help", "options_metavar", "no_args_is_help", "hidden",
    "deprecated",
)  # fmt: skip


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
    same = {name: getattr(command, name) for name in _TAKEN_OVER}
    return Command(callback=callback, params=params, **same)

"""An option that takes one value may not be given two different ones: click alone would take the last, silently."""

from __future__ import annotations

from typing import Any

import click

_GATHERED = {None: "append", "store": "append", "store_const": "append_const"}


class GivenOnce:
    """A parser of click's that refuses two values of an option that takes one."""

    def __init__(self, parser: Any, ctx: click.Context) -> None:
        self._parser = parser
        self._ctx = ctx
        self._single: dict[str, list[click.Option]] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._parser, name)

    def add_option(self, obj: click.Option, dest: str, action: str | None = None, **how: Any) -> None:
        """Take an option as click's parser does, but keep all values of one that takes a single one."""
        if action in _GATHERED:
            self._single.setdefault(dest, []).append(obj)
            action = _GATHERED[action]
        self._parser.add_option(obj=obj, dest=dest, action=action, **how)

    def parse_args(self, args: list[str]) -> tuple[dict[str, Any], list[str], list[click.Parameter]]:
        """Parse as click's parser does. Raises click.BadOptionUsage."""
        values, rest, order = self._parser.parse_args(args=args)
        for dest, options in self._single.items():
            if dest in values:
                found = values[dest]
                values[dest] = found[-1]
                other = next((each for each in found if each != found[-1]), None)
                if other is not None and not self._ctx.resilient_parsing:
                    raise click.BadOptionUsage(_name(options[0]), _words(options, other, found[-1]), self._ctx)
        return values, rest, order


def _words(options: list[click.Option], one: Any, other: Any) -> str:
    names = [_flag(options, each) for each in (one, other)]
    if None not in names:
        return f"{names[0]} and {names[1]} contradict each other: give one of them"
    return f"{_name(options[0])} takes one value, and is given {str(one)!r} and {str(other)!r}: give one of them"


def _flag(options: list[click.Option], value: Any) -> str | None:
    """Return the flag that stands for a value; None where there is none."""
    for option in filter(lambda each: each.is_flag, options):
        if value is False and option.secondary_opts:
            return max(option.secondary_opts, key=len)
        if value in (True, option.flag_value):
            return _name(option)
    return None


def _name(option: click.Option) -> str:
    return max(option.opts, key=len)

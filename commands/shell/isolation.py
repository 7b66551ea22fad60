"""The option --isolation."""

from __future__ import annotations

import click

from kdump.transactions.isolation_level import Isolation

from .options import Option


def _level(_ctx: click.Context, _param: click.Parameter, text: str) -> Isolation:
    return Isolation(text)


isolation_option: Option = click.option(
    "--isolation", type=click.Choice([level.value for level in Isolation]), default=Isolation.READ_UNCOMMITTED.value,
    show_default=True, callback=_level,
    help="read_committed: only what a consumer with this isolation.level gets, up to the last stable offset, without"
    " aborted transactions and markers.",
)  # fmt: skip

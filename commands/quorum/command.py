"""`kdump quorum`: who has what of a KRaft quorum's log, who could win, and other voters for a quorum that cannot."""

from __future__ import annotations

from itertools import chain

import click

from kdump.cluster.set_voters import VoterAt, names_twice, plan_voters
from kdump.operations.quorum import apply_voters, quorum_at

from ..shell import exit_codes
from ..shell.options import apply_option, now_option
from ..shell.paths import matches
from ..shell.rows import OutputFormat, format_option, output_for, printer_of
from ..shell.session import Diagnostics, say_if_refused
from ..shell.values import read_by

_SHOW = "show"


class _ShowsByDefault(click.Group):
    """A group that takes PATHs for those of its command `show`."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in self.commands:
            args = [_SHOW, *args]
        return super().resolve_command(ctx, args)


@click.group("quorum", cls=_ShowsByDefault)
def command() -> None:
    """Compare the copies of a KRaft quorum's log, and set new voters for a quorum without a majority.

    PATHs are log directories with a __cluster_metadata-0, of controllers and of brokers. `kdump quorum PATH...` is the
    same as `kdump quorum show PATH...`.

    \b
    Examples:
      kdump quorum /mnt/c1/data /mnt/c2/data /mnt/b4/data
      kdump quorum set-voters /c1 /b4 --voters 1@kafka1:9093 --others-are-gone
    """


@command.command(_SHOW, short_help="Show every copy, who could win, what each choice would lose.")
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@format_option
def show_command(paths: tuple[str, ...], format_: OutputFormat) -> int:
    """Show every copy: last epoch, log end, voters, quorum-state; who could win, what each choice would lose.

    Nothing is changed. Exits with 1 where a copy is damaged, else with 0.

    \b
    Examples:
      kdump quorum show /mnt/c1/data /mnt/c2/data
      kdump quorum /mnt/c?/data --format jsonl
      kdump quorum /mnt/c1/data /mnt/b4/data --format json
    """
    diagnostics = Diagnostics()
    with output_for(format_) as out:
        quorum = quorum_at([each for path in paths for each in matches(path)], diagnostics)
        printer_of(__package__, format_, out.write, paths).quorum(quorum)
    if not all(copy.is_sound for copy in quorum.copies):
        diagnostics.worsen(exit_codes.FINDINGS)
    return diagnostics.code


@command.command("set-voters", short_help="Append a record that makes these nodes the only voters.")
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option("--voters", "voter_lists", required=True, multiple=True, metavar="NODE@HOST:PORT[,...]",
    callback=read_by(lambda text: list(map(VoterAt.parse, text.split(",")))),
    help="The new voters; one is enough, Kafka's own tool adds the others later. May be repeated.")
@click.option("--listener", default="CONTROLLER", show_default=True, metavar="NAME", help="Their controller listener.")
@click.option("--others-are-gone", is_flag=True,
    help="The old voters that are not among the PATHs are destroyed or wiped: none of them can lead any more.")
@click.option("--accept-loss", is_flag=True,
    help="Accept the loss of what the newest copy has and the chosen one lacks.")
@apply_option
@now_option
@format_option
def set_voters_command(
    paths: tuple[str, ...],
    voter_lists: tuple[list[VoterAt], ...],
    listener: str,
    others_are_gone: bool,
    accept_loss: bool,
    applies: bool,
    now: int,
    format_: OutputFormat,
) -> int:
    """Append a record that makes these nodes the only voters of a dynamic quorum (kraft.version 1).

    For a quorum that lost its majority, or whose controllers have other addresses. Give all copies of the metadata log
    that are left, those of brokers too: the newest one has to lead. The record gets a leader epoch above all that any
    copy names. The voters of a static quorum are in server.properties alone: kdump prints the line.

    Exits with 0 when it is done or the voters are these already, 1 when it only showed the plan, 4 when a safety check
    refused.

    \b
    Examples:
      kdump quorum set-voters /c1 --voters 1@k1:9093 --others-are-gone
      kdump quorum set-voters /c1 --voters 1@k1:9093 --others-are-gone --apply
      kdump quorum set-voters /c? --voters 1@n1:9093,2@n2:9093,3@n3:9093 --apply
    """
    voters = list(chain.from_iterable(voter_lists))
    if names_twice(voters):
        raise click.UsageError("--voters names a node twice.")
    wanted = [each._replace(listener=listener) for each in voters]
    with output_for(format_) as out:
        quorum = quorum_at([each for path in paths for each in matches(path)], Diagnostics())
        plan = plan_voters(quorum, wanted, others_are_gone=others_are_gone, accepts_loss=accept_loss)
        printer = printer_of(__package__, format_, out.write, paths)
        printer.quorum(quorum)
        printer.plan(plan)
        if not (plan.is_done or plan.refusals) and applies:
            return say_if_refused(out, lambda: printer.end(plan, apply_voters(plan, now)))
        printer.end(plan, None)
        if plan.is_done:
            return exit_codes.OK
        return exit_codes.REFUSED if plan.refusals else exit_codes.FINDINGS

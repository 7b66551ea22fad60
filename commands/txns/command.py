"""`kdump txns`: open and hanging transactions, and what they hold up."""

from __future__ import annotations

import click

from kdump.errors import KdumpError
from kdump.formats import names
from kdump.formats.printable import safe
from kdump.operations.transactions import TransactionsOf, has_transactions
from kdump.settings.defaults import MAX_TIMEOUT_MS
from kdump.topics.transaction_ids import ENDING, TransactionalIds

from ..shell import exit_codes
from ..shell.options import now_option, topic_option, verbose_option
from ..shell.replicas import chosen_replicas, newest, replicas_at
from ..shell.rows import OutputFormat, format_option, output_for, printer_of
from ..shell.session import Diagnostics


@click.command("txns")
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@topic_option
@click.option("--max-timeout-ms", type=click.IntRange(min=0), default=MAX_TIMEOUT_MS, show_default=True,
    help="The brokers' transaction.max.timeout.ms.")
@click.option("--ended", is_flag=True,
    help="Also list the transactions that markers ended, and markers without an open transaction.")
@click.option("--all", "is_all", is_flag=True,
    help="Also show partitions without anything open, and transactional ids without a transaction.")
@now_option
@verbose_option
@format_option
def command(
    paths: tuple[str, ...],
    topics: tuple[str, ...],
    max_timeout_ms: int,
    ended: bool,
    is_all: bool,
    now: int,
    verbose: int,
    format_: OutputFormat,
) -> int:
    """Show open transactions, the last stable offset, and which transactions hang.

    PATHs are partition directories or log directories. kdump reads the headers of all batches and trusts no index. If
    the PATHs have partitions of __transaction_state, it joins producers with their transactional ids.

    A transaction hangs if no marker will end it, as kafka-transactions.sh find-hanging says it: its last record is
    older than transaction.max.timeout.ms, and the state of its transactional id does not cover its partition any more.
    If no transactional id in the PATHs has its producer, it hangs when it is five minutes older than that: so brokers
    count late transactions. kdump prints the command that aborts it. A transaction that its coordinator still has does
    not hang: the coordinator ends it when it runs.

    Exits with 1 when a transaction hangs, a transactional id is stuck before its markers are written, the transaction
    index does not fit the log, or data is damaged.

    \b
    Examples:
      kdump txns /data/kafka-logs
      kdump txns /data/orders-3 /data/__transaction_state-* --ended
      kdump txns /backup/kafka-logs --now 2026-01-31T12:00:00Z --format jsonl
    """
    diagnostics = Diagnostics()
    found = replicas_at(paths, diagnostics)
    if not found and diagnostics.code:
        return diagnostics.code
    partitions = list(filter(has_transactions, chosen_replicas(found, topics)))
    states = [replica for replica in found if replica.topic == names.TRANSACTION_STATE_TOPIC]
    ids = TransactionalIds.of(newest(states, diagnostics), diagnostics)
    transactions = TransactionsOf(ids, diagnostics, now, max_timeout_ms)
    if not partitions and (topics or not states):
        wanted = f" of a topic {', '.join(map(safe, topics))}" if topics else ""
        raise KdumpError(f"there is no partition{wanted} in these PATHs")
    is_all_shown = is_all or len(found) == 1
    with output_for(format_) as out:
        printer = printer_of(__package__, format_, out.write, now, is_all=is_all_shown or verbose > 0)
        for each in transactions.of(partitions, keep_ended=ended):
            if not each.is_sound:
                diagnostics.worsen(exit_codes.FINDINGS)
            along = each.found
            is_shown = is_all_shown or along.open or along.mismatches or along.ended
            printer.partition(along, each.open, is_shown=bool(is_shown))
        for _, owner in sorted(transactions.ids.by_id.items()):
            is_stuck = transactions.is_stuck(owner)
            if is_stuck:
                diagnostics.worsen(exit_codes.FINDINGS)
            if is_all_shown or owner.partitions or owner.state in ENDING:
                printer.transactional_id(owner, is_stuck)
        printer.end(diagnostics.code)
    return diagnostics.code

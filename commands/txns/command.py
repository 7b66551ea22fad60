"""`kdump txns`: open and hanging transactions, and what they hold up."""

from __future__ import annotations

from dataclasses import dataclass

import click

from kdump.errors import KdumpError
from kdump.formats import names
from kdump.storage.replica import Replica, held_replicas
from kdump.topics.transaction_ids import ENDING, TransactionalId, TransactionalIds, transactional_ids
from kdump.transactions.partition import MAX_TIMEOUT_MS, OpenTxn, PartitionTxns, transactions_of

from ..shell import exit_codes
from ..shell.completing import topics_of_paths
from ..shell.options import chooses, format_option, newest, now_option, output_for, replicas_at
from ..shell.output import safe
from ..shell.session import Troubles
from .text import JsonLines, OpenRow, TextLines

LATE = "late"
NOT_COVERED = "not covered"


@dataclass(frozen=True, slots=True)
class Options:
    """What the command line asks for; times in ms."""

    now: int
    max_timeout_ms: int
    is_ended_shown: bool
    is_all_shown: bool


@click.command("txns")
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option("--topic", "patterns", multiple=True, metavar="GLOB", shell_complete=topics_of_paths,
    help="Topics whose name matches. May be repeated.")
@click.option("--max-timeout-ms", type=click.IntRange(min=0), default=MAX_TIMEOUT_MS, show_default=True,
    help="The brokers' transaction.max.timeout.ms.")
@click.option("--ended", is_flag=True, help="Also list the transactions that markers ended, and markers of none.")
@click.option("--all", "is_all", is_flag=True,
    help="Also show partitions without anything open, and transactional ids without a transaction.")
@now_option
@format_option
def command(
    paths: tuple[str, ...],
    patterns: tuple[str, ...],
    max_timeout_ms: int,
    ended: bool,
    is_all: bool,
    now: int,
    format_: str,
) -> int:
    """Show open transactions, the last stable offset, and which transactions hang.

    PATHs are partition directories or log directories. The headers of all batches are walked; nothing is taken from
    indexes. Where partitions of __transaction_state are among the PATHs, or in those log directories, producers are
    joined with their transactional ids.

    A transaction hangs by either of Kafka's own rules. It is late, its last record being older than
    transaction.max.timeout.ms and five minutes more: so brokers count late transactions. Or its last record is older
    than transaction.max.timeout.ms, and the state of its transactional id does not cover its partition any more, so
    that no marker will come: so kafka-transactions.sh find-hanging finds them. The line that aborts it is printed with
    it.

    Exits with 1 when a transaction hangs, a transactional id is stuck before its markers are written, the transaction
    index does not fit the log, or data is damaged.

    \b
    Examples:
      kdump txns /data/kafka-logs
      kdump txns /data/orders-3 /data/__transaction_state-* --ended
      kdump txns /backup/kafka-logs --now 2026-01-31T12:00:00Z --format jsonl
    """
    troubles = Troubles()
    found = replicas_at(paths, troubles)
    chosen = chooses(patterns)
    partitions = [replica for replica in found if chosen(replica.topic) and _has_transactions(replica)]
    ids = TransactionalIds()
    states = [replica for replica in found if replica.topic == names.TRANSACTION_STATE_TOPIC]
    for replica in held_replicas(newest(states, troubles), troubles):
        for transactional_id in transactional_ids(replica, troubles):
            ids.add(transactional_id)
    if not partitions and (patterns or not states):
        wanted = f" of a topic {', '.join(map(safe, patterns))}" if patterns else ""
        raise KdumpError(f"there is no partition{wanted} in these PATHs")
    single = len(found) == 1
    run = _Run(Options(now, max_timeout_ms, ended, is_all or single), ids, troubles, format_)
    return run.run(partitions)


class _Run:
    def __init__(self, options: Options, ids: TransactionalIds, troubles: Troubles, format_: str) -> None:
        self._options = options
        self._ids = ids
        self._troubles = troubles
        self._format = format_

    def run(self, partitions: list[Replica]) -> int:
        options = self._options
        with output_for(self._format) as out:
            printer = (JsonLines if self._format == "jsonl" else TextLines)(out.write, options.now)
            for replica in held_replicas(partitions, self._troubles):
                found = transactions_of(replica, self._troubles, keep_ended=options.is_ended_shown)
                rows = [self._row(found, txn) for txn in found.open]
                if found.mismatches or any(row.reasons for row in rows):
                    self._troubles.worsen(exit_codes.FINDINGS)
                is_shown = options.is_all_shown or found.open or found.mismatches or found.ended
                printer.partition(found, rows, is_shown=bool(is_shown))
            for name in sorted(self._ids.by_id):
                self._transactional_id(printer, self._ids.by_id[name])
            printer.finish()
        return self._troubles.code

    def _row(self, found: PartitionTxns, txn: OpenTxn) -> OpenRow:
        options = self._options
        reasons = []
        if txn.is_late(options.now, options.max_timeout_ms):
            reasons.append(LATE)
        owner = self._ids.of_producer(txn.producer_id)
        is_overdue = txn.is_overdue(options.now, options.max_timeout_ms)
        if owner and is_overdue and not owner.covers(found.replica.topic, found.replica.partition, txn):
            reasons.append(NOT_COVERED)
        return OpenRow(txn, owner, reasons)

    def _transactional_id(self, printer: TextLines | JsonLines, found: TransactionalId) -> None:
        is_stuck = found.is_stuck(self._options.now, self._options.max_timeout_ms)
        if is_stuck:
            self._troubles.worsen(exit_codes.FINDINGS)
        if self._options.is_all_shown or found.partitions or found.state in ENDING:
            printer.transactional_id(found, is_stuck)


def _has_transactions(replica: Replica) -> bool:
    """Producers do not write to these topics."""
    return replica.topic not in (names.TRANSACTION_STATE_TOPIC, names.CLUSTER_METADATA_TOPIC)

"""Which open transactions no marker will end, as kafka-transactions.sh find-hanging says it."""

from __future__ import annotations

from collections.abc import Collection
from enum import StrEnum

from kdump.formats.printable import shell_word
from kdump.settings.defaults import MAX_TIMEOUT_MS
from kdump.txns.partition import LATE_BUFFER_MS, OpenTxn, PartitionTxns

_ABORT = "kafka-transactions.sh --bootstrap-server HOST:PORT abort"


class HangReason(StrEnum):
    """What makes a transaction suspect: its age (brokers' late transactions), or that its coordinator has left it."""

    LATE = "late"
    NOT_COVERED = "not covered"


def hang_reasons(
    last_timestamp: int, now: int, *, is_covered: bool | None, max_timeout_ms: int = MAX_TIMEOUT_MS
) -> tuple[HangReason, ...]:
    """Return why an open transaction is suspect at the time `now`, by its last record's timestamp (both ms).

    `is_covered`: whether an end of its transactional id's transaction brings it a marker (TransactionalId.covers);
    None where no transactional id of its producer is at hand. Kafka asks the coordinator about what is older than the
    longest timeout, and calls late what is five minutes older than that; what has no timestamp is neither.
    """
    age = now - last_timestamp if last_timestamp > 0 else 0
    reasons = []
    if age > max_timeout_ms + LATE_BUFFER_MS:
        reasons.append(HangReason.LATE)
    if is_covered is False and age > max_timeout_ms:
        reasons.append(HangReason.NOT_COVERED)
    return tuple(reasons)


def is_hanging(reasons: Collection[HangReason], *, is_covered: bool | None) -> bool:
    """Return whether no marker will end a transaction, as far as is known; what is late its coordinator will end."""
    return HangReason.NOT_COVERED in reasons or (is_covered is None and bool(reasons))


def abort_command(found: PartitionTxns, txn: OpenTxn) -> str:
    """Return the command line that aborts a transaction; brokers from Kafka 3.0 on find the producer by its offset."""
    return f"{_ABORT} {_partition_options(found)} --start-offset {txn.first_offset}"


def abort_command_before_3_0(found: PartitionTxns, txn: OpenTxn) -> str:
    """Return the same for older brokers, which want the producer named; an unknown coordinator epoch is 0."""
    return (
        f"{_ABORT} {_partition_options(found)} --producer-id {txn.producer_id} --producer-epoch {txn.producer_epoch}"
        f" --coordinator-epoch {max(0, txn.coordinator_epoch)}"
    )


def _partition_options(found: PartitionTxns) -> str:
    return f"--topic {shell_word(found.replica.topic)} --partition {found.replica.partition}"

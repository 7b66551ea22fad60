"""How the copies of a partition differ and what a leader loses, in words."""

from __future__ import annotations

from collections.abc import Sequence

from kdump.formats.words import count_text, number_words, offset_range
from kdump.mend.replicas import Replicas
from kdump.operations.compared import Copy, PartitionReplicas
from kdump.operations.copies import CopiesSeen, lost_words, spans_of
from kdump.replication.choice import Choice
from kdump.replication.compacted import MAX_KEYS
from kdump.replication.summary import Difference, Span
from kdump.topics.partition_state import Standing

MAX_RANGES = 3
"""Ranges that are named one by one."""

_DIFFERENCES = {
    Difference.DAMAGED: "{} damaged",
    Difference.OTHER_EPOCH: "{} have other records",
    Difference.OTHER_BYTES: "{} have other bytes",
    Difference.MISSING: "{} missing",
    Difference.NOT_YET: "{} not there yet",
    Difference.ONLY_HERE: "{} only here",
}

STANDINGS = {
    Standing.IN_SYNC: "in sync",
    Standing.ELIGIBLE: "eligible (ELR)",
    Standing.LAST_KNOWN: "last leader (ELR)",
    Standing.UNCLEAN: "unclean election",
    None: "ISR unknown",
}
"""Why a replica may lead."""


def replica_words(replicas: Replicas | None) -> str:
    """Return who has a partition, and how far they are."""
    if replicas is None:
        return "unknown (no cluster metadata on these disks)"
    in_sync = ", ".join(map(str, replicas.in_sync)) or "none"
    words = f"{', '.join(map(str, replicas.brokers))}; in sync: {in_sync}"
    if replicas.is_under_replicated:
        words += "; under-replicated"
    if replicas.is_under_min_isr:
        words += f"; below min.insync.replicas ({replicas.min_insync}): acks=all is refused"
    if replicas.leader is not None and replicas.leader == replicas.broker and len(replicas.brokers) > 1:
        words += f"; leads now, after it {'nobody' if replicas.next_leader is None else replicas.next_leader}"
    return words


def seen_words(seen: CopiesSeen) -> str:
    """Return how the copies of several brokers compare; nothing where there are none."""
    if not seen.partitions and not seen.left:
        return ""
    identical = seen.partitions - seen.differing - seen.behind
    counts = (
        (seen.differing, f"{seen.differing} {'differs' if seen.differing == 1 else 'differ'}"),
        (seen.behind, f"in {seen.behind} a copy is only behind"),
        (identical, f"{identical} identical"),
        (seen.left, f"{seen.left} not compared for want of time (--max-duration 0)"),
    )
    number = number_words(seen.partitions + seen.left, "partition")
    return f"{number} on several brokers: {', '.join(words for count, words in counts if count > 0)}."


def difference_words(found: PartitionReplicas, copy: Copy, number: int, reference: int | None) -> str:
    """Return how a copy differs from the reference, which is itself another one or (None) not known."""
    if copy.failure is not None:
        return "the broker cannot load it"
    notes = []
    if copy.load_loss.has_data:
        span = ""
        if copy.load_loss.first_offset is not None and copy.load_loss.last_offset is not None:
            span = offset_range(copy.load_loss.first_offset, copy.load_loss.last_offset)
        notes.append(f"{span or 'incomplete batch'} cut at start")
    if number == reference or reference is None:
        damaged = [Span(Difference.DAMAGED, each.first, each.last) for each in copy.contents.damaged]
        return ", ".join((*_spans(damaged), *notes)) or "complete"
    return ", ".join((*_spans(spans_of(found, number, reference)), *notes)) or "complete"


def _spans(spans: Sequence[Span]) -> list[str]:
    texts = [_DIFFERENCES[span.kind].format(offset_range(span.first, span.last)) for span in spans[:MAX_RANGES]]
    if len(spans) > MAX_RANGES:
        texts.append(f"{len(spans) - MAX_RANGES} more ranges")
    return texts


def leader_words(choice: Choice) -> str:
    """Return who leads in a choice."""
    return f"copy {(choice.leader.number or 0) + 1}" if choice.leader.broker is None else str(choice.leader.broker)


def loss_words(found: PartitionReplicas, choice: Choice) -> str:
    """Return what a choice of leader loses."""
    figures = choice.loss.figures
    if not figures.lost:
        count = choice.loss.records
        rest = f" ({number_words(count, 'record')} of keys with later ones)" if count else ""
        return f"{_own_loss(found, choice)}{rest}"
    parts = []
    if figures.committed:
        parts.append(f"{count_text(figures.committed)} committed")
    if figures.possible:
        parts.append(f"{count_text(figures.possible)} perhaps acknowledged by all")
    if not parts and found.state is not None:
        parts.append("acks=1 at most")
    if choice.loss.is_compacted and not figures.are_keys:
        parts.append(f"keys not counted: more than {MAX_KEYS:,}")
    rest = f" ({', '.join(parts)})" if parts else ""
    return f"{lost_words(figures)}{rest}"


def _own_loss(found: PartitionReplicas, choice: Choice) -> str:
    """Return what is lost although no other copy is cut: what the leader's own start cuts off."""
    number = choice.leader.number
    loss = None if number is None else found.copies[number].load_loss
    if loss is None or not loss.has_data:
        return "nothing"
    if loss.first_offset is None or loss.last_offset is None:
        return "an incomplete batch, cut at its start"
    return f"{offset_range(loss.first_offset, loss.last_offset)}, cut at its own start"


def blocked_words(choice: Choice) -> str:
    """Return where a choice of leader blocks the partition."""
    return "" if choice.blocked_at is None else f"and blocks at {choice.blocked_at}"

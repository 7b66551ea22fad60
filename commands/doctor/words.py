"""What `kdump doctor` says of one diagnosis: what is at stake, who has the partition, and what to do."""

from __future__ import annotations

import os
from collections.abc import Sequence

from kdump.findings.finding import Finding
from kdump.formats.printable import safe
from kdump.formats.words import offset_range
from kdump.operations.actions import Action, Stake
from kdump.operations.diagnosis import Diagnosis
from kdump.repair.replicas import Replicas


def stake_words(diagnosis: Diagnosis) -> str:
    """Return what is at stake; nothing where that is said otherwise."""
    if diagnosis.stake == Stake.COMMITTED:
        return f"committed offsets{_offsets(diagnosis)} are at stake"
    words = stake_words_in_short(diagnosis)
    return f"{words} are at stake" if diagnosis.stake == Stake.RECORDS else words


def stake_words_in_short(diagnosis: Diagnosis) -> str:
    """Return the same for a column of what is at stake."""
    offsets = _offsets(diagnosis)
    if diagnosis.stake == Stake.COMMITTED:
        return f"committed{offsets}"
    if diagnosis.stake == Stake.RECORDS:
        return f"offsets{offsets}" if offsets else "records"
    return "the partition goes out of service here" if diagnosis.stake == Stake.SERVICE else ""


def _offsets(diagnosis: Diagnosis) -> str:
    """Return the offsets at stake, where those of one partition are known."""
    if diagnosis.offsets is None or len(diagnosis.paths) > 1:
        return ""
    return f" {offset_range(*diagnosis.offsets)}"


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


def command_words(actions: Sequence[Action]) -> str:
    """Return what to do first, in a few words."""
    for action in actions:
        if action.command and action.command[0] == "kdump":
            return " ".join(map(quoted, action.command))
        return safe(action.short or action.text.rstrip("."))
    return ""


def place(diagnosis: Diagnosis, finding: Finding) -> str:
    """Return the file and the byte, unless the text, which may be Kafka's, has them."""
    name = os.path.basename(finding.path)
    if name == os.path.basename(diagnosis.paths[0]) or name in finding.text:
        return ""
    return f"{safe(name)}{f', byte {finding.position}' if finding.position is not None else ''}: "


def sentence(text: str) -> str:
    """Return a text as a sentence of its own."""
    said = safe(text[:1].upper() + text[1:])
    return said if not said or said.endswith(".") else f"{said}."


def quoted(word: str) -> str:
    """Return a word of a command as a shell takes it; safe to print."""
    from shlex import quote

    return safe(quote(word))

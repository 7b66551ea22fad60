"""What is at stake, and what to do about it: the ways out of damage, with commands and what each loses."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from enum import IntEnum
from typing import NamedTuple

from kdump.findings import remedies as ways
from kdump.findings.catalogue import CATALOGUE
from kdump.findings.kind import NOTHING, Remedy
from kdump.formats.names import parse_partition_dir
from kdump.formats.words import either, number_words, offset_range
from kdump.mend.decision import Decision, Way
from kdump.mend.replicas import Replicas


class Stake(IntEnum):
    """What is at stake, the most urgent first."""

    START = 0
    """The broker does not start."""
    DISK = 1
    """The log directory goes offline."""
    COMMITTED = 2
    """Records that were committed."""
    SERVICE = 3
    """The partition goes out of service on this broker."""
    RECORDS = 4
    """Records of which nothing says that they were committed."""
    ANSWERS = 5
    """Consumers get wrong answers."""
    CONSUMERS = 6
    """Consumers, retention or compaction are blocked."""
    OTHER = 7


class Action(NamedTuple):
    """One way out: what to do in words, the command for it (none: a person does it), what it loses.

    `condition` says when it is the way to take, `short` the same as `text` in a few words, where that has more.
    """

    text: str
    command: tuple[str, ...] = ()
    loses: str = NOTHING
    condition: str = ""
    short: str = ""


COMMITTED_CODES = frozenset({"KD-CKPT-HIGH-WATERMARK", "KD-CKPT-RECOVERY"})


def log_actions(
    path: str,
    code: str,
    offsets: tuple[int, int] | None,
    stake: Stake,
    replicas: Replicas | None,
    decision: Decision | None,
    *,
    is_cut: bool,
) -> Iterator[Action]:
    """Yield the ways out of damage: another in-sync replica first, then what repair offers, what loses less first."""
    others = replicas.others_in_sync if replicas else ()
    lost = offset_range(*offsets) if offsets else "the records"
    if others or replicas is None:
        yield _fetch_again(path, others, lost, is_cut=is_cut)
    condition = "no other copy" if replicas is None or others else ""
    if decision is not None:
        yield from _offered(path, decision, condition)
        return
    is_incomplete = CATALOGUE[code].remedies is ways.INCOMPLETE_BATCH
    if stake == Stake.COMMITTED and (is_incomplete or code in COMMITTED_CODES):
        yield Action(f"{lost} are lost, no tool can restore them.", (), lost, condition)
    elif is_incomplete and not is_cut:  # after a clean shutdown the broker appends behind it
        yield action_of(ways.CUT, path)._replace(condition=condition)
    elif not others and replicas is not None and stake != Stake.COMMITTED:
        yield Action("Start the broker: it cuts the incomplete batch.")
    elif not is_incomplete and code not in COMMITTED_CODES:
        for remedy in CATALOGUE[code].remedies[1:]:
            if remedy is not ways.COPY:  # operations.copies says it of copies that are at hand
                yield action_of(remedy, path)._replace(condition=condition)


def _offered(path: str, decision: Decision, condition: str) -> Iterator[Action]:
    """Yield what repair offers where somebody has to decide."""
    for offer in decision.offers():
        if offer.way == Way.FIX_BIT:
            yield Action(
                "One flipped bit explains the damage.", ("kdump", "repair", path, "--fix-bit"), NOTHING, condition
            )
        elif offer.way == Way.SALVAGE:
            loses = _records(offer.loses)
            dropped = decision.dropped.records
            but = f" except those at offsets of other batches: needs --accept-loss {dropped}" if dropped else ""
            command = ("kdump", "repair", path, "--strategy", "salvage")
            yield Action(f"Keeps every valid batch{but}.", command, loses, condition)
            return


def _fetch_again(path: str, others: Sequence[int], lost: str, *, is_cut: bool) -> Action:
    """Let the leader send the records again: a broker that does not cut its log itself needs the directory gone."""
    check = _describe_command(path)
    who = f"broker {either(others)}" if others else "another in-sync replica"
    if is_cut:
        text = f"If {who} runs, start this broker: it then fetches {lost} from the leader."
        if others:
            text = f"Start this broker only while {who} runs. It then fetches {lost} from the leader."
        return Action(text, check, short=f"start while {who} runs")
    move = f"If {who} runs, move the directory out of the log directory and keep it"
    return Action(f"{move}. The broker then fetches all again.", check, short=move)


def _records(number: int | None) -> str:
    if number is None:
        return "the damaged records"
    if not number:
        return NOTHING
    return number_words(number, "record")


def _describe_command(path: str) -> tuple[str, ...]:
    """Return Kafka's command that shows which replicas are in sync now."""
    topic = parse_partition_dir(os.path.basename(os.path.abspath(path))).topic
    return "kafka-topics.sh", "--bootstrap-server", "HOST:PORT", "--describe", "--topic", topic


def action_of(remedy: Remedy, path: str) -> Action:
    """Return a remedy of the catalogue, as a way out for the partition at a path."""
    text = remedy.note[:1].upper() + remedy.note[1:] + "." if remedy.note else ""
    return Action(text, remedy.words(path), remedy.loses)

"""The ways out of damage in words: what each of them loses, those that lose nothing first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kdump.formats.printable import safe, safe_path
from kdump.formats.words import count_text, number_words, offset_range
from kdump.repair.decision import Damaged, Decision, Offer, Way

_OPTIONS = {
    Way.REPLICA: "",
    Way.COPY: "--from OTHER",
    Way.FIX_BIT: "--fix-bit",
    Way.SALVAGE: "--strategy salvage",
    Way.TRUNCATE: "--strategy truncate",
}
_LOSES_WIDTH, _OPTION_WIDTH = 18, 20
MAX_RANGES = 10
"""So many damaged ranges of a partition are listed."""


def decision_text(path: str, decision: Decision) -> str:
    """Return the block of a partition: what is damaged, where its replicas are, and the ways out."""
    lines = [f"  {safe_path(path)}"]
    for each in decision.damaged[:MAX_RANGES]:
        lines.append(f"    {safe(_damage(each))}")
    if len(decision.damaged) > MAX_RANGES:
        lines.append(f"    and {number_words(len(decision.damaged) - MAX_RANGES, 'more damaged range')}")
    if not decision.damaged:
        lines += (f"    {safe(why)}" for why in decision.rewritten[:MAX_RANGES])
    lines += (f"    {line}" for line in _around(decision))
    for offer in decision.offers():
        loses = f"{_loses(offer):<{_LOSES_WIDTH}}"
        option = f"{_OPTIONS[offer.way]:<{_OPTION_WIDTH}} " if _OPTIONS[offer.way] else ""
        lines.append(f"      {loses}{option}{_what(offer, decision)}")
    return "\n".join(lines) + "\n"


def fixed_lines(fixed: Sequence[Damaged]) -> Iterator[str]:
    """Yield what is flipped back, and how sure that is."""
    for each in fixed:
        bit = each.flipped
        assert bit is not None
        yield (
            f"flips bit {bit.bit} of byte {bit.position} of {each.range.file} back: then batch"
            f" {offset_range(bit.first_offset, bit.last_offset)} is valid"
        )
        yield f"other damage looks the same in about 1 of {count_text(bit.lookalike_odds)} cases"


def _damage(each: Damaged) -> str:
    found = each.range
    where = f"{found.file}, byte {found.start}"
    first, last = each.offsets
    if first is not None and last is not None and first <= last:
        return f"{where}: offsets {offset_range(first, last)} are damaged: {found.why}"
    return f"{where}: {found.why}"


def _around(decision: Decision) -> Iterator[str]:
    if decision.after is None:
        yield "the broker's recovery of this log fails"
    elif decision.after.batches:
        records = number_words(decision.after.records, "record")
        follow = "valid batch follows" if decision.after.batches == 1 else "valid batches follow"
        yield f"{count_text(decision.after.batches)} {follow} ({records})"
    replicas = decision.replicas
    if replicas is None:
        yield "replicas: unknown (no cluster metadata on these disks)"
    else:
        alone = "" if replicas.others_in_sync else " (this broker alone)"
        yield f"replicas: {_list(replicas.brokers)}; in sync: {_list(replicas.in_sync)}{alone}"


def _missing(damaged: Sequence[Damaged]) -> str:
    first, last = damaged[0].offsets if len(damaged) == 1 else (None, None)
    return "what is damaged" if first is None or last is None or first > last else offset_range(first, last)


def _list(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers)) or "none"


def _loses(offer: Offer) -> str:
    if offer.loses is None:
        return "loses records"
    return f"loses {number_words(offer.loses, 'record')}" if offer.loses else "loses nothing"


def _what(offer: Offer, decision: Decision) -> str:
    if offer.way == Way.REPLICA:
        others = decision.replicas.others_in_sync if decision.replicas else ()
        who = f"broker {' or '.join(map(str, others))}" if others else "another in-sync replica"
        return f"no repair: start while {who} runs"
    if offer.way == Way.COPY:
        return f"takes {_missing(decision.damaged)} from a copy"
    if offer.way == Way.FIX_BIT:
        explained = sum(each.flipped is not None for each in decision.damaged)
        if explained == len(decision.damaged) == 1:
            return "one flipped bit explains it"
        return f"explains {explained} of {number_words(len(decision.damaged), 'damaged range')}"
    if offer.way == Way.SALVAGE:
        kept = "keeps all else"
        if offer.loses == 0:
            kept = "changes batches in their place" if decision.rewritten else "the same records stay elsewhere"
        return f"{kept}{_needs(offer)}"
    return f"as the broker's recovery does{_needs(offer)}"


def _needs(offer: Offer) -> str:
    """Return what has to be said besides the way itself."""
    options = ["--only-copy"] * offer.needs_only_copy + [f"--accept-loss {offer.drops}"] * bool(offer.drops)
    return f"; needs {' '.join(options)}" if options else ""

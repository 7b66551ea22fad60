"""The lines of `kdump replicas` for people."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator, Sequence

from kdump.formats.printable import command_line, safe, safe_path, shell_word
from kdump.formats.uuids import format_uuid
from kdump.formats.words import number_words, offset_range, size_text
from kdump.operations.compared import PartitionReplicas, Verdict
from kdump.operations.copies import reference_of, sight_of
from kdump.replication.choice import Choice
from kdump.replication.compacted import MAX_KEYS
from kdump.replication.loss import LostRange
from kdump.replication.summary import Outlook, agreed

from ..shell.copies import MAX_RANGES, STANDINGS, blocked_words, difference_words, leader_words, loss_words
from ..shell.line_budget import LineBudget, more_similar
from ..shell.tables import aligned
from ..shell.times import iso_time
from ..shell.words import verdict

_WIDTH = 80
_ELECT = "kafka-leader-election.sh --bootstrap-server HOST:PORT"


class Text:
    """Prints partitions whose copies differ; with `is_all` also those whose copies are identical."""

    def __init__(self, write: Callable[[str], None], *, is_all: bool = False) -> None:
        """`write` takes whole lines."""
        self._write = write
        self._is_all = is_all
        self._budget = LineBudget()
        self._more = 0
        self._partitions = self._differing = self._behind = self._alone = 0

    def partition(self, found: PartitionReplicas) -> None:
        """Print a partition: who has what, where copies differ, what each leader loses, and what to do."""
        self._partitions += 1
        self._differing += found.verdict is Verdict.DIFFERS
        self._behind += found.verdict is Verdict.BEHIND
        self._alone += found.verdict is Verdict.SAME and len(found.copies) < 2
        if found.verdict is Verdict.SAME and not self._is_all:
            return
        sight = sight_of(found)
        first = (_heading(found), _blocked(found), _placement(found))
        parts = (*first, _copies(found, sight), _leaders(found), _do(found, sight))
        lines = [line for part in parts for line in part]
        if self._budget.takes(len(lines) + 1):
            self._write("".join(f"{line}\n" for line in [*lines, ""]))
        else:
            self._more += 1

    def end(self, code: int) -> None:
        """Print the verdict of a run that exits with `code`."""
        if self._more:
            self._write(f"{more_similar(self._more)}\n\n")
        total = number_words(self._partitions, "partition")
        parts = []
        if self._behind:
            parts.append(f"the copies of {self._behind} are only behind")
        if self._alone:
            parts.append(f"{self._alone} with one copy only, nothing to compare it with")
        if self._differing:
            more = "".join(f"; {part}" for part in parts)
            self._write(f"FOUND: the copies of {self._differing} of {total} differ{more}.\n")
            return
        if self._partitions > self._behind + self._alone:
            parts.append("all others are identical" if parts else "all copies are identical")
        said = "; ".join(parts)
        self._write(f"{verdict(code, (), f'{total}: {said}')}\n")


def _heading(found: PartitionReplicas) -> Iterator[str]:
    name = f"{safe(found.key.topic)}-{found.key.partition}"
    ranges = agreed(found.pairs, [copy.contents for copy in found.copies])
    count = number_words(len(found.copies), "copy", "copies")
    if found.verdict is Verdict.SAME:
        text = f"{name}: {count}, identical"
    elif len(found.copies) < 2:
        text = f"{name}: {count}, nothing to compare it with"
    elif not ranges:
        text = f"{name}: {count} that agree on no offset"
    else:
        spans = " and ".join(offset_range(*each) for each in ranges[:MAX_RANGES])
        more = f" and {len(ranges) - MAX_RANGES} more ranges" if len(ranges) > MAX_RANGES else ""
        text = f"{name}: {count} agree on {spans}{more}"
    yield from _folded(text)
    if found.compacts and len(found.copies) > 1:
        start = max((pair.compared_from for pair in found.pairs), default=0)
        text = f"compared from offset {start} on; below it each broker's cleaner leaves other batches."
        text = text if start else "no cleaner has changed these copies."
        yield from _folded(f"  compacted  {text} {_keys(found)}".rstrip(), " " * 13)
    if found.namesakes:
        ids = ", ".join(format_uuid(each) for each in found.namesakes)
        yield from _folded(
            f"another topic has the same name (topic id {ids}): its copies are not copies of this topic", "  "
        )


def _blocked(found: PartitionReplicas) -> Iterator[str]:
    """Yield what comes first: a damaged copy that leads blocks the partition, though good ones are in sync."""
    blocking = next((each for each in found.choices if each.blocked_at is not None), None)
    if blocking is not None:
        yield from _folded(
            f"  First: a copy with a damaged batch must not lead: consumers and followers stop at offset"
            f" {blocking.blocked_at}.",
            "  ",
        )


def _keys(found: PartitionReplicas) -> str:
    """Return what comparing the latest records of all keys says."""
    known = [each for each in found.keys.values() if each.keys is not None]
    worst = max(known, key=lambda each: each.differing, default=None)
    if worst is None or worst.keys is None:
        return f"Their keys were not compared: more than {MAX_KEYS:,}." if found.keys else ""
    count = number_words(worst.keys, "key")
    if not worst.differing:
        return f"All copies have the same latest record of {count} below offset {worst.end}."
    offsets = ", ".join(map(str, worst.offsets[:MAX_RANGES])) + (" …" if worst.differing > MAX_RANGES else "")
    return f"The latest records of {worst.differing} of {count} differ (offsets {offsets})."


def _placement(found: PartitionReplicas) -> Iterator[str]:
    state, source = found.state, found.source
    if state is None:
        why = "the cluster metadata does not have this partition" if source else "no cluster metadata in these PATHs"
        yield f"  replicas   unknown ({why})"
        return
    isr = _numbers(state.isr) or "none"
    leader = f"leader {state.leader}" if state.leader >= 0 else "no leader"
    elr = f"; eligible: {_numbers(state.elr)}" if state.elr else ""
    at = f" at {iso_time(source.timestamp)}" if source and source.timestamp >= 0 else ""
    yield from _folded(f"  replicas   {_numbers(state.replicas)}; in sync{at}: {isr}{elr}; {leader}", " " * 13)
    going = f"a reassignment removes {_numbers(state.removing)}: the copy there goes when it is done"
    marks = (
        (state.is_under_replicated, "under-replicated"),
        (state.is_under_min_isr, f"below min.insync.replicas ({state.min_insync}): acks=all is refused"),
        (state.is_recovering, "the last election was unclean"),
        (state.adding, f"a reassignment adds {_numbers(state.adding)}"),
        (state.removing, going),
    )
    if said := "; ".join(mark for is_so, mark in marks if is_so):
        yield from _folded(f"  state      {said}", " " * 13)
    if found.not_given:
        yield from _folded(f"  not given  the log directories of broker {_numbers(found.not_given)}", " " * 13)


def _copies(found: PartitionReplicas, sight: Outlook) -> Iterator[str]:
    reference = reference_of(sight)
    rows = []
    for number, copy in enumerate(found.copies):
        broker = "?" if copy.broker is None else str(copy.broker)
        start, end = (str(copy.log.log_start), str(copy.log.log_end)) if copy.log else ("-", "-")
        mark = "-" if copy.high_watermark is None else str(copy.high_watermark)
        rows.append((str(number + 1), broker, start, end, mark, difference_words(found, copy, number, reference)))
    rows += [("-", str(broker), "-", "-", "-", "no directory of it") for broker in found.absent]
    yield ""
    header = ("COPY", "BROKER", "LOG START", "LOG END", "HIGH WM", "DIFFERS")
    for line in aligned(header, rows, right=header[1:-1], drop=("LOG START", "HIGH WM")):
        yield line.rstrip("\n")
    for number, copy in enumerate(found.copies, 1):
        yield f"copy {number}: {safe_path(copy.path)}"
    for path in found.aside:
        yield f"not compared: {safe_path(path)}"


def _leaders(found: PartitionReplicas) -> Iterator[str]:
    rows = []
    for choice in found.known_choices:
        words = STANDINGS[choice.standing], loss_words(found, choice), blocked_words(choice)
        rows.append((leader_words(choice), *words))
    if not rows:
        return
    yield ""
    header = ("IF IT LEADS", "MAY LEAD BY", "LOSES", "REMARKS")
    width = len(header) if any(row[-1] for row in rows) else len(header) - 1
    for line in aligned(header[:width], [row[:width] for row in rows], drop=("MAY LEAD BY",)):
        yield line.rstrip()
    for choice in found.known_choices:
        for lost in choice.loss.ranges:
            if choice.leader.number is not None:
                yield from _folded(f"leader {choice.leader.broker}: {_lost(lost)}", "  ")


def _lost(lost: LostRange) -> str:
    """Say what one copy loses, or has alone."""
    offsets, copy = offset_range(lost.first, lost.last), f"copy {lost.copy + 1}"
    does = f"cuts {offsets} of {copy}" if lost.is_cut else f"nobody can read {offsets}, which {copy} has"
    times, keys = "", ""
    if lost.first_timestamp is not None and lost.last_timestamp is not None:
        times = f", {iso_time(lost.first_timestamp)} to {iso_time(lost.last_timestamp)}"
    if lost.keys is not None:
        keys = f", the latest of {number_words(len(lost.keys.offsets), 'key')}"
        if not lost.is_cut:
            does = f"lacks the latest records of some keys, which {copy} has in {offsets}"
    return f"{does} ({number_words(lost.records, 'record')}{keys}, {size_text(lost.size)}{times})"


def _do(found: PartitionReplicas, sight: Outlook) -> Iterator[str]:
    """Yield what to do, what loses nothing first."""
    best = sight.best
    if best is None:
        return
    yield ""
    if best.loss.figures.lost:
        yield from _export(found, best)
    source = found.copies[best.leader.number or 0].path
    for number in sight.to_heal:
        yield from _command("do: ", ("kdump", "repair", found.copies[number].path), ("--from", source))
        yield "    Loses nothing. Add --apply to do it."
    loses = loss_words(found, best)
    if sight.is_healed:
        yield f"do: {'Then start' if sight.to_heal else 'Start'} the brokers in any order. Loses {loses}."
    if sight.risky:
        yield from _make_lead(found, best, "else: " if sight.is_healed else "do: ")


def _export(found: PartitionReplicas, best: Choice) -> Iterator[str]:
    """Yield what to write down where no choice keeps everything."""
    if best.leader.broker is None:
        return
    yield "No choice keeps everything. Write down first what the best one loses:"
    paths = [(copy.path,) for copy in found.copies]
    leader = str(best.leader.broker)
    yield from _command("do: ", ("kdump", "export", "--lost", "--leader", leader), *paths, ("--to", "DIR"))
    yield "    Loses nothing."


def _make_lead(found: PartitionReplicas, best: Choice, label: str) -> Iterator[str]:
    who = best.leader.broker
    if who is None:
        yield f"{label}Find out which broker the best copy is of before you start one."
        return
    yield from _folded(
        f"{label}Let broker {who} lead. Start the controllers and broker {who} alone, and wait: either it leads, or the"
        f" partition has no leader. Then, only if it does not lead:",
        "    ",
    )
    yield f"    {_ELECT} \\"
    yield "      --election-type UNCLEAN \\"
    yield f"      --topic {shell_word(found.key.topic)} --partition {found.key.partition}"
    yield from _folded(f"    Then start the other brokers. Loses {loss_words(found, best)}.", "    ")


def _command(label: str, *parts: Sequence[str]) -> Iterator[str]:
    """Yield a command of these parts, in one line if it fits, else in several."""
    texts = [command_line(*part) for part in parts]
    line = label + " ".join(texts)
    if len(line) <= _WIDTH:
        yield line
        return
    yield f"{label}{texts[0]} \\"
    for text in texts[1:-1]:
        yield f"      {text} \\"
    yield f"      {texts[-1]}"


def _numbers(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers))


def _folded(text: str, indent: str = "") -> list[str]:
    """Return a text as lines of the screen's width; those after the first begin with `indent`."""
    return textwrap.wrap(
        text, _WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False, drop_whitespace=True
    ) or [text]

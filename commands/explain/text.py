"""`kdump explain` in plain words."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence

from kdump.findings.explanations import EXPLANATIONS
from kdump.findings.kafka_messages import KafkaMessage, said_of
from kdump.findings.kind import FindingKind
from kdump.findings.server_log import Entry, ServerLog
from kdump.formats.names import is_partition_dir
from kdump.formats.printable import safe, shell_word
from kdump.formats.words import either, number_words

from ..shell.line_budget import LineBudget
from ..shell.output import Style
from ..shell.prose import folded
from ..shell.words import way_out

_COLUMN = 11
_MAX_NAMES = 2
_BATCH_CODES = ("KD-LOG-", "KD-BATCH-")


def explained_lines(kind: FindingKind, width: int | None, *, is_colored: bool = False) -> Iterator[str]:
    """Yield the lines about a finding's code."""
    known = EXPLANATIONS[kind.code]
    yield Style(is_colored, bold=True)(f"{kind.code} ({kind.severity}): {known.title}")
    yield ""
    fields = {"Meaning": kind.meaning, "Broker": known.broker, "Consumers": known.consumers, "Causes": known.causes}
    for label, text in fields.items():
        yield from _labelled(label, [text], width)
    yield from _labelled("Kafka says", said_of(kind.code), width)
    if not kind.remedies:
        yield from _labelled("Do", ["Nothing."], width)
    for number, remedy in enumerate(kind.remedies, 1):
        first = f"{'Do' if number == 1 else '':<{_COLUMN}}{number}. "
        yield from folded(way_out(remedy, "PATH"), width, first=first)
    if kind.code.startswith(_BATCH_CODES):
        yield from _labelled("Look", ["kdump dump FILE --at BYTE --fields"], width)


def _labelled(label: str, texts: Iterable[str], width: int | None, column: int = _COLUMN) -> Iterator[str]:
    """Yield lines of texts, which begin at `column`, with a label before the first line."""
    for text in texts:
        yield from folded(text, width, first=f"{label:<{column}}")
        label = ""


def listed(kinds: Sequence[FindingKind]) -> Iterator[str]:
    """Yield one line for each of several codes."""
    longest = max(len(kind.code) for kind in kinds)
    for kind in kinds:
        yield f"{kind.code:<{longest}}  {kind.severity:<7}  {EXPLANATIONS[kind.code].title}"


def recognized_lines(
    message: KafkaMessage, place: str | None, width: int | None, *, shows_place: bool = True
) -> Iterator[str]:
    """Yield the lines about one message of Kafka's."""
    if message.codes:
        yield f"This is {either(message.codes)}."
    yield from folded(message.means, width)
    if place and shows_place:
        yield from _labelled("Where", [safe(place)], width, 7)
    do = message.do or ("Nothing: this is routine.",)
    yield from _labelled("Do", (safe(_placed(text, place)) for text in do), width, 7)
    if message.codes:
        yield f"{'More':<7}kdump explain {message.codes[0]}"


def _placed(text: str, place: str | None) -> str:
    """Return the advice with the path of what the line is about, where it has one."""
    if place is None or "/" not in place:
        return text
    is_partition = is_partition_dir(os.path.basename(place))
    directory = os.path.dirname(place) if is_partition else place
    words = {"LOG_DIRECTORY": shell_word(directory)}
    if is_partition:
        copy = f"OTHER/{os.path.basename(place)}"
        words |= {"PARTITION_DIRECTORY": shell_word(place), "OTHER/PARTITION": shell_word(copy)}
    return " ".join(words.get(word, word) for word in text.split(" "))


def summarized(log: ServerLog, path: str, width: int | None) -> Iterator[str]:
    """Yield what a server.log has, what needs somebody first."""
    entries = log.entries()
    wanted = [entry for entry in entries if entry.message.do]
    budget = LineBudget()
    more = 0
    for equal in _equal(wanted):
        lines = [*_entry(equal, width), ""]
        if budget.takes(len(lines)):
            yield from lines
        else:
            more += 1
    if more:
        yield f"{number_words(more, 'more message')}: -v shows all."
        yield ""
    routine = sum(entry.count for entry in entries if not entry.message.do)
    if routine:
        yield f"Routine: {number_words(routine, 'line')} about a start after a shutdown. Do nothing."
    if wanted:
        places = number_words(len({entry.place for entry in wanted}), "place")
        yield f"FOUND: {number_words(sum(entry.count for entry in wanted), 'line')} about {places}."
    else:
        yield "OK. No line needs you."
    yield f"Checked: {number_words(log.lines, 'line')} of {safe(path)}."


def _equal(entries: Sequence[Entry]) -> Iterable[list[Entry]]:
    """Group the entries of which the same is said, in the order of the first ones."""
    found: dict[tuple[object, ...], list[Entry]] = {}
    for entry in entries:
        message = entry.message
        found.setdefault((message.means, message.do, message.codes), []).append(entry)
    return found.values()


def _entry(equal: Sequence[Entry], width: int | None) -> Iterator[str]:
    """Yield the lines about one message: when it was printed first, about which places, what it means."""
    first, lines = equal[0], sum(entry.count for entry in equal)
    times = f", {number_words(lines, 'line')}" if lines > 1 else ""
    places = list(dict.fromkeys(safe(entry.place) for entry in equal if entry.place))
    shown = places[:_MAX_NAMES]
    more = f" and {len(places) - len(shown)} more" if len(places) > len(shown) else ""
    yield f"{safe(first.time or 'line ' + str(first.line))}{times}  {', '.join(shown)}{more}".rstrip()
    yield from recognized_lines(first.message, first.place, width, shows_place=False)

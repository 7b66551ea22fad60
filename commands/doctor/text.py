"""`kdump doctor` in one screen: will it start, what needs somebody, and the next command."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from kdump.findings.finding import Finding
from kdump.formats.names import is_partition_dir
from kdump.formats.printable import safe, safe_path
from kdump.formats.words import elapsed, listed, number_words, offset_range, size_text
from kdump.operations.actions import Action, Stake
from kdump.operations.compared import PartitionReplicas
from kdump.operations.copies import reference_of, sight_of
from kdump.operations.diagnosis import Diagnosis
from kdump.operations.doctor import DirectoryHealth, Health

from ..shell.choice import asked_paths
from ..shell.copies import (
    STANDINGS,
    blocked_words,
    difference_words,
    leader_words,
    loss_words,
    replica_words,
    seen_words,
)
from ..shell.line_budget import LineBudget
from ..shell.output import Style, quoted
from ..shell.prose import folded, folded_command
from ..shell.screen import Screen
from ..shell.tables import aligned
from ..shell.words import start_words

MAX_ENTRIES = 10
"""Entries with a number; those that a screen has no room for are a line each."""
_COLUMN = 12
_MAX_NAMES = 2
_AFTER_START = frozenset({"KD-TXN-HANGING"})


class Page:
    """The lines of one checkup."""

    def __init__(
        self,
        health: Health,
        paths: Sequence[str],
        width: int | None,
        *,
        is_colored: bool,
        is_live: bool,
        is_complete: bool,
    ) -> None:
        self._health = health
        self._paths = paths
        self._width = width
        self._is_live = is_live
        self._is_complete = is_complete
        self._bold = Style(is_colored, bold=True)
        self._bad = Style(is_colored, "red", bold=True)
        self._careful = Style(is_colored, "yellow", bold=True)
        self._good = Style(is_colored, "green", bold=True)
        self._budget = LineBudget()
        self._heads = 0

    def all(self) -> Iterator[str]:
        """Yield the whole screen; where nothing needs anybody, three lines."""
        health = self._health
        if self._is_live:
            yield "A broker is running. This is what a crash now would leave."
        if not health.diagnoses and not health.unread:
            yield from self._all_well()
            return
        longest = max((len(safe_path(each.path)) for each in health.directories), default=0)
        for each in health.directories:
            yield from self._directory(each, min(longest, 30))
        yield from self._start()
        yield ""
        for number, diagnosis in enumerate(self._shown, 1):
            yield from self._entry_or_head(number, diagnosis)
        yield from self._rest()
        yield ""
        if health.partitions > health.partitions_needing:
            yield from self._field("Routine", self._routine(), 0)
        if copies := seen_words(health.copies):
            yield from self._field("Copies", copies, 0)
        yield from self._field("Checked", self._checked(), 0)
        yield ""
        yield from self._verdict()
        yield from self._next()

    def brief(self) -> Iterator[str]:
        """Yield one line for each entry, and the verdict."""
        if not self._health.diagnoses and not self._health.unread:
            yield from self._all_well()
            return
        table = [
            (
                str(number),
                self._names(diagnosis),
                diagnosis.title,
                _stake_words_in_short(diagnosis),
                replica_words(diagnosis.replicas) if diagnosis.needs_replicas else "",
                _command_words(diagnosis.actions[:1]),
            )
            for number, diagnosis in enumerate(self._shown, 1)
        ]
        header = ("", "WHERE", "FOUND", "AT STAKE", "REPLICAS", "DO")
        yield from (line.rstrip("\n") for line in aligned(header, table, drop=("REPLICAS", "FOUND", "AT STAKE")))
        yield from self._rest()
        yield ""
        yield from self._verdict()

    def _directory(self, each: DirectoryHealth, column: int) -> Iterator[str]:
        broker = each.state.broker
        whose = f"node {broker.node_id}, " if broker and broker.node_id is not None else ""
        who = "controller" if each.state.is_controller else "broker"
        running = f"{'A' if each.has_broker else 'No'} {who} is running on it."
        shutdown = "Clean shutdown." if each.state.clean else "Unclean shutdown (.kafka_cleanshutdown is missing)."
        if each.state.is_controller:
            shutdown = "It belongs to a controller, not to a broker."
        text = f"{whose}{number_words(each.partitions, 'partition')}, {size_text(each.size)}. {running}"
        first = f"{safe_path(each.path):<{column}}   "
        yield from folded(text, self._width, first=first, indent=" " * (column + 3))
        yield from folded(shutdown, self._width, first=" " * (column + 3))
        for warning in each.state.warnings:
            yield from folded(f"Warning: {safe(warning)}", self._width, first=" " * (column + 3))

    def _start(self) -> Iterator[str]:
        health = self._health
        said = start_words(self._who, health.stops, health.offline, [each.path for each in health.directories])
        style = self._bad if health.stops or health.offline else self._bold
        yield style(f"{said}. {self._needing()}")

    def _needing(self) -> str:
        count = self._health.needing
        if not count:
            return "Not everything could be read."
        return f"{number_words(count, self._unit)} {'needs' if count == 1 else 'need'} you."

    @property
    def _who(self) -> str:
        return f"The {self._health.who}{'s' if len(self._health.brokers) > 1 else ''}"

    @property
    def _unit(self) -> str:
        """What needs somebody: partitions alone, or also directories and files around them."""
        paths = (path for each in self._health.diagnoses for path in each.paths)
        return "partition" if all(is_partition_dir(os.path.basename(path)) for path in paths) else "place"

    @property
    def _shown(self) -> Sequence[Diagnosis]:
        """The entries that have a number; with -v all."""
        found = self._health.diagnoses
        return found if Screen.current.verbosity else found[:MAX_ENTRIES]

    def _entry_or_head(self, number: int, diagnosis: Diagnosis) -> Iterator[str]:
        """Yield an entry, or its first line alone where the screen has no room for more."""
        lines = list(self._entry(number, diagnosis))
        if not self._heads and self._budget.takes(len(lines)):
            yield from lines
            return
        self._heads += 1
        yield from self._head(number, diagnosis)

    def _head(self, number: int, diagnosis: Diagnosis) -> Iterator[str]:
        style = self._bad if diagnosis.stake <= Stake.COMMITTED else self._careful
        head = f"{number} {self._names(diagnosis)}   "
        stake = _stake_words(diagnosis)
        title = diagnosis.title.upper() + (f": {stake}" if stake else "")
        lines = folded(title, self._width, first=head, indent=" " * 4)
        yield style(lines[0])
        yield from lines[1:]

    def _entry(self, number: int, diagnosis: Diagnosis) -> Iterator[str]:
        yield from self._head(number, diagnosis)
        example = f"{safe_path(os.path.basename(diagnosis.paths[0]))}: " if len(diagnosis.paths) > 1 else ""
        for each in diagnosis.shown:
            said = f"{_place(diagnosis, each)}{safe(each.text)}" if isinstance(each, Finding) else safe(each)
            yield from self._field("found", f"{example}{said}")
            example = ""
        if diagnosis.of_broker:
            yield from self._field("broker", safe(diagnosis.of_broker.said))
        if diagnosis.consumers and diagnosis.stake in (Stake.ANSWERS, Stake.CONSUMERS):
            yield from self._field("consumers", diagnosis.consumers)
        if diagnosis.needs_replicas:
            yield from self._field("replicas", replica_words(diagnosis.replicas))
        if diagnosis.copies is not None:
            yield from self._leaders(diagnosis.copies)
        yield from self._actions(diagnosis)

    def _leaders(self, copies: PartitionReplicas) -> Iterator[str]:
        """Yield each copy, and what its broker loses if it leads."""
        reference = reference_of(sight_of(copies))
        for number, copy in enumerate(copies.copies):
            broker = "?" if copy.broker is None else copy.broker
            words = difference_words(copies, copy, number, reference)
            yield from self._field("copies" if number == 0 else "", f"broker {broker}: {words}")
        label = "leader"
        for choice in copies.known_choices:
            who, standing = leader_words(choice), STANDINGS[choice.standing]
            blocks = f" {blocked_words(choice)}".rstrip()
            yield from self._field(label, f"{who} ({standing}): loses {loss_words(copies, choice)}{blocks}")
            label = ""

    def _actions(self, diagnosis: Diagnosis) -> Iterator[str]:
        label = "do"
        for action in diagnosis.actions[:3]:
            yield from self._action(label, action)
            label = "else"
        if len(diagnosis.paths) > 1:
            yield from self._field("", f"The same for the {'other' if len(diagnosis.paths) == 2 else 'others'}.")

    def _action(self, label: str, action: Action) -> Iterator[str]:
        condition = f"{action.condition}: " if action.condition else ""
        loses = "" if action.loses in action.text else f" Loses {action.loses}."
        if not action.command:
            yield from self._field(label, f"{condition}{safe(action.text)}{loses}")
            return
        if action.command[0] != "kdump":
            yield from self._field(label, f"{condition}{safe(action.text)}{loses} Check first:")
            yield from folded_command([quoted(word) for word in action.command], self._width, first=" " * _COLUMN)
            return
        first = f"  {label:<{_COLUMN - 2}}{condition}"
        words = [quoted(word) for word in action.command]
        if condition and self._width is not None and len(first) + len(" ".join(words)) > self._width:
            yield first.rstrip()
            first = " " * _COLUMN
        yield from folded_command(words, self._width, first=first)
        yield from self._field("", f"{_sentence(action.text)}{loses}".strip())

    def _field(self, label: str, text: str, margin: int = 2) -> Iterator[str]:
        yield from folded(
            text, self._width, first=f"{' ' * margin}{label:<{_COLUMN - margin - (2 - margin)}}"[:_COLUMN]
        )

    def _names(self, diagnosis: Diagnosis) -> str:
        """Return the partitions; with several log directories the paths."""
        is_single = len(self._health.directories) == 1
        named = [os.path.basename(path) if is_single else path for path in diagnosis.paths]
        named = [safe_path(name) for name in named if name] or [safe_path(diagnosis.paths[0])]
        return listed(named, _MAX_NAMES)

    def _rest(self) -> Iterator[str]:
        more = len(self._health.diagnoses) - len(self._shown)
        if more > 0:
            yield f"{more} more are not shown: kdump doctor {asked_paths(self._paths)} -v"
        elif self._heads:
            which = f"{len(self._shown) - self._heads + 1}" + (f" to {len(self._shown)}" if self._heads > 1 else "")
            yield f"What to do about {which}: kdump doctor {asked_paths(self._paths)} -v"

    def _routine(self) -> str:
        health = self._health
        count = health.partitions - health.partitions_needing
        text = number_words(max(count, 0), "partition") + "."
        if health.rechecked:
            text += " The broker re-checks their last segments and trims preallocated index files."
        return f"{text} Do nothing."

    def _checked(self) -> str:
        health = self._health
        took = elapsed(health.seconds)
        if health.has_reached_end:
            read = f"{number_words(health.segments, 'segment')}, {size_text(health.checked)} in {took}"
            return f"everything (records not decoded), {read}."
        read = f"{size_text(health.checked)} of {size_text(health.size)} in {took}"
        return f"what the broker reads at its start, and {read}. --max-duration 0 reads everything."

    def _verdict(self) -> Iterator[str]:
        health = self._health
        if health.unread:
            unread = number_words(health.unread, "file or directory", "files or directories")
            Screen.current.has_said_incomplete = True
            yield self._careful(f"INCOMPLETE. {unread} could not be read.")
        committed = len({path for each in health.diagnoses if each.stake == Stake.COMMITTED for path in each.paths})
        if health.diagnoses:
            verb = "needs" if health.needing == 1 else "need"
            stake = f", {committed} with committed data at stake" if committed else ""
            of = f"{health.needing} of {number_words(health.partitions, 'partition')}"
            if self._unit == "place":
                of = number_words(health.needing, "place")
            yield self._bad(f"FOUND: {of} {verb} you{stake}.")

    def _next(self) -> Iterator[str]:
        shown = self._shown
        before = [number for number, each in enumerate(shown, 1) if not _AFTER_START & set(each.codes)]
        if len(before) > 1:
            joint = "and" if len(before) == 2 else "to"
            yield f"Next: {before[0]} {joint} {before[-1]} in this order, then start {self._who.lower()}."
        elif before:
            yield f"Next: {before[0]}, then start {self._who.lower()}."
        elif shown:
            yield f"Next: start {self._who.lower()}, then 1."

    def _all_well(self) -> Iterator[str]:
        health = self._health
        disks = f"{number_words(len(health.directories), 'disk')}, " if len(health.directories) > 1 else ""
        state = f"{disks}{number_words(health.partitions, 'partition')}, all routine."
        if self._is_complete:
            yield self._good("OK.") + f" {self._who} will start; {state}"
        else:
            Screen.current.has_said_incomplete = True
            yield self._careful("INCOMPLETE.") + f" Not everything could be read. The rest: {state}"
        for path, warning in health.warnings:
            yield from folded(f"Warning: {safe_path(path)}: {safe(warning)}", self._width, first="")
        yield from folded(self._checked(), self._width, first="Checked: ", indent="")
        if copies := seen_words(health.copies):
            yield from folded(copies, self._width, first="Copies: ", indent="")
        yield f"Next: kdump verify {asked_paths(self._paths)} (at any time, also while it runs)"


def _stake_words(diagnosis: Diagnosis) -> str:
    """Return what is at stake; nothing where that is said otherwise."""
    if diagnosis.stake == Stake.COMMITTED:
        return f"committed offsets{_offsets(diagnosis)} are at stake"
    words = _stake_words_in_short(diagnosis)
    return f"{words} are at stake" if diagnosis.stake == Stake.RECORDS else words


def _stake_words_in_short(diagnosis: Diagnosis) -> str:
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


def _command_words(actions: Sequence[Action]) -> str:
    for action in actions:
        if action.command and action.command[0] == "kdump":
            return " ".join(map(quoted, action.command))
        return safe(action.short or action.text.rstrip("."))
    return ""


def _place(diagnosis: Diagnosis, finding: Finding) -> str:
    """Return the file and the byte, unless the text, which may be Kafka's, has them."""
    name = os.path.basename(finding.path)
    if name == os.path.basename(diagnosis.paths[0]) or name in finding.text:
        return ""
    return f"{safe(name)}{f', byte {finding.position}' if finding.position is not None else ''}: "


def _sentence(text: str) -> str:
    said = safe(text[:1].upper() + text[1:])
    return said if not said or said.endswith(".") else f"{said}."

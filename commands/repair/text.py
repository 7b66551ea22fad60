"""What repair, rebuild-index and trim plan and do, in plain words."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from kdump.change.guard import DropKind, Dropped, DroppedBatches
from kdump.change.plan import CHECKPOINT, REMOVE, RENAME, REPLACE, TRUNCATE, Operation
from kdump.findings.remedies import DAMAGED_BATCH
from kdump.formats import names
from kdump.formats.names import FileKind, parse_file_name
from kdump.formats.printable import safe, safe_path
from kdump.formats.producer_snapshot import ProducerEntry
from kdump.formats.words import MAX_PLAIN, byte_words, count_text, listed, number_words, offset_range, offset_words
from kdump.mend.decision import Damaged, Decision, Offer, Way
from kdump.mend.task import Task
from kdump.operations.repair import Repaired
from kdump.operations.safe_plans import SafePlan, safe_plan
from kdump.operations.safety import SafetyOptions
from kdump.recovery.outcome import Loss

from ..shell.line_budget import LineBudget, more_similar
from ..shell.output import Style, nothing_changed, to_apply, to_apply_all_the_same
from ..shell.screen import Screen
from ..shell.words import check_and_undo, interrupted_words, loss_words, places, places_by_change, undoable

if TYPE_CHECKING:
    from kdump.change.change import Change
    from kdump.mend.salvage_partition import Salvaged

_VERBS = {REMOVE: "remove", TRUNCATE: "cut", RENAME: "rename", REPLACE: "write", CHECKPOINT: "set"}
_VERB_WIDTH = max(map(len, _VERBS.values()))
_OPTIONS = {way: " ".join(remedy.arguments) for way, remedy in zip(Way, DAMAGED_BATCH, strict=True)}
_LOSES_WIDTH, _OPTION_WIDTH = 18, 20
_MAX_PATH_WIDTH = 40
MAX_RANGES = 10
"""So many damaged ranges of a partition are listed."""
_NOUNS: dict[str, tuple[str, str]] = {
    FileKind.OFFSET_INDEX: ("offset index", "offset indexes"),
    FileKind.TIME_INDEX: ("time index", "time indexes"),
    FileKind.TXN_INDEX: ("transaction index", "transaction indexes"),
    FileKind.PRODUCER_SNAPSHOT: ("producer snapshot", "producer snapshots"),
}


class TextPrinter:
    """Prints plans for people: what is to be decided first, then what would be changed, or as it is changed.

    Plans of several partitions by a repair that drop nothing are a line each.
    """

    def __init__(self, write: Callable[[str], None], safety: SafetyOptions, *, is_colored: bool = False) -> None:
        """`write` takes whole lines."""
        self._write = write
        self._safety = safety
        self._summarizes = safety.command.startswith("repair")
        self._bad = Style(is_colored, "red", bold=True)
        self._good = Style(is_colored, "green", bold=True)
        self._undecided: list[str] = []
        self._to_decide: list[str] = []
        self._planned: list[tuple[int, str, SafeLine | None]] = []
        self._changed: list[str] = []
        self._finished: list[tuple[str, Change]] = []
        self._made: list[tuple[str, Change]] = []
        self._held: tuple[str, SafeLine | None] | None = None
        self._routine: list[SafeLine] = []
        self._is_first = True
        self._unlisted = 0
        self._dropped = self._dropped_batches = self._given_up = 0
        self._gives_up = self._has_unaccepted = False
        self._budget = LineBudget()

    def partition(self, done: Repaired, task: Task) -> None:
        """Print one partition: what is lost and kept, then the changes."""
        if self._safety.applies and (done.has_work or task.plan is None):
            self._changed.append(done.path)
            self._finished += ((done.path, change) for change in done.interrupted)
            self._made += [(done.path, done.change)] if done.change else []
        if task.decision is not None:
            lines = [safe_path(done.path), *_decision_lines(task.decision)]
            lines += (f"  {line}" for line in self._interrupted(done))
            self._undecided.append("".join(f"  {line}\n" for line in lines))
            self._to_decide.append(done.path)
            return
        if task.plan is not None and not done.has_work:
            self._notes(done.path, task)
            return
        self._dropped += task.dropped.lost.records
        self._dropped_batches += task.dropped.lost.batches
        self._has_unaccepted |= not self._safety.allowance.allows(task.dropped)
        self._gives_up |= task.salvaged is not None and bool(task.salvaged.given_up)
        text = self._block(done, task)
        plan = _safe_line(done, task) if self._summarizes else None
        if not self._safety.applies:
            self._planned.append((_rank(done, task), text, plan))
            return
        self._given_up += sum(not each.is_valid for each in task.salvaged.given_up) if task.salvaged else 0
        if Screen.current.verbosity:
            self._write(text)
        elif self._is_first:  # in full if no other one follows
            self._held, self._is_first = (text, plan), False
        else:
            self._one_of_many(text, plan)

    def _one_of_many(self, text: str, plan: SafeLine | None) -> None:
        """Print what was done to a partition, as it was planned, and before it what was held."""
        if self._held is not None:
            held, self._held = self._held, None
            self._one_of_many(*held)
        line = text if plan is None else f"{plan.path}   {plan.work}: done\n"
        if plan is not None and not plan.work:
            self._routine.append(plan)
        elif self._shows(line):
            self._write(line)
        else:
            self._unlisted += 1

    def _rest_of_many(self) -> None:
        """Print what stands for the partitions that were changed and have no line."""
        if self._held is not None:
            self._write(self._held[0])
        if self._unlisted:
            self._write(f"{number_words(self._unlisted, 'more partition')} changed: kdump undo -v lists all.\n")
        if self._routine:
            count = number_words(len(self._routine), "partition")
            self._write(f"{count}   {_together(self._routine)}: done\n")
        if self._unlisted or self._routine:
            self._write("\n")

    def _notes(self, path: str, task: Task) -> None:
        """Print what is to be known of a partition to which nothing is done."""
        text = "\n".join([safe_path(path), *(f"  {safe(note)}" for note in task.notes)]) + "\n\n"
        if task.notes and self._budget.takes(text.count("\n")):
            self._write(text)

    def left_alone(self, done: Repaired, reason: str, code: int) -> None:  # noqa: ARG002 - as JSON lines
        """Print only what was finished before: the reason, which names the partition, is on stderr."""
        if self._safety.applies and done.interrupted:
            self._changed.append(done.path)
            self._finished += ((done.path, change) for change in done.interrupted)
            self._write("\n".join([safe_path(done.path), *(f"  {line}" for line in self._interrupted(done))]) + "\n\n")

    def _block(self, done: Repaired, task: Task) -> str:
        lines = [*self._interrupted(done), *self._verdict(task)]
        for operation in task.plan.operations if task.plan else ():
            lines.append(f"  {_VERBS[operation.action]:<{_VERB_WIDTH}}  {_words(operation)}")
        if done.change is not None:
            lines += (f"  kept    {safe_path(path)}" for path in done.kept_cuts)
            lines.append(self._good("done"))
        elif task.plan and not self._safety.allowance.allows(task.dropped):
            lines.append(f"needs --accept-loss {task.dropped.lost.records}")
        return "\n".join([safe_path(done.path), *(f"  {line}" for line in lines)]) + "\n\n"

    def _interrupted(self, done: Repaired) -> Iterator[str]:
        return (interrupted_words(change, is_finished=self._safety.applies) for change in done.interrupted)

    def _plans(self) -> None:
        """Print the plans: of several partitions those that drop nothing a line each, unless -v asks for all of it."""
        is_brief = len(self._planned) > 1 and not Screen.current.verbosity
        brief = [plan for _, _, plan in self._planned if is_brief and plan is not None]
        by_need = sorted(range(len(self._planned)), key=lambda at: (self._planned[at][0], at))
        full = [at for at in by_need if not is_brief or self._planned[at][2] is None]
        shown = {at for at in full if self._shows(self._planned[at][1], is_first=at == full[0])}
        self._write("".join(self._planned[at][1] for at in sorted(shown)))
        if len(shown) < len(full):
            more = number_words(len(full) - len(shown), "more partition")
            self._write(f"{more} would change: -v lists all.\n\n")
        if brief:
            self._write("".join(f"{line}\n" for line in _safe_lines(brief, self._budget)) + "\n")

    def _decisions(self) -> None:
        """Print what has to be decided, as far as the screen goes."""
        self._write(f"{self._bad('Decide:')} {number_words(len(self._undecided), 'partition')}\n")
        shown = [text for text in self._undecided if self._shows(text)]
        self._write("\n".join(shown) + "\n")
        more = len(self._undecided) - len(shown)
        if more > 0:
            self._write(f"{more_similar(more)}\n\n")

    def _shows(self, text: str, *, is_first: bool = False) -> bool:
        return self._budget.takes(text.count("\n") + 1) or is_first

    def end(self, *, applies: bool, work: int, failed: int, refused: int, reason: str) -> None:
        """Print the answer: what was changed or would be, what needs a decision, and what to do next."""
        undecided = len(self._undecided)
        self._rest_of_many()
        if undecided:
            self._decisions()
        self._plans()
        if failed > refused:
            self._write(f"{number_words(failed - refused, 'partition')} cannot be repaired this way.\n")
        if refused:
            self._write(f"{number_words(refused, 'partition')} left alone.\n")
        needs = f"{undecided if work else number_words(undecided, 'partition')} need{'s' * (undecided == 1)} a decision"
        needs = needs if undecided else ""
        if work and applies:
            self._done(work, f", {needs}" if needs else "")
        elif work or undecided:
            would = f"{number_words(work, 'partition')} would be" if work else ""
            whole = ", ".join(part for part in (would, needs) if part)
            self._write(f"{'Nothing was changed' if applies else 'Dry run: nothing was changed'}. {whole}.\n")
        elif reason:
            self._write(nothing_changed(reason))
        elif not failed:
            self._write("Nothing to do.\n")
        if undecided:
            names = listed(list(map(os.path.basename, self._to_decide)), 3)
            then = to_apply() if work and not applies else f"kdump repair {places(self._to_decide[:1])} OPTION"
            self._write(f"Next: decide for {safe(names)}{'; then' if work and not applies else ':'} {then}\n")
        elif work and not applies:
            self._next(work)

    def _next(self, work: int) -> None:
        """Print how the plan is applied; of one that drops or gives up records first how to keep them."""
        if not self._dropped and not self._gives_up:
            self._write(f"Next: {to_apply()}\n")
            return
        self._write("Next: kdump repair without --strategy lists the ways that lose nothing, or less.\n")
        if not self._dropped:
            self._write(f"To give them up all the same: {to_apply_all_the_same()}\n")
            return
        accepts = f" --accept-loss {self._dropped}" if work == 1 else " and the --accept-loss of each partition"
        more = accepts if self._has_unaccepted else ""
        self._write(f"To drop them all the same: {to_apply_all_the_same(more)}\n")

    def _done(self, work: int, more: str) -> None:
        """Print what was changed, how to check it, and how to take it back."""
        dropped = number_words(self._dropped, "valid record") if self._dropped else "no valid batch"
        if self._dropped_batches and not self._dropped:
            dropped = number_words(self._dropped_batches, "batch without records", "batches without records")
        given_up = f", {number_words(self._given_up, 'damaged range')} given up" if self._given_up else ""
        self._write(f"Done. {number_words(work, 'partition')} changed{given_up}, {dropped} dropped{more}.\n")
        undo = places_by_change(undoable([*self._finished, *self._made]))
        self._write("".join(f"{line}\n" for line in check_and_undo(f"verify {places(self._changed)}", undo)))

    def _verdict(self, task: Task) -> Iterator[str]:
        if task.failure:
            failure = task.failure
            yield self._bad("cannot be repaired this way:") + safe(
                f" loading it ends in {failure.exception}: {failure.text} ({failure.file})"
            )
            if task.salvaged is None:
                yield "  kdump repair without --strategy shows the ways out"
            elif parse_file_name(failure.file).kind in names.INDEX_KINDS:  # all that is wrong with one is left out
                yield "  segment.index.bytes is too small for this log: set a larger one, in --config too"
        elif task.salvaged:
            yield from self._salvage(task.salvaged, task.dropped)
        elif task.outcome and not task.problems:
            yield self._lost(task.dropped, task.outcome.loss)
        yield from _not_lost(task.dropped)
        yield from map(safe, _fixed_lines(task.fixed))
        yield from map(safe, task.notes)
        if task.extent:
            yield f"log start offset {task.extent[0]}, log end offset {task.extent[1]}"

    def _lost(self, dropped: Dropped, loss: Loss) -> str:
        if dropped.lost.batches:
            return f"{self._bad('drops:')} {_batch_words(dropped.lost)}{_older(dropped)}"
        kept = self._good("no valid batch is dropped")
        if loss.has_data:
            return f"{kept}; cuts an incomplete batch ({byte_words(loss.bytes)})"
        return kept + (f"; cuts {loss_words(loss)}, never written" if loss.bytes else "")

    def _salvage(self, salvaged: Salvaged, dropped: Dropped) -> Iterator[str]:
        for cut in salvaged.cuts:
            size = byte_words(cut.stop - cut.start)
            yield self._bad("given up:") + safe(f" {size} of {cut.file} from byte {cut.start}: {cut.why}")
        if salvaged.kept is None or dropped.lost.batches:
            yield self._lost(dropped, salvaged.outcome.loss)
        if salvaged.kept is None:
            return
        yield f"kept: {_held(salvaged.kept)}"
        if salvaged.kafka_keeps is None:
            yield "Kafka's own recovery would fail"
        elif salvaged.kafka_keeps != salvaged.kept:
            yield f"Kafka's own recovery would keep: {_held(salvaged.kafka_keeps)}"
        for marker in salvaged.markers:
            yield f"{self._good('put in:')} {safe(str(marker))} ({marker.gap.name})"
        for producer in salvaged.open_txns if salvaged.cuts else ():
            yield _open_txn(producer)


_NOT_LOST = {
    DropKind.DUPLICATE: "a second time: the same batches stay",
    DropKind.REPACKED: "whose records stay in other batches",
    DropKind.COMPACTED: "that compaction has superseded, deleted or aborted",
    DropKind.SET_ASIDE: "in files that the broker deletes at its start",
}


def _not_lost(dropped: Dropped) -> Iterator[str]:
    """Yield what goes beside what is lost, and why that is no loss."""
    return (f"removes {_batch_words(dropped[kind])}, {why}" for kind, why in _NOT_LOST.items() if kind in dropped)


def _batch_words(batches: DroppedBatches) -> str:
    number = number_words(batches.batches, "valid batch", "valid batches")
    records = number_words(batches.records, "record")
    return f"{number} of {records}, {offset_words(batches.first_offset, batches.last_offset)}"


def _older(dropped: Dropped) -> str:
    """Return which of the lost batches a broker would truncate for those of a later leader epoch."""
    older = dropped.get(DropKind.OLDER_EPOCH)
    if older is None:
        return ""
    which = "all" if DropKind.LOST not in dropped else number_words(older.records, "record")
    return f" ({which} of an older leader epoch: batches of a later one stay at these offsets)"


class SafeLine(NamedTuple):
    """What is said of a plan that drops and gives up nothing that is valid.

    `work` is what it does beyond the broker's next start ("" for nothing), `files` the kinds of the files that it
    removes (True) and writes.
    """

    path: str
    work: str
    files: frozenset[tuple[bool, str]]


def _rank(done: Repaired, task: Task) -> int:
    """Return how soon a plan has to be seen: what was interrupted or fails, what cuts or drops, what is routine."""
    if done.interrupted or task.failure:
        return 0
    return 1 if task.cuts or task.dropped.lost.batches else 2


def _open_txn(producer: ProducerEntry) -> str:
    first = producer.current_txn_first_offset
    return (
        f"open transaction: producer {producer.producer_id} (epoch {producer.producer_epoch}) from offset {first} on;"
        " if its marker was among what is given up, read_committed consumers stop there until --missing-markers abort,"
        f" or kafka-transactions.sh abort --start-offset {first}, ends it"
    )


def _held(loss: Loss) -> str:
    if loss.first_offset is None:
        return "nothing"
    batches = number_words(loss.batches, "batch", "batches")
    offsets = offset_range(loss.first_offset, loss.last_offset)
    return f"{number_words(loss.records, 'record')} in {batches}, offsets {offsets}"


def _words(operation: Operation) -> str:
    why = f": {operation.why}" if operation.why else ""
    if operation.action == TRUNCATE:
        what = f"{operation.name} at byte {operation.size} (of {operation.old_size})"
    elif operation.action == RENAME:
        what = f"{operation.source} to {operation.name}"
    elif operation.action == REPLACE:
        what = f"{operation.name} ({_sizes(operation.old_size, operation.size)})"
    else:
        what = operation.name
    return safe(what + why)


def _sizes(before: int, after: int) -> str:
    """Return the size of a file before (-1: it is new) and after a change."""
    if before < 0 or before == after:
        return f"{'new, ' if before < 0 else ''}{byte_words(after)}"
    old = count_text(before) if before < MAX_PLAIN else byte_words(before)
    return f"{old} to {byte_words(after)}"


# --- plans that lose nothing, a line each -----------------------------------------------------------------------------


def _safe_line(done: Repaired, task: Task) -> SafeLine | None:
    """Return what is to be said of a plan in a line; None where it drops something, or more has to be told of it."""
    plan = safe_plan(done, task)
    if plan is None:
        return None
    what = frozenset((each.action == REMOVE, parse_file_name(each.name).kind) for each in plan.operations)
    return SafeLine(safe_path(done.path), "" if plan.is_routine else _work(plan, task), what)


def _safe_lines(plans: Sequence[SafeLine], budget: LineBudget) -> Iterator[str]:
    """Yield a line for each plan that does more than the broker's next start, and one for all the others."""
    yield f"Safe: {number_words(len(plans), 'partition')}"
    routine = [plan for plan in plans if not plan.work]
    others = [plan for plan in plans if plan.work]
    label = number_words(len(routine), "partition")
    width = min(max(map(len, (label, *(plan.path for plan in others)))), _MAX_PATH_WIDTH)
    listed = [plan for plan in others if budget.takes()]
    yield from (f"  {plan.path:<{width}}   {plan.work}" for plan in listed)
    if len(listed) < len(others):
        yield f"  {more_similar(len(others) - len(listed))}"
    if routine:
        yield f"  {label:<{width}}   {_together(routine)}"


def _work(plan: SafePlan, task: Task) -> str:
    """Return what a plan does beyond the work of the broker's next start."""
    parts = []
    if plan.loss is not None:
        what = "an incomplete batch" if plan.loss.has_data else "zeros that were never written"
        parts.append(f"cut {what} ({byte_words(plan.loss.bytes)})")
    found: Counter[tuple[str, str]] = Counter()
    for each in plan.operations:
        kind = parse_file_name(each.name).kind
        if each.action == CHECKPOINT:
            parts.append(f"set {each.name} to {each.size}")
        elif kind in _NOUNS and each.action != RENAME:
            is_first = each.action == REMOVE and each.name in plan.rewritten
            verb = "remove" if each.action == REMOVE else "rebuild" if kind in names.INDEX_KINDS else "write"
            found[(verb, kind)] += each.name not in plan.written and not is_first
        elif each.name not in plan.written and not (kind == FileKind.LOG and parts):
            parts.append(f"{_VERBS[each.action]} {each.name}")
    parts += (f"{verb} {number_words(count, *_NOUNS[kind])}" for (verb, kind), count in found.items() if count)
    end = f"; log end offset {task.extent[1]}" if plan.loss and task.extent else ""
    return safe(", ".join(dict.fromkeys(parts)) + end)


def _together(plans: Sequence[SafeLine]) -> str:
    """Return what the routine plans do."""
    files = frozenset().union(*(plan.files for plan in plans))
    written = {kind for is_removed, kind in files if not is_removed}
    parts = ["trim preallocated index files"] if not written.isdisjoint(names.INDEX_KINDS) else []
    parts += ["write producer snapshots"] if FileKind.PRODUCER_SNAPSHOT in written else []
    parts += ["write leader-epoch-checkpoint"] if FileKind.OTHER in written else []
    parts += ["remove leftover files"] if any(is_removed for is_removed, _ in files) else []
    return f"{', '.join(parts)} (as the broker does at its next start)"


# --- what somebody has to decide -------------------------------------------------------------------------------------


def _decision_lines(decision: Decision) -> Iterator[str]:
    """Yield what is damaged, where the partition's replicas are, and the ways out: what loses nothing comes first."""
    for each in decision.damaged[:MAX_RANGES]:
        yield f"  {safe(_damage(each))}"
    if len(decision.damaged) > MAX_RANGES:
        yield f"  and {number_words(len(decision.damaged) - MAX_RANGES, 'more damaged range')}"
    if decision.swap_loss.batches:
        yield f"  a broker that starts puts a .swap in the place of segments: {loss_words(decision.swap_loss)} are lost"
    if not decision.damaged:
        yield from (f"  {safe(why)}" for why in decision.rewritten[:MAX_RANGES])
    yield from (f"  {line}" for line in _around(decision))
    for offer in decision.offers():
        option = f"{_OPTIONS[offer.way]:<{_OPTION_WIDTH}} " if _OPTIONS[offer.way] else ""
        yield f"    {_loses(offer):<{_LOSES_WIDTH}}{option}{_what(offer, decision)}"


def _fixed_lines(fixed: Sequence[Damaged]) -> Iterator[str]:
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
    elif decision.after.batches and decision.damaged:
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
        if decision.swap_loss.batches and not decision.damaged:
            kept = "moves the .swap away, keeps the segments"
        elif offer.loses == 0:
            kept = "changes batches in their place" if decision.rewritten else "the same records stay elsewhere"
        return f"{kept}{_needs(offer)}"
    return f"as the broker's recovery does{_needs(offer)}"


def _needs(offer: Offer) -> str:
    """Return what has to be said besides the way itself."""
    options = ["--only-copy"] * offer.needs_only_copy + [f"--accept-loss {offer.drops}"] * bool(offer.drops)
    return f"; needs {' '.join(options)}" if options else ""

"""What repair, rebuild-index and trim plan and do, in plain words."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from kdump.change.plan import CHECKPOINT, REMOVE, RENAME, REPLACE, TRUNCATE, Operation
from kdump.formats import names
from kdump.formats.names import parse_file_name
from kdump.formats.printable import safe, safe_path
from kdump.formats.producer_snapshot import ProducerEntry
from kdump.formats.words import MAX_PLAIN, byte_words, count_text, listed, number_words, offset_range
from kdump.operations.repair import Repaired
from kdump.recovery.outcome import Loss
from kdump.repair.task import Task

from ..shell.line_budget import LineBudget, more_similar
from ..shell.output import Style, nothing_changed, to_apply, to_apply_all_the_same
from ..shell.screen import Screen
from ..shell.words import check_and_undo, interrupted_words, loss_words, places, places_by_change
from .run import Totals
from .safe_plans import SafeLine, routine_line, safe_line, safe_lines

if TYPE_CHECKING:
    from kdump.repair.salvage_partition import Salvaged

_VERBS = {REMOVE: "remove", TRUNCATE: "cut", RENAME: "rename", REPLACE: "write", CHECKPOINT: "set"}
_VERB_WIDTH = max(map(len, _VERBS.values()))


class TextPrinter:
    """Prints plans for people: what is to be decided first, then what would be changed, or as it is changed."""

    def __init__(
        self,
        write: Callable[[str], None],
        accepts: Callable[[int], bool],
        *,
        is_colored: bool = False,
        summarizes: bool = False,
    ) -> None:
        """`write` takes whole lines, `accepts` tells whether a partition may lose so many valid records.

        `summarizes`: plans of several partitions that drop nothing are a line each.
        """
        self._accepts = accepts
        self._summarizes = summarizes
        self._write = write
        self._bad = Style(is_colored, "red", bold=True)
        self._good = Style(is_colored, "green", bold=True)
        self._undecided: list[str] = []
        self._to_decide: list[str] = []
        self._planned: list[tuple[int, str, SafeLine | None]] = []
        self._changed: list[str] = []
        self._held: tuple[str, SafeLine | None] | None = None
        self._routine: list[SafeLine] = []
        self._unlisted = 0
        self._dropped = self._given_up = 0
        self._gives_up = self._has_unaccepted = False
        self._budget = LineBudget()

    def partition(self, done: Repaired, *, applies: bool) -> None:
        """Print one partition: what is lost and kept, then the changes."""
        task = done.task
        assert task is not None
        if task.decision is not None:
            from .decisions import decision_text

            text = decision_text(done.path, task.decision)
            self._undecided.append(text + "".join(f"    {line}\n" for line in _interrupted(done, applies=applies)))
            self._to_decide.append(done.path)
            return
        if task.plan is not None and not task.plan and not done.interrupted:
            self._notes(done.path, task)
            return
        self._dropped += task.dropped.records
        self._has_unaccepted |= not self._accepts(task.dropped.records)
        self._gives_up |= task.salvaged is not None and bool(task.salvaged.given_up)
        text = self._block(done, applies=applies)
        if applies:
            self._changed.append(done.path)
            self._given_up += sum(not each.is_valid for each in task.salvaged.given_up) if task.salvaged else 0
            self._applied(text, safe_line(done, task) if self._summarizes else None)
        else:
            self._planned.append((_rank(done, task), text, safe_line(done, task)))

    def _applied(self, text: str, plan: SafeLine | None) -> None:
        """Print what was done to a partition: alone in full, of several as they were planned, unless -v asks for all.

        The first one waits until it is known whether it is the only one.
        """
        if Screen.current.verbosity:
            self._write(text)
        elif len(self._changed) == 1:
            self._held = (text, plan)
        else:
            self._release(is_alone=False)
            self._one_of_many(text, plan)

    def _release(self, *, is_alone: bool) -> None:
        held, self._held = self._held, None
        if held is not None and is_alone:
            self._write(held[0])
        elif held is not None:
            self._one_of_many(*held)

    def _one_of_many(self, text: str, plan: SafeLine | None) -> None:
        line = text if plan is None else f"{plan.path}   {plan.work}: done\n"
        if plan is not None and not plan.work:
            self._routine.append(plan)
        elif self._shows(line):
            self._write(line)
        else:
            self._unlisted += 1

    def _rest_of_many(self) -> None:
        """Print what stands for the partitions that were changed and have no line."""
        self._release(is_alone=True)
        if self._unlisted:
            self._write(f"{number_words(self._unlisted, 'more partition')} changed: kdump undo -v lists all.\n")
        if self._routine:
            self._write(f"{routine_line(self._routine)}: done\n")
        if self._unlisted or self._routine:
            self._write("\n")

    def _notes(self, path: str, task: Task) -> None:
        """Print what is to be known of a partition to which nothing is done."""
        text = "\n".join([safe_path(path), *(f"  {safe(note)}" for note in task.notes)]) + "\n\n"
        if task.notes and self._budget.takes(text.count("\n")):
            self._write(text)

    def left_alone(self, path: str, reason: str, code: int) -> None:
        """Do nothing: the reason, which names the partition, is on stderr."""

    def _block(self, done: Repaired, *, applies: bool) -> str:
        task = done.task
        assert task is not None
        lines = [safe_path(done.path)]
        lines += (f"  {line}" for line in _interrupted(done, applies=applies))
        lines += (f"  {line}" for line in self._verdict(task))
        for operation in task.plan.operations if task.plan else ():
            lines.append(f"    {_VERBS[operation.action]:<{_VERB_WIDTH}}  {_words(operation)}")
        if done.change is not None:
            lines += (f"    kept    {_kept_path(done, kept.file)}" for kept in done.change.cuts)
            lines.append(f"  {self._good('done')}")
        elif task.plan and not self._accepts(task.dropped.records):
            lines.append(f"  needs --accept-loss {task.dropped.records}")
        return "\n".join(lines) + "\n\n"

    def _plans(self) -> None:
        """Print the plans: of several partitions those that drop nothing a line each, unless -v asks for all of it."""
        is_brief = self._summarizes and len(self._planned) > 1 and not Screen.current.verbosity
        brief = [plan for _, _, plan in self._planned if is_brief and plan is not None]
        by_need = sorted(range(len(self._planned)), key=lambda at: (self._planned[at][0], at))
        full = [at for at in by_need if not is_brief or self._planned[at][2] is None]
        shown = {at for at in full if self._shows(self._planned[at][1], is_first=at == full[0])}
        self._write("".join(self._planned[at][1] for at in sorted(shown)))
        if len(shown) < len(full):
            more = number_words(len(full) - len(shown), "more partition")
            self._write(f"{more} would change: -v lists all.\n\n")
        if brief:
            self._write("".join(f"{line}\n" for line in safe_lines(brief, self._budget)) + "\n")

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

    def end(self, totals: Totals) -> None:
        """Print the answer: what was changed or would be, what needs a decision, and what to do next."""
        undecided, work, applies = len(self._undecided), totals.work, totals.applies
        self._rest_of_many()
        if undecided:
            self._decisions()
        self._plans()
        if totals.failed > totals.refused:
            self._write(f"{number_words(totals.failed - totals.refused, 'partition')} cannot be repaired this way.\n")
        if totals.refused:
            self._write(f"{number_words(totals.refused, 'partition')} left alone.\n")
        needs = f"{undecided if work else number_words(undecided, 'partition')} need{'s' * (undecided == 1)} a decision"
        needs = needs if undecided else ""
        if totals.changed:
            self._done(totals, f", {needs}" if needs else "")
        elif work or undecided:
            would = f"{number_words(work, 'partition')} would be" if work else ""
            whole = ", ".join(part for part in (would, needs) if part)
            self._write(f"{'Nothing was changed' if applies else 'Dry run: nothing was changed'}. {whole}.\n")
        elif totals.reason:
            self._write(nothing_changed(totals.reason))
        elif not totals.failed:
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

    def _done(self, totals: Totals, more: str) -> None:
        """Print what was changed, how to check it, and how to take it back."""
        dropped = number_words(self._dropped, "valid record") if self._dropped else "no valid batch"
        given_up = f", {number_words(self._given_up, 'damaged range')} given up" if self._given_up else ""
        self._write(f"Done. {number_words(totals.changed, 'partition')} changed{given_up}, {dropped} dropped{more}.\n")
        undo = places_by_change(totals.changes) if totals.output is None else {}
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
            yield from self._salvage(task.salvaged)
        elif task.outcome and not task.problems:
            yield self._lost(task.outcome.loss)
        if task.fixed:
            from .decisions import fixed_lines

            yield from map(safe, fixed_lines(task.fixed))
        yield from map(safe, task.notes)
        if task.extent:
            yield f"log start offset {task.extent[0]}, log end offset {task.extent[1]}"

    def _lost(self, loss: Loss) -> str:
        if loss.batches:
            return f"{self._bad('drops:')} {loss_words(loss)}"
        kept = self._good("no valid batch is dropped")
        if loss.has_data:
            return f"{kept}; cuts an incomplete batch ({byte_words(loss.bytes)})"
        return kept + (f"; cuts {loss_words(loss)}, never written" if loss.bytes else "")

    def _salvage(self, salvaged: Salvaged) -> Iterator[str]:
        for cut in salvaged.cuts:
            size = byte_words(cut.stop - cut.start)
            yield self._bad("given up:") + safe(f" {size} of {cut.file} from byte {cut.start}: {cut.why}")
        if salvaged.dropped.batches:
            yield f"{self._bad('drops:')} {loss_words(salvaged.dropped)}: their offsets fit nowhere"
        if salvaged.kept is None:
            yield self._lost(salvaged.outcome.loss)
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


def _interrupted(done: Repaired, *, applies: bool) -> Iterator[str]:
    """Yield the interrupted changes of a partition."""
    for change in done.interrupted:
        yield interrupted_words(change, is_finished=applies)


def _rank(done: Repaired, task: Task) -> int:
    """Return how soon a plan has to be seen: what was interrupted or fails, what cuts or drops, what is routine."""
    if done.interrupted or task.failure:
        return 0
    return 1 if task.cuts or task.dropped.records else 2


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


def _kept_path(done: Repaired, file: str) -> str:
    """Return the path of a kept file, in the log directory as it was given."""
    assert done.change is not None
    path, partition = done.change.file(file), done.change.path
    if os.path.dirname(path) == os.path.dirname(partition):  # which may be about to get another name
        path = os.path.join(os.path.dirname(done.path), os.path.basename(path))
    return safe_path(path)

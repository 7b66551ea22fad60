"""What repair, rebuild-index and trim plan and do, in plain words."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from kdump.change.plan import CHECKPOINT, REMOVE, RENAME, REPLACE, TRUNCATE, Operation
from kdump.formats import names
from kdump.formats.names import parse_file_name
from kdump.formats.producer_snapshot import ProducerEntry
from kdump.recovery.outcome import RECOVER, Loss
from kdump.repair.proposal import Task

from ..shell.output import Style, number_words, safe, safe_path
from ..shell.words import loss_words
from .run import Done

if TYPE_CHECKING:
    from kdump.repair.salvage_partition import Rescue

_VERBS = {REMOVE: "remove", TRUNCATE: "cut", RENAME: "rename", REPLACE: "write", CHECKPOINT: "set"}
_VERB_WIDTH = max(map(len, _VERBS.values()))


class TextPrinter:
    """Prints plans for people."""

    def __init__(self, write: Callable[[str], None], *, color: bool = False) -> None:
        """`write` takes whole lines."""
        self._write = write
        self._bad = Style(color, "red", bold=True)
        self._good = Style(color, "green", bold=True)
        self._unchecked = 0

    def partition(self, done: Done, *, applies: bool) -> None:
        """One partition: what is lost and kept, then the changes."""
        task = done.task
        assert task is not None
        self._write(f"{safe_path(done.path)}\n")
        for folder in done.interrupted:
            what = "finished" if applies else "to be finished by --apply"
            self._line(f"an interrupted repair, {what}: {safe_path(folder)}")
        for line in self._verdict(task):
            self._line(line)
        self._unchecked += _is_unchecked(task)
        for operation in task.plan.operations if task.plan else ():
            self._line(f"  {_VERBS[operation.action]:<{_VERB_WIDTH}}  {_words(operation)}")
        if done.applied:
            what = "was there before" if done.has_old else "was cut out"
            kept = f"; what {what} is in {safe_path(done.folder)}" if done.folder else ""
            self._line(f"{self._good('done')}{kept}")
        self._write("\n")

    def end(self, work: int, failed: int, *, applies: bool, is_told: bool) -> None:
        """The sum of it; `is_told` where something was not looked at, and it was said why."""
        if self._unchecked:
            self._write(
                f"{number_words(self._unchecked, 'partition')} not checked, as a broker does not at this start:"
                " --unclean --recovery-point 0 checks every segment, and so does --strategy salvage\n"
            )
        if failed:
            self._write(f"{number_words(failed, 'partition')} cannot be repaired this way\n")
        if not work and not failed and not is_told:
            self._write("nothing to do\n")
        elif work:
            changed = "changed" if applies else "would be changed; nothing is, without --apply"
            self._write(f"{number_words(work, 'partition')} {changed}\n")

    def _verdict(self, task: Task) -> Iterator[str]:
        if task.failure:
            failure = task.failure
            yield self._bad("cannot be repaired:") + safe(
                f" loading it ends in {failure.exception}: {failure.text} ({failure.file})"
            )
            if task.rescue is None:
                yield "  --strategy salvage leaves out what stands in the way"
            elif parse_file_name(failure.file).kind in names.INDEX_KINDS:  # all that is wrong with one is left out
                yield "  segment.index.bytes is too small for this log: give a larger one in --config, and the broker"
        elif task.rescue:
            yield from self._salvage(task.rescue)
        elif task.outcome and not task.problems:
            yield self._lost(task.outcome.loss)
        if task.extent:
            yield f"log start offset {task.extent[0]}, log end offset {task.extent[1]}"
        if task.plan is not None and not task.plan:
            yield "nothing to do"

    def _lost(self, loss: Loss) -> str:
        if loss.has_data:
            return f"{self._bad('LOST:')} {loss_words(loss)}"
        return f"{self._good('nothing is lost')}" + (f" but {loss_words(loss)}, never written" if loss.bytes else "")

    def _salvage(self, rescue: Rescue) -> Iterator[str]:
        for cut in rescue.cuts:
            size = number_words(cut.stop - cut.start, "byte")
            yield self._bad("left out:") + safe(f" {size} of {cut.file} from byte {cut.start} on: {cut.why}")
        yield f"kept: {_held(rescue.kept)}"
        if rescue.kafka_keeps is None:
            yield "Kafka's own recovery would not get through"
        elif rescue.kafka_keeps != rescue.kept:
            yield f"Kafka's own recovery would keep: {_held(rescue.kafka_keeps)}"
        for marker in rescue.markers:
            yield f"{self._good('put in:')} {safe(str(marker))} ({marker.gap.name})"
        for producer in rescue.open_txns if rescue.cuts else ():
            yield _open_txn(producer)

    def _line(self, text: str) -> None:
        self._write(f"  {text}\n")


def _is_unchecked(task: Task) -> bool:
    """Whether no segment's batches were looked at, so that nothing is known of damage."""
    outcome = task.outcome
    if outcome is None or not outcome.ok or outcome.log_end_offset == outcome.log_start_offset:
        return False
    return all(step.action != RECOVER for step in outcome.steps)


def _open_txn(producer: ProducerEntry) -> str:
    first = producer.current_txn_first_offset
    return (
        f"open transaction: producer {producer.producer_id} (epoch {producer.producer_epoch}) from offset {first} on;"
        " if its marker was among what is left out, read_committed consumers stop there until --lost-markers abort, or"
        f" kafka-transactions.sh abort --start-offset {first}, ends it"
    )


def _held(loss: Loss) -> str:
    if loss.first_offset is None:
        return "nothing"
    batches = number_words(loss.batches, "batch", "batches")
    return f"{number_words(loss.records, 'record')} in {batches}, offsets {loss.first_offset} to {loss.last_offset}"


def _words(operation: Operation) -> str:
    why = f": {operation.why}" if operation.why else ""
    if operation.action == TRUNCATE:
        what = f"{operation.name} at byte {operation.size} (of {operation.old_size})"
    elif operation.action == RENAME:
        what = f"{operation.source} to {operation.name}"
    elif operation.action == REPLACE:
        before = f", {operation.old_size:,} before" if operation.old_size >= 0 else ", new"
        what = f"{operation.name} ({number_words(operation.size, 'byte')}{before})"
    else:
        what = operation.name
    return safe(what + why)

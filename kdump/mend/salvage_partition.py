"""Strategy salvage for a whole partition: what Kafka's loading leaves once everything that it stumbles over is out.

The .log files are put together in the plan, from their valid batches (kdump.mend.salvage); then the broker's log
loading, with every segment recovered, makes the indexes, the producer state and the leader epochs that go with them.
Where that still ends in an exception, the file or the batch at fault is left out too, and loading begins again.

- A file beside the logs that Kafka cannot read (leader-epoch-checkpoint, partition.metadata, a producer snapshot, a
  transaction index, an index too long for its configured size, a name that is no number) is left out; loading makes it
  again where it can.
- A segment of which nothing is kept goes, unless it is the last one. An empty one goes where the segments before it
  reach its base offset.
- A partition.metadata that is missing or unreadable is made from that of another partition of the same topic in the
  same log directory, where there is one.
- A batch whose leader epoch cannot be right gets another one (kdump.mend.leader_epochs). Leader epochs of
  leader-epoch-checkpoint that contradict the batches are dropped for those that the batches tell.
- A log start offset beyond the end of the log would have the broker drop everything: the log then starts where its
  first segment does.
- A transaction whose marker was lost with what is left out gets it back where a .txnindex tells that it was aborted.
  Else it stays open, so that read_committed consumers stop before it, or is aborted, as the caller chooses.
"""

from __future__ import annotations

from typing import NamedTuple

from kdump.change.guard import dropped_batches
from kdump.change.plan import Cut, make_plan
from kdump.errors import NUMBER_FORMAT, KdumpError, LoadError
from kdump.formats import names
from kdump.formats.codecs import DEFAULT_LIMIT
from kdump.formats.metadata_files import parse_partition_metadata
from kdump.formats.names import parse_file_name
from kdump.formats.producer_snapshot import ProducerEntry, decode_producer_snapshot
from kdump.mend.as_broker import as_if_killed, reasons
from kdump.mend.load_result import (
    at_rest,
    directory_after_load,
    epoch_contradiction,
    holding,
    open_txns,
    without_markers,
)
from kdump.mend.lost_markers import (
    NewMarker,
    aborted_txns,
    aborting_markers,
    find_gaps,
    proven_markers,
    put,
)
from kdump.mend.salvaged_files import GivenUp, SalvagedFiles
from kdump.mend.survey import Survey
from kdump.mend.task import ABORTED, OPEN, LostMarkers
from kdump.recovery.loader import load_log
from kdump.recovery.outcome import (
    CHANGE,
    INSERT,
    MOVE,
    WARN,
    Failure,
    LoadOutcome,
    Loss,
    Step,
)
from kdump.recovery.segments import file_name
from kdump.recovery.startup import Startup
from kdump.recovery.swaps import clear_leftovers
from kdump.storage.partition import PartitionLog

MAX_ATTEMPTS = 1000
"""How many files and batches are left out, one by one, because loading fails over them."""

MAX_MARKERS = 100_000


class Salvaged(NamedTuple):
    """What salvage makes of a partition.

    `outcome` is that of the last attempt at loading. `kept` and `kafka_keeps` count what the .log files hold
    afterwards of what they held, with this strategy and with Kafka's own recovery of all segments (None where that
    ends in an exception); of a sound partition, of which nothing goes, neither is counted. `markers` are those that
    were put in, `open_txns` the producers whose transaction is open at the end. `given_up` are the damaged ranges of
    logs, `dropped` the valid batches whose offsets fit nowhere, and `kafka_drops` what Kafka's own recovery would
    throw away. `swap_loss` is what a broker would lose that completes a swap which salvage takes away.
    """

    outcome: LoadOutcome
    cuts: tuple[Cut, ...]
    kept: Loss | None
    kafka_keeps: Loss | None
    markers: tuple[NewMarker, ...]
    open_txns: tuple[ProducerEntry, ...]
    given_up: tuple[GivenUp, ...] = ()
    dropped: Loss = Loss()
    kafka_drops: Loss | None = None
    swap_loss: Loss = Loss()

    @property
    def rewritten(self) -> tuple[str, ...]:
        """Where and why the logs change in another way than that bytes are cut out of them."""
        steps = (step for step in self.outcome.steps if step.action in (CHANGE, MOVE, INSERT))
        return tuple(f"{step.file}, byte {step.position}: {step.why}" for step in steps)

    @property
    def drops_only_tails(self) -> bool:
        """Whether no batch goes, and no .log changes but where ranges are given up."""
        logs = [cut for cut in self.cuts if parse_file_name(cut.file).kind == names.LOG]
        ranges = {(each.file, each.start) for each in self.given_up}
        is_cut_elsewhere = any((cut.file, cut.start) not in ranges for cut in logs)
        drops_batches = any(step.loss and step.loss.batches for step in self.outcome.steps)
        is_in_question = self.dropped.batches or self.swap_loss.batches or self.rewritten
        return not (is_cut_elsewhere or drops_batches or is_in_question)


def salvage_partition(
    log: PartitionLog, startup: Startup, found: Survey, limit: int = DEFAULT_LIMIT, lost_markers: LostMarkers = OPEN
) -> Salvaged:
    """Salvage a partition, of which verification has `found` what is damaged, in the plan.

    `limit` bounds what one batch may decompress to, in bytes; `lost_markers` is OPEN or ABORTED (of
    kdump.mend.lost_markers). Raises OSError.
    """
    unclean = as_if_killed(startup)
    attempt = _Attempt(log, unclean, found, limit, lost_markers)
    outcome = attempt.load()
    dropped = attempt.dropped(outcome)
    if dropped.batches and attempt.has_swaps:
        other = _Attempt(log, unclean, found, limit, lost_markers, turns_swaps=True)
        other_outcome = other.load()
        other_dropped = other.dropped(other_outcome)
        if other_outcome.ok and other_dropped.records < dropped.records:
            attempt, outcome, dropped = other, other_outcome, other_dropped
    files = attempt.files
    kept = without_markers(holding(log, outcome), attempt.markers)
    if files.cuts or files.given_up or files.swap_loss.batches or dropped.batches or not outcome.ok:
        kafkas = load_log(log, unclean)
        kafka_keeps, kafka_drops = (holding(log, kafkas), kafkas.loss) if kafkas.ok else (None, None)
    else:  # nothing is in the way of a broker
        kafka_keeps, kafka_drops = kept, Loss()
    return Salvaged(
        outcome,
        tuple(files.cuts),
        kept,
        kafka_keeps,
        tuple(attempt.markers),
        tuple(open_txns(log, outcome)),
        tuple(files.given_up),
        dropped,
        kafka_drops,
        files.swap_loss,
    )


class _Attempt:
    """The files with everything taken out of them that was found to be in the way so far."""

    def __init__(
        self,
        log: PartitionLog,
        startup: Startup,
        found: Survey,
        limit: int,
        lost_markers: LostMarkers,
        *,
        turns_swaps: bool = False,
    ) -> None:
        """`turns_swaps`: what waits to replace segments is treated in the other way than it would be."""
        self.log = log
        self.startup = startup
        self.files = SalvagedFiles(log, found, limit, startup.config)
        self.markers: list[NewMarker] = []
        self.has_swaps = False
        self._turns_swaps = turns_swaps
        self._unsound = sorted(found.unsound)
        self._lost_markers = lost_markers

    def load(self) -> LoadOutcome:
        """Prepare the files and load them until that succeeds, or nothing is left to try. Raises OSError."""
        failure = self._prepare()
        if failure:
            return LoadOutcome(tuple(self.files.steps), failure)
        for _ in range(MAX_ATTEMPTS):
            outcome = load_log(self.log, self.startup, self.files.directory.copy())
            failure = outcome.failure
            if not (self._leave_out_what_fails(failure) if failure else self._amend(outcome)):
                break
        outcome = at_rest(self.log, self.startup, self.files.directory, outcome)
        return outcome._replace(steps=(*self.files.steps, *outcome.steps))

    def dropped(self, outcome: LoadOutcome) -> Loss:
        """Return the valid batches that go, as the guard of all changes counts them. Raises OSError, RefusedError."""
        if outcome.files is None:
            return Loss()
        plan = make_plan(self.log.path, outcome.files, reasons(outcome), outcome.present)
        lost = dropped_batches(plan.path, plan.operations, plan.recipes).lost
        return Loss(0, 0, *lost)

    def _prepare(self) -> Failure | None:
        self.has_swaps = self.files.sort_out_swaps(turns=self._turns_swaps)
        failure = self._clear_leftovers()
        while failure is not None and self._leave_out_what_fails(failure):
            failure = self._clear_leftovers()
        if failure is None:
            self._leave_out_metadata()
            self._leave_out_unsound()
            self._name_logs()
            self.files.sort_out_logs()
            self.files.put_indexes()
        return failure

    def _clear_leftovers(self) -> Failure | None:
        try:
            clear_leftovers(self.files.directory, self.startup.config, self.files.steps)
        except LoadError as error:
            return Failure(error.exception, str(error), error.file, error.takes_directory_offline)
        return None

    def _leave_out_unsound(self) -> None:
        """Take out the snapshots that contradict the log: loading makes them again from it."""
        for name in self._unsound:
            if self.files.directory.exists(name) and parse_file_name(name).kind == names.PRODUCER_SNAPSHOT:
                self.files.leave_out_file(name, "it contradicts the log")

    def _name_logs(self) -> None:
        """Give a log whose name has not the digits that a broker reads its segment by that name, if none has it."""
        for base, name in self.files.logs():
            right = file_name(base, names.LOG)
            if name != right and not self.files.directory.exists(right):
                self.files.rename_file(name, right, "a broker reads the segment under this name alone")
            elif name != right:
                self.files.leave_out_file(name, f"a broker reads {right} in its place")

    # --- what loading fails over -------------------------------------------------------------------------------------

    def _leave_out_what_fails(self, failure: Failure) -> bool:
        """Take out what an attempt at loading failed over; whether there is something to take out."""
        name = failure.file
        if not self.files.directory.exists(name):
            return False
        if failure.batch is not None:
            return self.files.leave_out_batch(name, *failure.batch, failure.text)
        parsed = parse_file_name(name)
        if parsed.kind == names.LOG and parsed.offset is not None:
            return False
        is_misnamed = failure.exception == NUMBER_FORMAT and parsed.offset is None
        self.files.leave_out_file(name, "the name does not begin with an offset" if is_misnamed else failure.text)
        return True

    # --- what loading does not mind, but should ----------------------------------------------------------------------

    def _amend(self, outcome: LoadOutcome) -> bool:
        """Change what a successful attempt shows to be wrong; whether there was something. Raises OSError."""
        if self._drops_all_for_log_start(outcome):
            self.startup = self.startup._replace(log_start_offset=0)
            return True
        return self._leave_out_snapshots(outcome) or self._leave_out_epochs(outcome) or self._end_txns()

    def _leave_out_snapshots(self, outcome: LoadOutcome) -> bool:
        """Take out the producer snapshots that cannot be read, before or after loading; whether there were some."""
        bad = []
        for name in self.files.directory.names():
            if parse_file_name(name).kind == names.PRODUCER_SNAPSHOT:
                try:
                    decode_producer_snapshot(self.files.directory.read(name))
                    decode_producer_snapshot(directory_after_load(self.log, outcome).read(name))
                except KdumpError as error:
                    bad.append((name, str(error)))
                except KeyError:  # loading removes it
                    continue
        for name, why in bad:
            self.files.leave_out_file(name, why)
        return bool(bad)

    def _leave_out_epochs(self, outcome: LoadOutcome) -> bool:
        """Take out the leader epochs with which loading ends in others than those of the batches."""
        name = names.LEADER_EPOCH_CHECKPOINT
        if not self.files.directory.exists(name) or not self.startup.config.has_epochs:
            return False
        contradiction = epoch_contradiction(self.log, outcome)
        if contradiction:
            self.files.leave_out_file(name, contradiction)
        return contradiction is not None

    def _end_txns(self) -> bool:
        """Put markers in for the transactions that lost theirs; whether there were some. Raises OSError."""
        if not self.files.cuts:
            return False
        gaps, still_open = find_gaps(self.files.directory, self.files.removed)
        markers = proven_markers(gaps, aborted_txns(self.log))
        if not markers and self._lost_markers == ABORTED:
            markers = aborting_markers(gaps, still_open)
        if len(self.markers) + len(markers) > MAX_MARKERS:
            return False
        put(self.files.directory, markers)
        self.files.steps += [Step(INSERT, each.gap.name, str(each), position=each.gap.position) for each in markers]
        self.markers += markers
        return bool(markers)

    def _drops_all_for_log_start(self, outcome: LoadOutcome) -> bool:
        point = self.startup.log_start_offset
        left = (outcome.files or {}).items()
        has_data = any(recipe.size for name, recipe in left if parse_file_name(name).kind == names.LOG)
        if not point or outcome.log_end_offset != point or has_data:
            return False
        if not any(self.files.directory.size(name) for _, name in self.files.logs()):
            return False
        why = f"the log start offset {point} is above the log end offset: it is treated as 0"
        self.files.steps.append(Step(WARN, names.LOG_START_CHECKPOINT, why))
        return True

    def _leave_out_metadata(self) -> None:
        """Leave out a partition.metadata that cannot be read (repair.partition_metadata writes it). Raises OSError."""
        name = names.PARTITION_METADATA
        if self.files.directory.exists(name):
            try:
                parse_partition_metadata(self.files.directory.read(name), name)
            except KdumpError as error:
                self.files.leave_out_file(name, str(error))

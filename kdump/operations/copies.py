"""The copies of partitions that several brokers have, as findings and as what needs somebody.

    check = CopyCheck(paths, now)
    for found in check.partitions():
        yield from copy_findings(found)

The comparison is that of kdump.operations.replicas. Nothing is written.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain

from kdump.check.options import Options
from kdump.disk.pace import Pace
from kdump.disk.reading import is_directory
from kdump.errors import KdumpError
from kdump.findings.finding import Finding, found
from kdump.findings.kind import NOTHING, Remedy
from kdump.findings.limit import FindingLimit
from kdump.formats.words import number_words, offset_range
from kdump.operations.actions import Action, Stake
from kdump.operations.compared import Copy, PartitionReplicas, Verdict
from kdump.operations.diagnosis import Diagnosis
from kdump.operations.replicas import Replicas
from kdump.replication.choice import Choice
from kdump.replication.loss import Figures
from kdump.replication.summary import Difference, Outlook, Span, differences, outlook
from kdump.storage.directory import LogDirectory
from kdump.storage.open import open_directory
from kdump.storage.partition import PartitionLog

_CODES = {
    Difference.OTHER_EPOCH: "KD-COPY-EPOCH",
    Difference.OTHER_BYTES: "KD-COPY-BYTES",
    Difference.MISSING: "KD-COPY-MISSING",
}
_BY_CLEANERS = (Difference.OTHER_BYTES, Difference.MISSING, Difference.ONLY_HERE)
"""Differences that copies of a compacted topic have by right."""


@dataclass(slots=True)
class CopiesSeen:
    """How many partitions several brokers have, and how their copies compare; `left` were not compared any more."""

    brokers: tuple[int, ...] = ()
    partitions: int = 0
    behind: int = 0
    differing: int = 0
    left: int = 0


@dataclass(slots=True)
class CopyCheck:
    """Compares the copies in log directories and partition directories; files among the paths have none.

    `now` is the brokers' clock in ms, `deadline` (time.monotonic) when to begin no further partition; `pace` and
    `since_checkpoint` are as for Replicas. What cannot be read is left out: whoever reads the logs themselves says it.
    """

    paths: Iterable[str]
    now: int
    deadline: float | None = None
    pace: Pace | None = None
    since_checkpoint: bool = False
    seen: CopiesSeen = field(default_factory=CopiesSeen)

    def partitions(self) -> Iterator[PartitionReplicas]:
        """Yield the partitions of which several brokers have a copy, by topic and number."""
        places = list(_places(self.paths))
        if len(places) < 2:
            return
        pace, begins = self.pace, self.since_checkpoint
        replicas = Replicas(places, self.now, lambda _problem: None, pace=pace, since_checkpoint=begins)
        self.seen.brokers = replicas.brokers
        for number, result in enumerate(replicas.partitions(is_shared=True, goes_on=self._goes_on)):
            self.seen.partitions = number + 1
            self.seen.behind += result.verdict is Verdict.BEHIND
            self.seen.differing += result.verdict is Verdict.DIFFERS
            yield result
        self.seen.left = replicas.left

    def _goes_on(self) -> bool:
        return self.deadline is None or time.monotonic() < self.deadline


def _places(paths: Iterable[str]) -> Iterator[LogDirectory | PartitionLog]:
    for path in paths:
        try:
            if is_directory(path):
                yield open_directory(path)
        except (KdumpError, OSError):
            continue


# --- how copies differ -----------------------------------------------------------------------------------------------


def sight_of(replicas: PartitionReplicas) -> Outlook:
    """Return what the leaders among the brokers that were given may lose."""
    return outlook(replicas.known_choices, replicas.compared, replicas.state)


def reference_of(sight: Outlook) -> int:
    """Return the number of the copy that the others are compared with."""
    return (sight.best.leader.number or 0) if sight.best else 0


def spans_of(replicas: PartitionReplicas, number: int, reference: int) -> tuple[Span, ...]:
    """Return how a copy differs from the reference, without what cleaners of a compacted topic do by right."""
    pair = replicas.compared.pair(reference, number)
    spans = differences(pair, replicas.copies[number].contents)
    front = replicas.missing_front(replicas.copies[number], replicas.copies[reference])
    if front is not None:
        spans = (Span(Difference.MISSING, *front), *spans)
    keys = replicas.keys.get((min(number, reference), max(number, reference)))
    if keys is None or not keys.is_equivalent:
        return spans
    return tuple(span for span in spans if span.kind not in _BY_CLEANERS or span.first >= keys.end)


# --- findings --------------------------------------------------------------------------------------------------------


def copy_findings(replicas: PartitionReplicas) -> Iterator[Finding]:
    """Yield what is wrong between the copies. That one is only behind, or damaged (which its own log shows), is not."""
    sight = sight_of(replicas)
    reference = reference_of(sight)
    best = replicas.copies[reference]
    heal = Remedy("repair", ("--from", best.path), "restores what this copy lacks")
    for number, copy in enumerate(replicas.copies):
        if number == reference:
            continue
        keys = replicas.keys.get((min(number, reference), max(number, reference)))
        has_other_keys = keys is not None and keys.is_equivalent is False
        if keys is not None and has_other_keys:
            text = f"the latest records of {keys.differing} of {keys.keys} keys are others than in {best.path}"
            yield found("KD-COPY-KEYS", copy.path, text, offset=min(keys.offsets, default=None))
        for span in spans_of(replicas, number, reference):
            if has_other_keys and span.kind in _BY_CLEANERS:
                continue  # which of them a cleaner left by right, nothing tells
            one = _of_span(span, copy, best)
            if one is not None:
                yield one._replace(ways=(heal,)) if number in sight.to_heal else one
    for broker in replicas.absent:
        if replicas.state is not None and broker in (*replicas.state.isr, *replicas.state.elr):
            text = f"broker {broker} is in sync by the cluster's metadata, and has no directory of it"
            yield found("KD-COPY-ABSENT", best.path, text)


def findings_between(check: CopyCheck, options: Options) -> Iterator[Finding]:
    """Yield the findings of a check that are wanted, so many of one code of one copy as are asked for."""
    limit = FindingLimit(options.max_per_code)
    for replicas in check.partitions():
        for finding in chain(limit.first(copy_findings(replicas)), limit.rest()):
            wanted = options.filter.apply(finding)
            if wanted is not None:
                yield wanted


def _of_span(span: Span, copy: Copy, best: Copy) -> Finding | None:
    offsets = offset_range(span.first, span.last)
    if span.kind is Difference.ONLY_HERE:
        if span.last >= best.contents.end_offset:
            return None  # the other one is behind
        return found("KD-COPY-MISSING", best.path, f"offsets {offsets} are missing, {copy.path} has them",
                     offset=span.first, offsets=(span.first, span.last))  # fmt: skip
    texts = {
        Difference.OTHER_EPOCH: f"offsets {offsets} are other records than in {best.path}{_epochs(span, copy, best)}",
        Difference.OTHER_BYTES: f"offsets {offsets} have other bytes than in {best.path}, of the same leader epoch",
        Difference.MISSING: f"offsets {offsets} are missing, {best.path} has them",
    }
    code = _CODES.get(span.kind)
    if code is None:
        return None
    return found(code, copy.path, texts[span.kind], offset=span.first, offsets=(span.first, span.last))


def _epochs(span: Span, copy: Copy, best: Copy) -> str:
    here, there = (_epoch_at(each, span.first) for each in (copy, best))
    return "" if here is None or there is None else f": leader epoch {here} here, {there} there"


def _epoch_at(copy: Copy, offset: int) -> int | None:
    """Return the leader epoch of an offset of a copy that was loaded."""
    epochs = [entry.epoch for entry in copy.log.epochs if entry.start_offset <= offset] if copy.log else []
    return epochs[-1] if epochs else None


# --- what needs somebody ---------------------------------------------------------------------------------------------


def heals_of(replicas: PartitionReplicas) -> dict[str, str]:
    """Return the copies that can be given back what they lack, and the copy to take it from, by their paths."""
    sight = sight_of(replicas)
    source = replicas.copies[reference_of(sight)].path
    return {replicas.copies[number].path: source for number in sight.to_heal}


def heal_action(path: str, source: str) -> Action:
    """Return the way out that takes what a copy lacks from another one."""
    return Action("Restores what this copy lacks.", ("kdump", "repair", path, "--from", source))


def copies_diagnosis(replicas: PartitionReplicas) -> Diagnosis | None:
    """Return what needs somebody: copies that differ, or a leader that may come and has not what others have.

    Without the cluster's metadata a copy that is only behind needs nobody, for it may be out of sync.
    """
    sight = sight_of(replicas)
    findings = tuple(copy_findings(replicas))
    losing = [each for each in sight.risky if each.loss.figures.lost] if replicas.state is not None else []
    if not findings and not losing:
        return None
    title = "copies differ" if findings else "a replica that may lead lacks records"
    # of a leader without a copy it is the first copy there is
    path = findings[0].path if findings else replicas.copies[losing[0].leader.number or 0].path
    ranges = [lost for each in losing for lost in each.loss.ranges]
    offsets = (min(each.first for each in ranges), max(each.last for each in ranges)) if ranges else None
    stake = _stake(findings, losing)
    actions = tuple(_actions(replicas, sight))
    return Diagnosis(
        stake, title, (path,), findings[:2], offsets=offsets, actions=actions, findings=findings, copies=replicas
    )


def _stake(findings: tuple[Finding, ...], losing: list[Choice]) -> Stake:
    if any(each.loss.figures.committed for each in losing):
        return Stake.COMMITTED
    if losing:
        return Stake.RECORDS
    serves_other = any(finding.code != "KD-COPY-EPOCH" for finding in findings)
    return Stake.ANSWERS if serves_other else Stake.OTHER


def lost_words(figures: Figures) -> str:
    """Return how much is lost."""
    return number_words(figures.lost, "key" if figures.are_keys else "record")


def _actions(replicas: PartitionReplicas, sight: Outlook) -> Iterator[Action]:
    best = sight.best
    paths = [copy.path for copy in replicas.copies]
    if best is not None and best.loss.figures.lost and best.leader.broker is not None:
        leader = ("--leader", str(best.leader.broker))
        text = "No choice of leader keeps everything: writes down what the best one loses."
        yield Action(text, ("kdump", "export", "--lost", *leader, *paths, "--to", "DIR"))
    for path, source in heals_of(replicas).items():
        yield heal_action(path, source)
    if best is not None and best.leader.broker is not None and sight.risky and not sight.is_healed:
        loses = lost_words(best.loss.figures) if best.loss.figures.lost else NOTHING
        yield Action(f"Shows how to make broker {best.leader.broker} lead.", ("kdump", "replicas", *paths), loses)
    else:
        yield Action("Shows who may lead and what each choice loses.", ("kdump", "replicas", *paths))

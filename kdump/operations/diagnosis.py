"""What needs somebody: what a start and a verification show, joined, with what is at stake and what to do.

Findings of one partition that have one cause are one diagnosis; equal ones of several partitions are merged.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto

from kdump.findings import remedies as ways
from kdump.findings.catalogue import CATALOGUE
from kdump.findings.explanations import EXPLANATIONS, Sentence
from kdump.findings.finding import Finding
from kdump.findings.kind import SEVERITIES, BrokerEffect, FindingKind, Severity
from kdump.formats.names import is_partition_dir, parse_file_name, parse_partition_dir
from kdump.formats.words import number_words, offset_range
from kdump.mend.decision import Decision
from kdump.mend.replicas import Replicas
from kdump.operations.actions import COMMITTED_CODES, Action, Stake, action_of, log_actions
from kdump.operations.compared import PartitionReplicas
from kdump.operations.startup import Loaded
from kdump.recovery.outcome import Failure, LoadOutcome, Step, StepKind
from kdump.retention.doubts import Doubt, DoubtReason


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """One thing that needs somebody.

    `offsets` are those at stake (absolute, inclusive), None where nothing tells them. `shown` is what tells it:
    findings, and what else a start says. `of_broker` is what the broker does. `needs_replicas`: where else the
    partition is matters for what to do; `replicas` is None where no cluster metadata tells it. `paths` are the
    partitions that have the same; the others' own offsets are not kept.
    `copies` are those of several brokers, where it is about how they compare.
    """

    stake: Stake
    title: str
    paths: tuple[str, ...]
    shown: tuple[Finding | str, ...] = ()
    of_broker: Sentence | None = None
    consumers: str = ""
    offsets: tuple[int, int] | None = None
    needs_replicas: bool = False
    replicas: Replicas | None = None
    actions: tuple[Action, ...] = ()
    findings: tuple[Finding, ...] = ()
    failure: Failure | None = None
    copies: PartitionReplicas | None = None

    @property
    def found(self) -> tuple[str, ...]:
        """What was found, in sentences."""
        return tuple(each.message if isinstance(each, Finding) else each for each in self.shown)

    @property
    def broker(self) -> str:
        """What the broker does, in sentences; empty where that is not known."""
        return str(self.of_broker or "")

    @property
    def codes(self) -> tuple[str, ...]:
        """The codes of its findings, the weightiest first."""
        return tuple(dict.fromkeys(finding.code for finding in self.findings))

    @property
    def severity(self) -> Severity:
        """That of its weightiest finding; what stops a broker is an error."""
        found = {Severity(finding.severity) for finding in self.findings}
        return min(found, key=SEVERITIES.index, default=Severity.ERROR)

    @property
    def extent(self) -> int:
        """How many offsets are at stake, as far as anything tells them."""
        return 0 if self.offsets is None else self.offsets[1] - self.offsets[0] + 1

    @property
    def key(self) -> tuple[object, ...]:
        """What equal diagnoses of several partitions have in common."""
        loses = tuple((action.condition, action.loses) for action in self.actions)
        return self.stake, self.title, self.codes, self.replicas, loses, self.failure is not None


Decide = Callable[[str], Decision | None]
"""Finds out what has to be decided about a damaged partition."""
Locate = Callable[[str], Replicas | None]
"""Finds out where else a partition is."""

_ASIDE_CODES = frozenset({"KD-DIR-UNASSIGNED", "KD-META-TOPIC-CLUSTER", "KD-META-PARTITION-MISSING"})


class _Family(Enum):
    """Findings that are one thing together; each other code is a family of its own."""

    LOG = auto()
    INDEX = auto()
    ASIDE = auto()


_FAMILIES: dict[DoubtReason, _Family | str] = {
    DoubtReason.TIME_INDEX: _Family.INDEX,
    DoubtReason.UNIT: "KD-TIME-UNIT",
    DoubtReason.LOG_START: "KD-CKPT-ORDER",
    DoubtReason.LOG_DAMAGE: "",
    DoubtReason.ZEROS: "",
}
"""Findings about what retention goes by, for each reason to doubt it; the log has entries of its own."""

_STAKES = {
    BrokerEffect.REFUSES: Stake.START,
    BrokerEffect.GOES_OFFLINE: Stake.DISK,
    BrokerEffect.SETS_ASIDE: Stake.SERVICE,
    BrokerEffect.TRUNCATES: Stake.RECORDS,
    BrokerEffect.HIDES: Stake.RECORDS,
    BrokerEffect.SERVES_WRONG_DATA: Stake.ANSWERS,
    BrokerEffect.STALLS: Stake.CONSUMERS,
    BrokerEffect.BLOCKS_RETENTION: Stake.CONSUMERS,
    BrokerEffect.BLOCKS_COMPACTION: Stake.CONSUMERS,
}
_REBUILDS = {StepKind.WRITE, StepKind.TRIM, StepKind.CREATE, StepKind.DELETE, StepKind.RENAME}


def diagnoses_of(
    path: str, loaded: Loaded | None, findings: Sequence[Finding], locate: Locate, decide: Decide
) -> Iterator[Diagnosis]:
    """Yield what needs somebody in a partition, or in a log directory as such (`loaded` is None then)."""
    rebuilt = _rebuilt_by_start(loaded)
    weighty = [
        each
        for each in findings
        if _needs_somebody(each) and (each.path not in rebuilt or each.code == "KD-FILE-SWAP-DAMAGED")
    ]
    families: dict[_Family | str, list[Finding]] = {}
    for finding in weighty:
        families.setdefault(_family_of(finding.code), []).append(finding)
    if loaded is not None:
        if loaded.outcome.failure is not None:
            yield of_failure(path, loaded.outcome.failure, weighty)
            return
        for doubt in loaded.expiring:
            yield _of_expiring(loaded, doubt, families.pop(_FAMILIES[doubt.reason], []))
        codes = {each.code for each in weighty}  # what the start drops may all follow from one of them
        is_known = "KD-CKPT-LOG-START" in codes or ("KD-FILE-SWAP-DAMAGED" in codes and _drops_by_swap(loaded.outcome))
        if not is_known and (loaded.loses_by_loading or loaded.committed_missing):
            is_index = loaded.outcome.hides
            families.setdefault(_Family.INDEX if is_index else _Family.ASIDE if loaded.stray else _Family.LOG, [])
    for family, found in families.items():
        found.sort(key=_weight)
        if family is _Family.LOG:
            diagnosis = _of_log(path, loaded, found, locate, decide)
        else:
            diagnosis = _of_family(path, loaded, found, family)
        if diagnosis is not None:
            yield diagnosis


def merged(diagnoses: Iterable[Diagnosis]) -> list[Diagnosis]:
    """Return diagnoses by what is at stake; those equal in several partitions as one, with the first one's details."""
    by_key: dict[tuple[object, ...], Diagnosis] = {}
    for each in sorted(diagnoses, key=lambda each: (each.stake, _order(each.paths[0]))):
        first = by_key.get(each.key)
        by_key[each.key] = each if first is None else replace(first, paths=first.paths + each.paths)
    return sorted(by_key.values(), key=lambda each: (each.stake, -each.extent))


def _order(path: str) -> tuple[str, str, int, str]:
    folder, name = os.path.split(path)
    if not is_partition_dir(name):
        return path, "", -1, ""
    parsed = parse_partition_dir(name)
    return folder, parsed.topic, parsed.partition, name


def _family_of(code: str) -> _Family | str:
    kind = CATALOGUE[code]
    if code.startswith(("KD-LOG-", "KD-BATCH-")) or code in COMMITTED_CODES:
        return _Family.LOG
    if code in _ASIDE_CODES:
        return _Family.ASIDE
    return _Family.INDEX if kind.remedies is ways.INDEX else code


def _weight(finding: Finding) -> tuple[bool, bool, Stake, int]:
    is_error = finding.severity == Severity.ERROR
    return not is_error, finding.code in COMMITTED_CODES, _stake(finding.kind, finding.effect), finding.position or 0


def _stake(kind: FindingKind, effect: BrokerEffect | None = None) -> Stake:
    return _STAKES.get(effect or kind.effect, Stake.OTHER)


def _needs_somebody(finding: Finding) -> bool:
    """Return whether there is something to do about a finding, at least to look at it."""
    return finding.severity == Severity.ERROR or (finding.severity == Severity.WARNING and bool(finding.remedies))


def _rebuilt_by_start(loaded: Loaded | None) -> set[str]:
    """Return what the broker puts right by itself at start: files beside the logs, and logs that end in zeros only."""
    if loaded is None or not loaded.outcome.ok:
        return set()
    return {os.path.join(loaded.path, step.file) for step in loaded.outcome.steps if _puts_right(step)}


def _drops_by_swap(outcome: LoadOutcome) -> bool:
    """Return whether a start drops batches only with segments that it deletes for a .swap."""
    return all(step.action == StepKind.DELETE for step in outcome.steps if step.loss and step.loss.batches)


def _puts_right(step: Step) -> bool:
    if parse_file_name(step.file).is_live_log:
        return step.action == StepKind.TRUNCATE and step.loss is not None and not step.loss.has_data
    return step.action in _REBUILDS


_WITHOUT_START = {ways.FETCH: ways.REPLICA, ways.LEAVE_CHECKPOINT: ways.MOVE_CHECKPOINT}
"""What to do where a way out counts on a broker that starts."""


def of_failure(path: str, failure: Failure, findings: Sequence[Finding]) -> Diagnosis:
    """Return a start that fails, with the findings about the same file.

    No way out may wait for what the broker does once it has started.
    """
    stake = Stake.DISK if failure.offline else Stake.START
    title = "log directory goes offline" if failure.offline else "broker does not start"
    text = f"{failure.exception}: {failure.text}"
    remedies = findings[0].remedies if findings else failure.remedies
    actions = tuple(action_of(_WITHOUT_START.get(each, each), path) for each in remedies)
    if not actions:
        actions = (Action("shows the file and the place", ("kdump", "startup", path)),)
    broker = "takes the log directory offline. Its other disks work." if failure.offline else "does not start."
    shown: list[Finding | str] = [text]
    shown += (finding for finding in findings[:2] if finding.message not in text)
    return Diagnosis(
        stake, title, (path,), tuple(shown), Sentence("", broker), actions=actions, findings=tuple(findings),
        failure=failure,
    )  # fmt: skip


def _of_family(path: str, loaded: Loaded | None, findings: list[Finding], family: _Family | str) -> Diagnosis | None:
    """Return what has nothing to do with batches of the log: indexes, transactions, directories, timestamps."""
    hiding = loaded if loaded and loaded.outcome.hides and family is _Family.INDEX else None
    code = findings[0].code if findings else "KD-IDX-OFFSET" if hiding else "KD-DIR-UNASSIGNED"
    kind, known = CATALOGUE[code], EXPLANATIONS[code]
    stake = _stake(kind)
    if family is _Family.ASIDE and loaded is not None and loaded.stray:
        stake = Stake.SERVICE
    if hiding:
        stake = Stake.COMMITTED if hiding.committed_missing else Stake.RECORDS
    shown: list[Finding | str] = [*findings[:2]]
    if len(findings) > 2:
        shown.append(f"and {len(findings) - 2} more in this partition")
    if not shown and loaded is not None and loaded.stray:
        shown = [loaded.stray]
    remedies = findings[0].remedies if findings else kind.remedies
    actions = tuple(action_of(remedy, path) for remedy in remedies)
    return Diagnosis(
        stake, known.title, (path,), tuple(shown), _hidden_words(hiding.outcome) if hiding else known.of_broker,
        known.consumers, _offsets_at_stake(hiding), actions=actions, findings=tuple(findings),
    )  # fmt: skip


def _of_expiring(loaded: Loaded, doubt: Doubt, findings: list[Finding]) -> Diagnosis:
    """Return what retention deletes soon after the start, with the findings about what decides it."""
    findings.sort(key=_weight)
    first, last = doubt.first, doubt.stop - 1
    is_committed = loaded.high_watermark is not None and first < loaded.high_watermark
    actions = [Action(f"{doubt.advice}.", doubt.command)]
    if doubt.deletes:
        words = ("kdump", "retain", loaded.path, "--log-start-offset", str(doubt.stop))
        actions.append(Action("Deletes them all the same.", words, offset_range(first, last)))
    said = f"deletes {offset_range(first, last)} at its first check of retention, minutes after the start."
    return Diagnosis(
        Stake.COMMITTED if is_committed else Stake.RECORDS, "retention deletes records", (loaded.path,),
        (doubt.text, *findings[:1]), Sentence("", said), "", (first, last), actions=tuple(actions),
        findings=tuple(findings),
    )  # fmt: skip


def _hidden_words(outcome: LoadOutcome) -> Sentence:
    loss, end = outcome.loss, outcome.log_end_offset
    batches = number_words(loss.batches, "valid batch", "valid batches")
    offsets = offset_range(loss.first_offset, loss.last_offset)
    said = f"treats offset {end} as the log end, and gives the offsets of {batches} ({offsets}) to new records."
    return Sentence("", said)


def _of_log(
    path: str, loaded: Loaded | None, findings: list[Finding], locate: Locate, decide: Decide
) -> Diagnosis | None:
    """Return what is wrong with the batches of a log, or with how many of them there are."""
    code = findings[0].code if findings else "KD-LOG-TORN"
    known = EXPLANATIONS[code]
    offsets = _offsets_at_stake(loaded)
    loses = loaded is not None and loaded.loses_by_loading
    is_damage = loses or any(finding.severity == Severity.ERROR for finding in findings)
    decision = decide(path) if is_damage else None
    if offsets is None and decision is not None:
        offsets = _damaged_offsets(decision)
    replicas = locate(path)
    mark = loaded.high_watermark if loaded else None
    if offsets is not None and mark is not None and offsets[0] < mark:
        stake = Stake.COMMITTED
        offsets = offsets[0], max(offsets[0], min(offsets[1], mark - 1))
    elif is_damage:
        stake = Stake.RECORDS
    else:
        stake = max(Stake.ANSWERS, _stake(CATALOGUE[code]))
    title = known.title if findings else "log is cut"
    shown: Sequence[Finding | str] = [finding for finding in findings if finding.severity == Severity.ERROR][:2]
    if loaded is not None and not shown:
        shown = [f"{step.file}: {step.why}" for step in loaded.outcome.steps if step.action in _CUTS][:1]
    is_cut = loaded is not None and (loaded.outcome.loss.has_data or loaded.committed_missing is not None)
    actions = tuple(log_actions(path, code, offsets, stake, replicas, decision, is_cut=is_cut))
    return Diagnosis(
        stake, title, (path,), tuple(shown or findings[:1]),
        _cut_words(loaded) or known.of_broker, known.consumers, offsets, True, replicas, actions, tuple(findings),
    )  # fmt: skip


_CUTS = {StepKind.TRUNCATE, StepKind.EMPTY, StepKind.DROP}


def _offsets_at_stake(loaded: Loaded | None) -> tuple[int, int] | None:
    """Return the offsets that the start would take away, or that are gone already; None without any."""
    if loaded is None or not loaded.outcome.ok:
        return None
    loss, end = loaded.outcome.loss, loaded.outcome.log_end_offset
    last = -1 if loss.last_offset is None else loss.last_offset
    if loaded.committed_missing:
        last = max(last, loaded.committed_missing[1])
    return (end, last) if last >= end else None


def _damaged_offsets(decision: Decision) -> tuple[int, int] | None:
    known = [each.offsets for each in decision.damaged]
    firsts = [first for first, _ in known if first is not None]
    lasts = [last for _, last in known if last is not None]
    return (min(firsts), max(lasts)) if firsts and lasts and min(firsts) <= max(lasts) else None


def _cut_words(loaded: Loaded | None) -> Sentence | None:
    """Return what the start does to the log; None where it leaves it alone."""
    if loaded is None or not loaded.outcome.ok:
        return None
    outcome = loaded.outcome
    said = ""
    if outcome.loss.has_data:
        said = f"cuts the log at offset {outcome.log_end_offset}"
        if outcome.loss.batches:
            batches = number_words(outcome.loss.batches, "valid batch", "valid batches")
            first, last = outcome.loss.first_offset, outcome.loss.last_offset
            said += f" and drops {batches} ({offset_range(first, last)})"
        said += "."
    if loaded.committed_missing:
        said += f" High watermark {loaded.high_watermark} becomes {outcome.log_end_offset}."
    return Sentence("", said.strip()) if said else None

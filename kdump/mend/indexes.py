"""Indexes rebuilt from their logs: those that verification calls unsound, or all of them.

A sound index stays as it is, though a rebuild would write another one: Kafka up to 1.1 put a batch's first offset into
it, and appends of several batches, followers and the cleaner write fewer entries.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping

from kdump.change.plan import KINDS, Plan, make_plan
from kdump.findings.kind import NOTE
from kdump.formats import names
from kdump.formats.names import parse_file_name
from kdump.mend.as_broker import as_if_killed, reasons
from kdump.mend.survey import TAIL, Survey, beside, survey
from kdump.mend.task import Task, first_damage, not_rebuilt
from kdump.recovery.loader import load_log
from kdump.recovery.outcome import LoadOutcome
from kdump.recovery.startup import Startup
from kdump.storage.open import check_has_kafka_files
from kdump.storage.partition import PartitionLog
from kdump.storage.planned import PlannedPartition
from kdump.storage.recipe import NewContent, Recipe, SourceBytes

_NO_PART_OF_INDEXES = (names.PRODUCER_SNAPSHOT, names.LEADER_EPOCH_CHECKPOINT, names.PARTITION_METADATA)

_ENDS_RECOVERY = TAIL | {"KD-LOG-CRC", "KD-LOG-MAGIC"}
"""Damage at which recovery cuts a log for certain; of other damage, the attempt tells."""


def examine_indexes(
    log: PartitionLog,
    startup: Startup,
    kinds: frozenset[str],
    bases: frozenset[int] | None,
    *,
    wants_all: bool = False,
) -> Task:
    """Return what it takes to rebuild the unsound indexes; only of segments with these base offsets, unless None.

    `kinds` are some of INDEX_KINDS. `wants_all`: sound ones, too, as Kafka's recovery of the whole log builds them. Of
    what is there only the .log files count. Where one of them is damaged, its indexes are a problem, and the other
    segments' are built. Raises OSError, RefusedError for a directory without Kafka files.
    """
    check_has_kafka_files(log)
    found = survey(log, startup, deep=False)
    wanted = set(_wanted(log, None if wants_all else found.unsound, kinds, bases))
    wanted |= {name for name in beside(wanted, found.noted) if parse_file_name(name).kind in _files_of(kinds)}
    damaged = _cut_by_recovery(found)
    kept = [not_rebuilt(log.path, why) for name, why in damaged.items() if _is_one(parse_file_name(name).offset, bases)]
    if not wanted:
        return Task(log.path, Plan(log.path, (), {}), problems=tuple(kept))
    files = PlannedPartition(log).files
    outcome = _recovered(log, startup, files, damaged)
    if outcome.files is None:
        return Task(log.path, None, outcome=outcome)
    plan = make_plan(log.path, outcome.files, reasons(outcome), outcome.present)
    left = {name: why for name, why in _left(log.path, files, damaged) if name in wanted}
    operations = tuple(each for each in plan.operations if each.name in wanted and each.name not in left)
    return Task(
        log.path,
        plan._replace(operations=operations),
        problems=tuple(dict.fromkeys((*kept, *left.values()))),
        outcome=outcome,
    )


def with_indexes(
    log: PartitionLog, startup: Startup, outcome: LoadOutcome, found: Survey
) -> tuple[Mapping[str, Recipe], dict[str, str]]:
    """Return the files of a log as loading leaves them, with unsound indexes rebuilt, and why each file changes.

    Those are the indexes that it takes over, or makes empty.

    Indexes of logs that recovery would change stay as they are. Raises OSError.
    """
    files, why = outcome.files or {}, reasons(outcome)
    unsound = set(_taken_over(files, found))
    if not unsound:
        return files, why
    damaged: dict[str, str] = {}
    built = _recovered(log, startup, files, damaged)
    if built.files is None:
        return files, why
    wanted = unsound - {name for name, _ in _left(log.path, files, damaged)}
    others = {name: recipe for name, recipe in files.items() if name not in wanted}
    why |= {name: text for name, text in reasons(built).items() if name in wanted}
    return others | {name: built.files[name] for name in wanted & built.files.keys()}, why


def _taken_over(files: Mapping[str, Recipe], found: Survey) -> Iterator[str]:
    """Yield the indexes that are unsound whatever name they have yet, and those a log from elsewhere lacks."""
    logs = dict(_logs(files))
    for name in sorted({*files, *found.unsound}):
        parsed, recipe = parse_file_name(name), files.get(name)
        if parsed.kind not in names.INDEX_KINDS or parsed.state != names.LIVE or parsed.offset not in logs:
            continue
        source = recipe.name if isinstance(recipe, SourceBytes) else name
        log = files.get(logs[parsed.offset])
        is_moved = isinstance(log, SourceBytes) and log.name != logs[parsed.offset]
        if source in found.unsound or (is_moved and isinstance(recipe, NewContent)):
            yield name


def _wanted(
    log: PartitionLog, unsound: frozenset[str] | None, kinds: frozenset[str], bases: frozenset[int] | None
) -> Iterator[str]:
    """Yield the names of the index files of these kinds that are unsound (None: of all), or missing."""
    suffixes = _files_of(kinds)
    for segment in log.segments:
        for suffix in suffixes if _is_one(segment.base_offset, bases) else ():
            name = names.segment_file_name(segment.base_offset, f".{suffix}")
            is_missing = name not in log.files and suffix != names.TXN_INDEX
            if unsound is None or name in unsound or (is_missing and os.path.getsize(segment.log_path)):
                yield name


def _files_of(kinds: Iterable[str]) -> list[str]:
    return [suffix for kind in kinds for suffix in KINDS[kind]]


def _logs(files: Iterable[str]) -> Iterator[tuple[int, str]]:
    """Yield the base offset of each segment, in order, and the name of its .log."""
    for base, _ in sorted(names.live_logs(files)):
        yield base, names.segment_file_name(base, f".{names.LOG}")


def _is_one(base: int | None, bases: frozenset[int] | None) -> bool:
    return bases is None or base in bases


def _cut_by_recovery(found: Survey) -> dict[str, str]:
    """Return the .log files, by name, that recovery would cut, with their first damage."""
    damaged: dict[str, str] = {}
    for each in found.damage:
        if each.code in _ENDS_RECOVERY and each.severity != NOTE:
            name = os.path.basename(each.path)
            damaged.setdefault(name, f"{name}: byte {each.position}: {each.message}")
    return damaged


def _recovered(
    log: PartitionLog, startup: Startup, files: Mapping[str, Recipe], damaged: dict[str, str]
) -> LoadOutcome:
    """Return Kafka's recovery of the logs among the planned `files` that are not damaged.

    Others that it changes or fails over are added to those.
    """
    checks = as_if_killed(startup)
    while True:
        outcome = load_log(log, checks, _only_logs(log, files, damaged))
        name, why = _stumbled(outcome, files, damaged)
        if not name or name in damaged:
            return outcome
        damaged[name] = f"{name}: {why}" if why else name


def _stumbled(outcome: LoadOutcome, files: Mapping[str, Recipe], damaged: Mapping[str, str]) -> tuple[str, str]:
    """Return the next .log that recovery changes or fails over, and why; "" where there is none."""
    failure = outcome.failure
    if failure is not None:
        is_log = parse_file_name(failure.file).kind == names.LOG and failure.file not in damaged
        return (failure.file, failure.text) if is_log else ("", "")
    if outcome.files is None:
        return "", ""
    after = outcome.files
    logs = (name for _, name in _logs({*files, *after}) if name not in damaged)
    changed = (name for name in logs if files.get(name) != after.get(name))
    return first_damage(outcome) or (next(changed, ""), "")


def _left(path: str, files: Iterable[str], damaged: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the index files that cannot be built, and why; a transaction may have begun in a damaged .log before."""
    before = ""
    for base, name in _logs(files):
        for kind in names.INDEX_KINDS:
            file = names.segment_file_name(base, f".{kind}")
            if name in damaged:
                yield file, not_rebuilt(path, damaged[name])
            elif before and kind == names.TXN_INDEX:
                yield file, not_rebuilt(path, f"{file}: what aborted transactions it has depends on {before}")
        before = name if name in damaged else before


def _only_logs(log: PartitionLog, files: Mapping[str, Recipe], damaged: Iterable[str]) -> PlannedPartition:
    """Return the planned `files` with empty indexes, and without what recovery would not use.

    That is damaged logs, what it would take from elsewhere, and what a broker would put in the place of the logs that
    are there: their indexes are asked for.
    """
    directory = PlannedPartition(log)
    directory.files = dict(files)
    without = {parse_file_name(name).offset for name in damaged}
    for name in files:
        parsed = parse_file_name(name)
        if parsed.kind == names.TXN_INDEX and parsed.state == names.LIVE:
            directory.write(name, b"")
        elif parsed.kind in _NO_PART_OF_INDEXES or parsed.state in (names.SWAP, names.CLEANED):
            directory.delete(name, "")
    for base, _ in _logs(files):
        for kind in (names.LOG, *names.INDEX_KINDS) if base in without else ():
            directory.delete(names.segment_file_name(base, f".{kind}"), "")
        # where the .index is missing, a broker recovers the segment twice
        for kind in (names.OFFSET_INDEX, names.TIME_INDEX) if base not in without else ():
            directory.write(names.segment_file_name(base, f".{kind}"), b"")
    return directory

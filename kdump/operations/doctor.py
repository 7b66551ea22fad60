"""Is it safe to start, and what first: a broker's start, its checkpoints, the cluster's metadata and a verification.

    for event in Doctor(paths, Checkup(...), circumstances, report).run(): ...

Nothing is written.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from typing import TypeVar

from kdump.check.options import Options
from kdump.check.run import Verification
from kdump.disk.reading import FileStatus, is_named, status_of
from kdump.errors import KdumpError, Problem, Report
from kdump.findings.finding import UNREAD, Finding
from kdump.findings.kind import IGNORES, SEVERITIES, Severity
from kdump.formats.names import is_partition_dir
from kdump.formats.time_units import wall_clock
from kdump.mend.decision import Decision
from kdump.mend.proposal import examine
from kdump.mend.replicas import Replicas, replicas_of
from kdump.mend.task import Request
from kdump.operations.copies import CopiesSeen, CopyCheck, copies_diagnosis, heal_action, heals_of
from kdump.operations.diagnosis import Diagnosis, diagnoses_of, merged, of_failure
from kdump.operations.started_clusters import StartedClusters
from kdump.operations.startup import BrokerStart, Loaded, StartupOptions
from kdump.recovery.broker_start import CONTROLLERS_FILES, DirectoryState
from kdump.recovery.outcome import Failure
from kdump.storage.directory import LogDirectory
from kdump.storage.live import broker_on, held, internal_errors
from kdump.storage.open import open_directory
from kdump.storage.partition import PartitionLog

_Result = TypeVar("_Result")
MAX_PER_CODE = 3
"""Findings of one code in one file that are looked at one by one: the first ones say what is wrong."""
MAX_DECISIONS = 100
"""So many damaged partitions are examined for what repair offers; the others have the ways of the catalogue."""


@dataclass(frozen=True, slots=True)
class Checkup:
    """How much to look at: `max_duration` in seconds (None: everything), `jobs` threads (0: one a core).

    `now` (ms) is the time at which ages are computed; None: when the logs were written to last. The hours for which a
    broker is down do not make a transaction a hanging one.
    """

    now: int | None = None
    max_duration: float | None = 60.0
    jobs: int = 0
    progress: Callable[[str, int], object] | None = None


@dataclass(slots=True)
class DirectoryHealth:
    """A log directory: how the broker left it, how much is in it. `size` is in bytes."""

    path: str
    state: DirectoryState
    partitions: int = 0
    size: int = 0
    has_broker: bool = False


@dataclass(slots=True)
class Health:
    """What a checkup came to.

    `stops` are why the broker does not start, `offline` the log directories that go offline, each with why.
    `diagnoses` are by what is at stake. `checked` counts bytes of logs that were verified, `size` all of them. `copies`
    is how the copies of several brokers compare. `has_reached_end`: nothing ended it early.
    """

    directories: list[DirectoryHealth] = field(default_factory=list)
    partitions: int = 0
    size: int = 0
    stops: list[Failure] = field(default_factory=list)
    offline: dict[str, Failure] = field(default_factory=dict)
    diagnoses: list[Diagnosis] = field(default_factory=list)
    needing: int = 0
    warnings: list[tuple[str, str]] = field(default_factory=list)
    rechecked: int = 0
    unread: int = 0
    segments: int = 0
    checked: int = 0
    has_reached_end: bool = True
    seconds: float = 0.0
    copies: CopiesSeen = field(default_factory=CopiesSeen)

    @property
    def is_complete(self) -> bool:
        """Whether all that was asked for was looked at."""
        return self.has_reached_end and not self.unread

    @property
    def brokers(self) -> tuple[int, ...]:
        """The ids of the brokers that the log directories are of."""
        known = (each.state.broker for each in self.directories)
        return tuple(sorted({broker.node_id for broker in known if broker and broker.node_id is not None}))

    @property
    def who(self) -> str:
        """Whose start it is, in a word: that of a `broker`, a `controller`, or `node` where there are both."""
        roles = {each.state.is_controller for each in self.directories} or {False}
        return "node" if len(roles) > 1 else "controller" if roles == {True} else "broker"

    @property
    def partitions_needing(self) -> int:
        """How many partitions need somebody."""
        paths = {path for each in self.diagnoses for path in each.paths}
        return sum(is_partition_dir(os.path.basename(path)) for path in paths)

    @property
    def starts(self) -> bool:
        """Whether the broker starts, perhaps without a disk."""
        return not self.stops

    def needs_somebody(self, least: Severity = Severity.WARNING) -> bool:
        """Return whether the broker or a disk stops, or a diagnosis is `least` or worse."""
        counted = SEVERITIES[: SEVERITIES.index(least) + 1]
        return bool(self.stops or self.offline) or any(each.severity in counted for each in self.diagnoses)


class Doctor:
    """One checkup over log directories and partition directories."""

    def __init__(self, paths: Iterable[str], checkup: Checkup, circumstances: StartupOptions, report: Report) -> None:
        self._paths = list(paths)
        self._checkup = checkup
        self._properties = circumstances.properties
        self._clusters = StartedClusters(self._paths, circumstances.properties, circumstances.now)
        self._report = report
        self._start = BrokerStart(
            circumstances, self._clusters, self._problem, are_several=not circumstances.properties
        )
        self._loaded: dict[str, Loaded] = {}
        self._decisions = 0
        self._last_written = 0
        self._heals: dict[str, str] = {}
        self.health = Health()

    def is_absent(self, path: str) -> bool:
        """Take a path at which nothing of Kafka's is; return whether that is one of the answers (BrokerStart)."""
        return self._start.is_absent(path)

    def run(self) -> Health:
        """Look at everything. Raises KdumpError and OSError for a path that is not there or is nothing of Kafka's."""
        began = time.monotonic()
        for path, place in [(path, open_directory(path)) for path in self._paths]:
            self._check_start(path, place)
        health = self.health
        self._start.end()
        health.stops, health.offline = self._start.stops, self._start.offline
        findings = self._verified(began)
        differing = list(self._compared_copies(began))
        health.diagnoses = merged(chain(map(self._with_copies, self._diagnoses(findings)), differing))
        health.needing = len({path for each in health.diagnoses for path in each.paths})
        health.seconds = time.monotonic() - began
        return health

    def _check_start(self, path: str, place: LogDirectory | PartitionLog) -> None:
        events: Iterator[DirectoryState | Loaded] = (
            self._start.directory(place) if isinstance(place, LogDirectory) else self._start.partition(path)
        )
        here: DirectoryHealth | None = None
        for event in events:
            if isinstance(event, DirectoryState):
                here = DirectoryHealth(event.path, event, has_broker=broker_on(event.path) is not None)
                self.health.directories.append(here)
                self.health.warnings += ((event.path, warning) for warning in event.warnings)
                continue
            size, written = self._size_and_time(event.path)
            self._loaded[event.path] = event
            self.health.partitions += 1
            self.health.size += size
            self._last_written = max(self._last_written, written)
            self.health.rechecked += not (event.startup.clean or (here is not None and here.state.is_controller))
            if here is not None:
                here.partitions += 1
                here.size += size

    def _verified(self, began: float) -> list[Finding]:
        """Return what a verification finds in the time there is; what was written last comes first."""
        checkup, health = self._checkup, self.health
        deadline = None if checkup.max_duration is None else began + checkup.max_duration
        options = Options(
            jobs=checkup.jobs,
            now=self._now(),
            properties=self._properties or None,
            deadline=deadline,
            newest_first=True,
            max_per_code=MAX_PER_CODE,
            progress=checkup.progress,
        )
        verification = Verification(options)
        findings = [finding for finding in verification.run(self._paths) if self._concerns_the_start(finding)]
        health.segments, health.checked = verification.segments, verification.bytes
        health.has_reached_end = verification.mark is None
        for finding in findings:
            if finding.code == UNREAD:
                self._problem(Problem(finding.path, finding.position, finding.message, is_unreadable=True))
        return [finding for finding in findings if finding.code != UNREAD or finding.broker != IGNORES]

    def _concerns_the_start(self, finding: Finding) -> bool:
        """Return whether what is found is in the way of the node: a controller does not load partitions left behind."""
        for each in self.health.directories:
            first = os.path.relpath(finding.path, each.path).partition(os.sep)[0]
            if each.state.is_controller and first != os.pardir:
                return first in CONTROLLERS_FILES
        return True

    def _compared_copies(self, began: float) -> Iterator[Diagnosis]:
        """Yield what the copies of several brokers show, in the time there is; `_heals` comes of it too."""
        most = self._checkup.max_duration
        now = self._now()
        now = wall_clock() if now is None else now
        check = CopyCheck(self._paths, now, None if most is None else began + most)
        self.health.copies = check.seen
        for replicas in check.partitions():
            self._heals |= heals_of(replicas)
            diagnosis = copies_diagnosis(replicas)
            if diagnosis is not None:
                yield diagnosis
        self.health.has_reached_end = self.health.has_reached_end and not check.seen.left

    def _with_copies(self, diagnosis: Diagnosis) -> Diagnosis:
        """Return a diagnosis of a damaged copy, with the other copy at hand as the first way out."""
        path = diagnosis.paths[0]
        if not diagnosis.needs_replicas or path not in self._heals:
            return diagnosis
        return replace(diagnosis, actions=(heal_action(path, self._heals[path]), *diagnosis.actions))

    def _diagnoses(self, findings: list[Finding]) -> Iterator[Diagnosis]:
        groups: dict[str, list[Finding]] = {}
        known = {os.path.abspath(path): path for path in self._loaded}
        for finding in findings:
            groups.setdefault(known.get(os.path.abspath(finding.group), finding.group), []).append(finding)
        blamed = {loaded.outcome.failure for loaded in self._loaded.values() if loaded.outcome.failure}
        stops = ((self._place_of(each), each) for each in self._start.stops)
        for path, failure in chain(stops, self._start.offline.items()):
            if failure not in blamed:
                same = [each for each in findings if _is_about(failure, path, each)]
                for group in groups.values():
                    group[:] = [each for each in group if not any(each is finding for finding in same)]
                yield of_failure(same[0].path if same else path, failure, same)
        for path in dict.fromkeys((*self._loaded, *groups)):
            loaded, found = self._loaded.get(path), groups.get(path, [])
            about = diagnoses_of(path, loaded, found, self._locate, self._decide)
            yield from self._tried(path, partial(list[Diagnosis], about)) or ()

    def _place_of(self, failure: Failure) -> str:
        """Return the log directory whose file keeps the broker from starting, else what the failure names."""
        directories = [each.path for each in self.health.directories]
        holders = (each.path for each in self.health.directories if failure in each.state.failures)
        places = (path for each in directories if is_named(path := os.path.join(each, failure.file)))
        return next(holders, next(places, failure.file))

    def _locate(self, path: str) -> Replicas | None:
        return self._tried(path, lambda: replicas_of(PartitionLog(path), self._clusters))

    def _decide(self, path: str) -> Decision | None:
        """Return what repair leaves to a person to decide; None where it has nothing to leave."""
        loaded = self._loaded.get(path)
        if loaded is None or self._decisions >= MAX_DECISIONS:
            return None
        self._decisions += 1

        def decision() -> Decision | None:
            with held(path) as log:
                return examine(log, loaded.startup, Request()).decision if log is not None else None

        with suppress(KdumpError):
            return self._tried(path, decision)
        return None

    def _now(self) -> int | None:
        """Return the time at which ages are computed (ms); None: that of the clock."""
        if self._checkup.now is not None:
            return self._checkup.now
        has_broker = any(each.has_broker for each in self.health.directories)
        return None if has_broker or not self._last_written else self._last_written

    def _size_and_time(self, path: str) -> tuple[int, int]:
        """Return how large a partition's logs are together (bytes), and when the last one was written to (ms)."""

        def statuses() -> list[FileStatus]:
            with held(path) as log:
                return [status_of(segment.log_path) for segment in log.segments] if log is not None else []

        found = self._tried(path, statuses) or []
        latest = max((status.modified_ns for status in found), default=0)
        return sum(status.size for status in found), latest // 1_000_000

    def _tried(self, path: str, do: Callable[[], _Result]) -> _Result | None:
        """Go on without what the system does not give, or where kdump itself fails, and say so."""
        try:
            with internal_errors(path):
                return do()
        except OSError as error:
            self._problem(Problem.unreadable(path, error))
            return None

    def _problem(self, problem: Problem) -> None:
        self.health.unread += 1
        self._report(problem)



def _is_about(failure: Failure, path: str, finding: Finding) -> bool:
    """Return whether a finding is about the file in which a start fails."""
    return finding.path in (failure.file, os.path.join(path, failure.file))

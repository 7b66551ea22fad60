"""Verify as a user asks for it: runs that make up a pass, what was verified before, and copies on several brokers."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from kdump.check.options import Options
from kdump.check.resume import NOTHING_YET, Mark, PassTotals, ResumePoint, read_resume_point, write_resume_point
from kdump.check.run import Verification
from kdump.check.state import read_state, write_state
from kdump.disk.durable import remove_file
from kdump.disk.pace import Pace
from kdump.errors import check_number
from kdump.findings.finding import UNREAD, Finding
from kdump.findings.kind import ERROR, NOTE, WARNING
from kdump.formats.time_units import wall_clock
from kdump.storage.live import is_beside_broker


class VerifyRequest(NamedTuple):
    """What is asked for beyond the checks themselves.

    After `max_duration` (seconds) no further segment is begun. `resume` is the file that keeps the place where a run
    ended, `state` the one that keeps which closed segments were verified.
    """

    max_duration: float | None = None
    resume: str | None = None
    state: str | None = None


def consideration(paths: Iterable[str], drops_pages: bool | None, has_low_priority: bool | None) -> tuple[bool, bool]:
    """Return whether a verification gives back what it has the system cache, and whether it has a low priority.

    Both as asked for; what is not said (None) is so where a broker runs on one of the paths.
    """
    is_beside = any(map(is_beside_broker, paths))
    drops = is_beside if drops_pages is None else drops_pages
    return drops, is_beside if has_low_priority is None else has_low_priority


class Verifying(Protocol):
    """A verification, wherever it is done; `mark` is where it ended early, else None."""

    mark: Mark | None
    partitions: int
    segments: int
    skipped: int
    bytes: int
    on_partition: Callable[[str], object] | None

    def run(self, paths: list[str]) -> Iterator[Finding]:
        """Return the findings."""


@dataclass
class Totals:
    """What a run came to.

    `unread` counts what could not be read, `skipped` the segments that were verified before, `uncompared` the
    partitions whose copies on other brokers there was no time for. `has_reached_end`: nothing ended the run early.
    `before` is what the earlier runs of the same pass did. `is_part`: a pass may take several runs.
    """

    counts: dict[str, int] = field(default_factory=lambda: {ERROR: 0, WARNING: 0, NOTE: 0})
    unread: int = 0
    partitions: int = 0
    segments: int = 0
    skipped: int = 0
    bytes: int = 0
    uncompared: int = 0
    seconds: float = 0.0
    has_reached_end: bool = False
    was_interrupted: bool = False
    before: PassTotals = NOTHING_YET
    is_part: bool = False
    is_deep: bool = False

    @property
    def whole(self) -> PassTotals:
        """What the pass has come to so far."""
        counts = self.counts
        found = counts[ERROR], counts[WARNING], counts[NOTE], self.unread
        now = PassTotals(1, *found, self.partitions, self.segments, self.skipped, self.bytes, round(self.seconds, 3))
        return self.before.plus(now)

    @property
    def is_complete(self) -> bool:
        """Whether all that was asked for was looked at."""
        return self.has_reached_end and not self.unread

    @property
    def is_sound(self) -> bool:
        """Whether all that was asked for was looked at, and no error was found."""
        return self.is_complete and not self.counts[ERROR]


class VerifyRun(Iterator[Finding]):
    """The findings of one run, and in `totals` what it has come to so far.

    With its end, also an early one, `keep` is called unless the caller does it.
    """

    def __init__(
        self,
        paths: Sequence[str],
        options: Options,
        request: VerifyRequest | None = None,
        *,
        start: Callable[[Options], Verifying] | None = None,
        on_partition: Callable[[str], object] | None = None,
        keeps: bool = True,
    ) -> None:
        """`start` makes the verification where no place and no state is kept, `on_partition` is told of each directory.

        Raises OSError, ValueError, TypeError, RefusedError where what is kept would be among Kafka's own files, and
        KdumpError where it cannot be written or is something else.
        """
        asked = request or VerifyRequest()
        options.check()
        check_number("max_duration", asked.max_duration, 0.0, may_be_none=True)
        for target in (asked.resume, asked.state):
            if target is not None:
                from kdump.change.checks import check_target  # which few runs need

                check_target(target)
        if asked.max_duration is not None:
            options = options._replace(deadline=time.monotonic() + asked.max_duration)
        self._paths, self._options, self._asked, self._keeps = list(paths), options, asked, keeps
        self._absolute = [os.path.abspath(path) for path in paths]
        place = read_resume_point(asked.resume, self._absolute) if asked.resume else ResumePoint()
        self._state = read_state(asked.state) if asked.state else None
        self.totals = Totals(before=place.totals, is_part=bool(asked.resume or asked.state), is_deep=options.deep)
        mark = place.mark and place.mark._replace(partition=self._as_given(place.mark.partition))
        self._verification: Verifying = (
            Verification(options, mark, state=self._state) if start is None else start(options)
        )
        self._verification.on_partition = on_partition
        self._began = time.monotonic()
        self._findings = self._run()

    def __next__(self) -> Finding:
        return next(self._findings)

    def close(self) -> None:
        """End the run where it is, as if it had been interrupted there."""
        self.totals.was_interrupted = True
        self._findings.close()

    def keep(self) -> None:
        """Write down the place, or remove it at the end of a pass, and what is verified. Raises OSError."""
        resume, mark = self._asked.resume, self._verification.mark
        if resume and mark is not None:
            mark = mark._replace(partition=os.path.abspath(mark.partition))
            write_resume_point(resume, self._absolute, mark, self.totals.whole)
        elif resume and self.totals.has_reached_end:
            remove_file(resume)
        if self._asked.state and self._state is not None:
            write_state(self._asked.state, self._state)

    def _run(self) -> Generator[Finding]:
        try:
            with closing(self._all()) as found:
                for finding in found:
                    self.totals.counts[finding.severity] += 1
                    self.totals.unread += finding.code == UNREAD
                    yield finding
        except (KeyboardInterrupt, GeneratorExit):
            self.totals.was_interrupted = True
            self._end()
            raise
        self._end()

    def _all(self) -> Generator[Finding]:
        """Yield what is found in logs, and between the copies of several brokers; those logs are read again for it."""
        options = self._options
        if self._paths:
            yield from self._verification.run(self._paths)
        if len(self._paths) < 2 or self._verification.mark is not None:
            return
        from kdump.operations.copies import CopyCheck, findings_between  # half of kdump, for several paths only

        pace = Pace(options.max_rate) if options.max_rate else None
        now = wall_clock() if options.now is None else options.now
        check = CopyCheck(self._paths, now, options.deadline, pace, options.since_checkpoint)
        yield from findings_between(check, options)
        self.totals.uncompared = check.seen.left

    def _end(self) -> None:
        totals, done = self.totals, self._verification
        totals.partitions, totals.segments = done.partitions, done.segments
        totals.skipped, totals.bytes = done.skipped, done.bytes
        totals.has_reached_end = done.mark is None and not totals.was_interrupted
        totals.seconds = time.monotonic() - self._began
        if totals.is_complete and not totals.whole.unread and self._state is not None:
            self._state.last_pass = time.time()
        if self._keeps:
            self.keep()

    def _as_given(self, partition: str) -> str:
        """Return the path of a partition directory below one of the paths, however that was given."""
        for path, full in zip(self._paths, self._absolute, strict=True):
            if partition == full:
                return path
            if os.path.dirname(partition) == full:
                return os.path.join(path, os.path.basename(partition))
        return partition

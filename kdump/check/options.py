"""What a verification is asked to do, and how its findings are weighed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from kdump.errors import check_number, check_truths
from kdump.findings.filter import FindingFilter
from kdump.findings.limit import MAX_PER_CODE
from kdump.formats.codecs import DEFAULT_LIMIT
from kdump.settings.defaults import MAX_TIMEOUT_MS


class Options(NamedTuple):
    """How to verify.

    deep                decompress and decode every record
    jobs                threads that read; 0: one for each core
    now                 the clock (ms); None: this machine's
    retention_ms        what the retention of segments is computed with; None: what the cluster's metadata says
    properties          a server's settings, which count as those of its topics; None: what the cluster's metadata says
    max_timeout_ms      the brokers' transaction.max.timeout.ms; None: what the properties say
    since_checkpoint    only segments that reach past the recovery point, as recovery would
    drops_pages         give the pages read back to the system
    limit               bytes that one batch may decompress to
    select, ignore      code patterns (KD-LOG-*): what to report, and what not; what could not be read is always chosen
    severities          (code pattern, severity), the last one that fits counts
    max_per_code          findings of one code in one file that are given one by one; 0: all
    deadline            moment of time.monotonic() after which no further segment is begun
    max_rate            bytes that are read in a second, at most; None: as many as can be
    newest_first        begin with the partitions that were written to last
    progress            told of every path and how many bytes of it have been read since it was last told
    """

    deep: bool = False
    jobs: int = 1
    now: int | None = None
    retention_ms: int | None = None
    properties: Mapping[str, str] | None = None
    max_timeout_ms: int | None = None
    since_checkpoint: bool = False
    drops_pages: bool = False
    limit: int = DEFAULT_LIMIT
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    severities: tuple[tuple[str, str], ...] = ()
    max_per_code: int = MAX_PER_CODE
    deadline: float | None = None
    max_rate: int | None = None
    newest_first: bool = False
    progress: Callable[[str, int], object] | None = None

    @property
    def longest_transaction_ms(self) -> int:
        """How long a transaction may be open: one that is older may hang. Raises ConfigError."""
        if self.max_timeout_ms is not None:
            return self.max_timeout_ms
        if not self.properties:
            return MAX_TIMEOUT_MS
        from kdump.settings.sources import TopicSettings
        from kdump.settings.table import TRANSACTION_MAX_TIMEOUT_MS

        return TopicSettings.of(self.properties).get(TRANSACTION_MAX_TIMEOUT_MS)

    @property
    def filter(self) -> FindingFilter:
        """Which findings are wanted, and how severe they are to be."""
        return FindingFilter(self.select, self.ignore, self.severities)

    def check(self) -> None:
        """Raise ValueError, TypeError for a number out of bounds, a severity or a pattern that nothing can have."""
        check_truths(deep=self.deep, since_checkpoint=self.since_checkpoint, drops_pages=self.drops_pages)
        check_number("jobs", self.jobs, 0)
        check_number("now", self.now, may_be_none=True)
        check_number("retention_ms", self.retention_ms, may_be_none=True)
        check_number("max_timeout_ms", self.max_timeout_ms, 0, may_be_none=True)
        check_number("limit", self.limit, 1)
        check_number("max_per_code", self.max_per_code, 0)
        check_number("max_rate", self.max_rate, 1, may_be_none=True)
        self.filter.check()

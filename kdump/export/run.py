"""Do what is left of an export on this machine, on all its cores."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import Protocol

from kdump.errors import check_number
from kdump.export.journal import Failure, Journal, Outcome, Result
from kdump.export.options import ExportOptions
from kdump.export.plan import Unit, groups
from kdump.storage.parallel import processors


class Engine(Protocol):
    """What exports units, in any order, into a directory whose journal is open."""

    def __call__(self, units: Sequence[Unit], folder: str, options: ExportOptions) -> Iterator[Outcome]:
        """Return the results as they come, or why there is none."""


class Summary:
    """What an export into `folder` came to: units and rows, those of earlier runs included, and whether it is whole."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.units = self.resumed = self.rows = self.files = self.bytes = self.damage = self.failures = 0
        self.is_whole = False

    def add(self, result: Result) -> None:
        """Count a unit."""
        self.units += 1
        self.rows += result.rows
        self.files += len(result.files)
        self.bytes += sum(each.size for each in result.files)
        self.damage += len(result.damage)


def export(
    units: Sequence[Unit],
    folder: str,
    options: ExportOptions,
    engine: Engine,
    report: Callable[[Unit, Result | Failure], None],
    *,
    is_all: bool = True,
) -> Summary:
    """Export units into a directory, without those that are there already; `_SUCCESS` says that all are.

    `is_all`: they are all that was asked for; partitions that could not be read are no units. `report` hears of each,
    of those that are there already too. Raises OSError, KdumpError for what concerns the directory as a whole.
    """
    journal = Journal(folder)
    done = journal.open(options, units)
    summary = Summary(folder)
    for unit in units:
        if unit.name in done:
            summary.resumed += 1
            summary.add(done[unit.name])
            report(unit, done[unit.name])
    left = [unit for unit in units if unit.name not in done]
    if left:
        journal.not_whole()
    for unit, outcome in engine(left, folder, options) if left else ():
        if isinstance(outcome, Result):
            summary.add(outcome)
        else:
            summary.failures += 1
        report(unit, outcome)
    summary.is_whole = is_all and summary.failures == 0 and (options.skips_damage or summary.damage == 0)
    if summary.is_whole:
        journal.succeed()
    else:
        journal.not_whole()
    return summary


class LocalEngine:
    """Threads of this process: decoding and writing leave the interpreter alone most of the time."""

    def __init__(self, threads: int | None = None, progress: Callable[[str, int], None] = lambda _, __: None) -> None:
        """`progress` hears of bytes read of a log's segment, from any thread. Raises ValueError, TypeError."""
        check_number("threads", threads, 1)
        self._threads = threads or processors()
        self._progress = progress
        self._stops = False

    def __call__(self, units: Sequence[Unit], folder: str, options: ExportOptions) -> Iterator[Outcome]:
        """Yield the results as they come."""
        with ThreadPoolExecutor(self._threads) as pool:
            futures = [pool.submit(self._units, group, folder, options) for group in groups(units, self._threads)]
            try:
                for future in as_completed(futures):
                    yield from future.result()
            finally:
                self._stops = True
                pool.shutdown(cancel_futures=True)

    def _units(self, units: Sequence[Unit], folder: str, options: ExportOptions) -> list[Outcome]:
        from kdump.export.work import StoppedError, export_units  # which loads pyarrow

        def progress(path: str, size: int) -> None:
            if self._stops:
                raise StoppedError("the export was stopped")
            self._progress(path, size)

        return export_units(units, folder, options, progress)

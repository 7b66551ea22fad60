"""Do what is left of an export on this machine, on all its cores."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from itertools import chain, starmap

from kdump.disk.rights import rights_of
from kdump.errors import check_number
from kdump.exports.journal import Journal, Outcome
from kdump.exports.options import ExportOptions
from kdump.exports.outcome import Exported
from kdump.exports.plan import Unit, groups
from kdump.storage.parallel import processors

Engine = Callable[[Sequence[Unit], str, ExportOptions], Iterator[Outcome]]
"""Exports units, in any order, into a directory whose journal is open: the results as they come, or why there is none.
"""


class Summary:
    """What an export into `folder` came to: units and rows, those of earlier runs included, and whether it is whole."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.units = self.resumed = self.rows = self.files = self.bytes = self.damage = self.failures = 0
        self.is_whole = False

    def add(self, found: Exported) -> None:
        """Count a unit."""
        result = found.result
        if result is None:
            self.failures += 1
            return
        self.units += 1
        self.resumed += found.is_resumed
        self.rows += result.rows
        self.files += len(result.files)
        self.bytes += sum(each.size for each in result.files)
        self.damage += len(result.damage)


def export(
    units: Sequence[Unit],
    folder: str,
    options: ExportOptions,
    engine: Engine,
    *,
    is_all: bool = True,
) -> Iterator[Exported | Summary]:
    """Export units into a directory, without those that are there already; `_SUCCESS` says that all are.

    `is_all`: they are all that was asked for; partitions that could not be read are no units. Yields each, those that
    are there already too, and then what it came to. Raises OSError, KdumpError for what concerns the directory as a
    whole.
    """
    journal = Journal(folder, rights_of(path for unit in units for path in unit.paths))
    done = journal.open(options, units)
    summary = Summary(folder)
    left = [unit for unit in units if unit.name not in done]
    if left:
        journal.not_whole()
    resumed = (Exported(unit, done[unit.name], is_resumed=True) for unit in units if unit.name in done)
    for found in chain(resumed, starmap(Exported, engine(left, folder, options) if left else ())):
        summary.add(found)
        yield found
    summary.is_whole = is_all and summary.failures == 0 and (options.skips_damage or summary.damage == 0)
    if summary.is_whole:
        journal.succeed()
    else:
        journal.not_whole()
    yield summary


class LocalEngine:
    """Threads of this process: decoding and writing leave the interpreter alone most of the time."""

    def __init__(self, threads: int | None = None, progress: Callable[[str, int], None] = lambda _, __: None) -> None:
        """`progress` hears of bytes read of a log's segment, from any thread. Raises ValueError, TypeError."""
        check_number("threads", threads, 1, may_be_none=True)
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
        from kdump.exports.work import StoppedError, export_units  # which loads pyarrow

        def progress(path: str, size: int) -> None:
            if self._stops:
                raise StoppedError("the export was stopped")
            self._progress(path, size)

        return export_units(units, folder, options, progress)

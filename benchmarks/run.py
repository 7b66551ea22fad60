"""Measure dump-log against `cat`, Kafka's own tool, aiokafka and kafka-python, all in one run.

Whole processes write to /dev/null, their files in the page cache; they take turns, and medians are printed.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import compaction
import data
import kafka_tool
import lookups
import planning
import rebuilding
import verifying
import writing
from kafka_figures import FIGURES
from lookups import LookupCost
from processes import Cost, RunError, measure

from kdump import kernels

START, DECODE, LOOKUP, WRITE, VERIFY, REPAIR = "start", "decode", "lookup", "write", "verify", "repair"
COMPACT = "compact"
GROUPS = (START, *(log.name for log in data.LOGS), DECODE, LOOKUP, WRITE, VERIFY, REPAIR, COMPACT)
DUMPS = {"headers": (), "deep": ("--deep-iteration",), "print": ("--print-data-log",)}
DECODED_BYTES = 64 * data.MIB
MB = 1_000_000
NOISE = 1e-4
"""Seconds that cannot be told from nothing."""
STARTING = 2e-3
"""Seconds of a process's life, at most, that are waiting and not CPU."""
DISTURBED = 1.2
COST_HEADS = (
    "file", "command", "wall s", "CPU s", "peak MB", "x cat", "x cat CPU", "Kafka x", "Kafka x CPU", "Kafka x, no start"
)  # fmt: skip
LOOKUP_HEADS = "lookup by", "median ms", "1 in 100 above ms", "most KB of the log"
RATE_HEADS = "file", "decoder", "M records/s", "x aiokafka"
VERIFY_HEADS = "verify and repair", "wall ms", "CPU ms"
COMPACT_HEADS = (
    "compaction", "wall s", "CPU s", "MB/s", "peak MB", "x rewriting", "x rewriting CPU", "x copy", "x copy CPU"
)  # fmt: skip
WRITE_HEADS = "written", "MB/s", "x kafka-python's builder"
TARGET_HEADS = "target", "measured", "wanted", "holds"


class Target(NamedTuple):
    """A ratio, or a figure in `unit`, that is to be at most or at least `limit`."""

    name: str
    value: float
    limit: float
    at_most: bool
    unit: str = "x"

    @property
    def holds(self) -> bool:
        """Whether it is reached."""
        return self.value <= self.limit if self.at_most else self.value >= self.limit

    def cells(self) -> tuple[str, ...]:
        """A line of the table."""
        sign = "<=" if self.at_most else ">="
        holds = "yes" if self.holds else "NO"
        return self.name, f"{self.value:.2f} {self.unit}", f"{sign} {self.limit:g} {self.unit}", holds


class Measured:
    """The costs of one run: of processes by (group, command), decoded records a second by (log, decoder), lookups."""

    def __init__(self, sizes: dict[str, int]) -> None:
        self.sizes = sizes
        self.costs: dict[tuple[str, str], Cost] = {}
        self.rates: dict[tuple[str, str], float] = {}
        self.lookups: dict[str, LookupCost] = {}
        self.writes: dict[str, float] = {}
        self.fixture_seconds = 0.0
        self.verifying: dict[str, verifying.Seconds] = {}
        self.rebuilding: dict[str, verifying.Seconds] = {}
        self.planning: dict[str, verifying.Seconds] = {}
        self.compacted_size = 0
        self.compacting: dict[str, Cost] = {}

    def peak(self, group: str, command: str) -> float:
        """Peak memory in MB over that of the interpreter."""
        return (self.costs[group, command].peak - self.costs[START, "python"].peak) / MB

    def net(self, group: str, command: str, what: str) -> float:
        """Seconds (`what`: wall or cpu) less those that the same command takes for a tiny file."""
        start = self.costs[START, "cat" if command == "cat" else "dump-log"]
        seconds: float = getattr(self.costs[group, command], what) - getattr(start, what)
        return max(seconds, NOISE)

    def times_cat(self, group: str, command: str, what: str) -> float:
        """How many times as long as `cat` takes, start-up not counted."""
        return self.net(group, command, what) / self.net(group, "cat", what)

    def times_faster(self, group: str, command: str, what: str = "wall") -> float:
        """How many times faster than Kafka's tool, or than its published seconds scaled by bytes if it did not run."""
        seconds: float = getattr(self.costs[group, command], what)
        kafkas = self.costs.get((group, kafkas_name(command)))
        taken: float = getattr(kafkas, what) if kafkas else FIGURES[group].scaled(command, self.sizes[group])
        return taken / seconds

    def times_faster_running(self, group: str, command: str) -> float:
        """The same with neither's start-up counted: what files of any size tend to."""
        kafkas = self.costs.get((group, kafkas_name(command)))
        if kafkas is None:
            taken = FIGURES[group].without_start(command, self.sizes[group])
        else:
            taken = kafkas.wall - self.costs[START, kafka_tool.NAME].wall
        return taken / self.net(group, command, "wall")

    def targets(self) -> Iterator[Target]:
        """The targets of what was measured."""
        start = self.costs[START, "dump-log"]
        yield Target("tiny file, CPU", start.cpu * 1000, 40, True, "ms")
        if kafkas := self.costs.get((START, kafka_tool.NAME)):
            yield Target("tiny file: faster than Kafka", kafkas.wall / start.wall, 5, False)
        groups = {group for group, _ in self.costs}
        yield from self._against_others(groups)
        for key, lookup in self.lookups.items():
            yield Target(f"lookup by {key}", lookup.seconds * 1000, 1, True, "ms")
            yield Target(f"lookup by {key}: read of the log", lookup.read / 1000, 100, True, "KB")
        for name, limit in ((writing.FROM_COLUMNS, 150), (writing.FROM_VALUES, 40)):
            if name in self.writes:
                yield Target(f"written by {name}", self.writes[name] / MB, limit, False, "MB/s")
        if self.fixture_seconds:
            yield Target("100 partitions with 3 segments, CPU", self.fixture_seconds, 2, True, "s")
        if self.verifying:
            yield from self.verify_targets(self.verifying)
        if self.rebuilding:
            ratio = self.rebuilding[rebuilding.REBUILD].cpu / self.rebuilding[rebuilding.SHALLOW].cpu
            yield Target("rebuild-index: CPU against verify", ratio, 1.3, True)
        if self.planning:
            for title, ratio, goal in planning.ratios(self.planning):
                yield Target(title, ratio, goal, True)
        if self.compacting:
            plain, compact = self.compacting[compaction.REWRITE], self.compacting[compaction.COMPACT]
            for what, ratio in (("wall", compact.wall / plain.wall), ("CPU", compact.cpu / plain.cpu)):
                yield Target(f"compact: {what} against reading and rewriting", ratio, compaction.LIMIT, True)
        dumps = [key for key in self.costs if key[1] in DUMPS]
        if dumps:
            yield Target("peak memory over the interpreter's", max(self.peak(*key) for key in dumps), 60, True, "MB")

    def _against_others(self, groups: set[str]) -> Iterator[Target]:
        """The targets of dump-log against cat, Kafka's own and a client library."""
        if "large-batches" in groups:
            for what in ("wall", "cpu"):
                ratio = self.times_cat("large-batches", "headers", what)
                yield Target(f"large-batches, headers: {what} against cat", ratio, 1.6, True)
        if "one-record" in groups:
            ratio = self.times_faster("one-record", "headers")
            yield Target("one-record, headers: faster than Kafka", ratio, 25, False)
        for group, limit in (("large-batches", 20), ("one-record", 20), ("lz4", 20), ("zstd", 15)):
            if group in groups:
                ratio = self.times_faster(group, "print")
                yield Target(f"{group}, print: faster than Kafka", ratio, limit, False)
        for group in ("large-batches", "one-record"):
            if (group, "aiokafka") in self.rates:
                ratio = self.rates[group, "kernel, decode"] / self.rates[group, "aiokafka"]
                yield Target(f"{group}, decode in the kernel: faster than aiokafka", ratio, 4, False)
                ratio = self.rates[group, "kernel, all with CRC"] / self.rates[group, "aiokafka with CRC"]
                yield Target(f"{group}, walk, CRC and decode: faster than aiokafka", ratio, 4, False)

    @staticmethod
    def verify_targets(taken: dict[str, verifying.Seconds]) -> Iterator[Target]:
        """The targets of verify."""
        alone, shallow, threads = taken[verifying.READ], taken[verifying.SHALLOW], taken[verifying.THREADS]
        yield Target("verify: CPU against reading with CRC-32C", shallow.cpu / alone.cpu, 1.5, True)
        if (os.cpu_count() or 1) > 1:
            yield Target("verify: faster with 2 threads", shallow.wall / threads.wall, 1.7, False)
        ratio = taken[verifying.DEEP].cpu / taken[verifying.UNPACK].cpu
        yield Target("verify --deep, zstd: CPU against decompressing", ratio, 1.4, True)
        yield Target("verify: a small partition, CPU", taken[verifying.SMALL].cpu * 1000, 1.5, True, "ms")

    def disturbed(self) -> bool:
        """Whether other processes took the CPU away: reading cached files, `cat` never waits."""
        cats = [cost for (_, command), cost in self.costs.items() if command == "cat"]
        return sum(cost.wall - STARTING for cost in cats) > DISTURBED * sum(cost.cpu for cost in cats)

    def dump_rows(self) -> Iterator[tuple[str, ...]]:
        """What each process took, for people."""
        for (group, command), cost in self.costs.items():
            row = group, command, f"{cost.wall:.3f}", f"{cost.cpu:.3f}", f"{self.peak(group, command):.1f}"
            if group == START or command not in (*DUMPS, "cat"):
                yield *row, "", "", "", "", ""
            elif command == "cat":
                yield *row, "1.00", "1.00", "", "", ""
            else:
                yield (
                    *row,
                    f"{self.times_cat(group, command, 'wall'):.2f}",
                    f"{self.times_cat(group, command, 'cpu'):.2f}",
                    f"{self.times_faster(group, command):.1f}",
                    f"{self.times_faster(group, command, 'cpu'):.1f}",
                    f"{self.times_faster_running(group, command):.1f}",
                )

    def lookup_rows(self) -> Iterator[tuple[str, ...]]:
        """What each kind of lookup costs, for people."""
        for key, cost in self.lookups.items():
            yield key, f"{cost.seconds * 1000:.3f}", f"{cost.slow * 1000:.3f}", f"{cost.read / 1000:.1f}"

    def verify_rows(self) -> Iterator[tuple[str, ...]]:
        """What verifying takes, for people."""
        for name, seconds in (self.verifying | self.rebuilding | self.planning).items():
            yield name, f"{seconds.wall * 1000:.3g}", f"{seconds.cpu * 1000:.3g}"

    def compact_rows(self) -> Iterator[tuple[str, ...]]:
        """What compaction costs, and plain copies of the same bytes, for people."""
        for name, cost in self.compacting.items():
            times = [self.compacting[other] for other in (compaction.REWRITE, compaction.COPY)]
            yield (
                name,
                f"{cost.wall:.3f}",
                f"{cost.cpu:.3f}",
                f"{self.compacted_size / MB / cost.wall:.0f}",
                f"{cost.peak / MB:.0f}",
                *(f"{ratio:.2f}" for other in times for ratio in (cost.wall / other.wall, cost.cpu / other.cpu)),
            )

    def write_rows(self) -> Iterator[tuple[str, ...]]:
        """How fast logs are written, for people."""
        for name, rate in self.writes.items():
            yield name, f"{rate / MB:.0f}", f"{rate / self.writes[writing.BUILDER]:.1f}"

    def rate_rows(self) -> Iterator[tuple[str, ...]]:
        """How fast each decoder is, for people."""
        for (group, decoder), rate in self.rates.items():
            yield group, decoder, f"{rate / 1e6:.2f}", f"{rate / self.rates[group, 'aiokafka']:.2f}"


def kafkas_name(command: str) -> str:
    """What a dump by Kafka's own tool is called among the costs."""
    return f"{command}, {kafka_tool.NAME}"


def dump_log() -> str:
    """The path of the installed command. Raises RunError."""
    path = shutil.which("dump-log", path=sysconfig.get_path("scripts"))
    if path is None:
        raise RunError(f"dump-log is not installed beside {sys.executable}: run this through ./dev bench")
    return path


def cat() -> str:
    """The path of `cat`. Raises RunError."""
    path = shutil.which("cat")
    if path is None:
        raise RunError("there is no cat here")
    return path


def machine() -> dict[str, str]:
    """What this runs on."""
    return {
        "cpu": cpu_name(),
        "cores": str(os.cpu_count()),
        "load": f"{os.getloadavg()[0]:.2f}",
        "python": platform.python_version(),
        "kernels": kernels.active,
        "crc": kernels.crc_engine(),
    }


def cpu_name() -> str:
    """The processor's name, as far as the system tells."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            return next(line.partition(":")[2].strip() for line in file if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def table(heads: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    """A Markdown table that lines up as it is."""
    widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
    lines = [heads, tuple("-" * width for width in widths), *rows]
    return "\n".join("| " + " | ".join(map(str.ljust, line, widths)) + " |" for line in lines) + "\n"


def measure_all(groups: list[str], folder: Path, divisor: int, repeat: int, *, runs_kafka: bool) -> Measured:
    """Generate what is missing, and measure the groups asked for, with `runs_kafka` beside Kafka's own tool."""
    logs = [log for log in data.LOGS if log.name in groups]
    logs_to_decode = data.LOGS if DECODE in groups else ()
    paths = {log.name: data.generate(log, folder, divisor) for log in data.LOGS if log in logs or log in logs_to_decode}
    tiny = data.generate(data.TINY, folder)
    commands = {
        (START, "python"): [sys.executable, "-c", "pass"],
        (START, "cat"): [cat(), str(tiny)],
        (START, "dump-log"): [dump_log(), "--files", str(tiny)],
    }
    if runs_kafka and logs:
        commands[START, kafka_tool.NAME] = kafka_tool.command(str(tiny))
    for log in logs:
        path = str(paths[log.name])
        commands[log.name, "cat"] = [cat(), path]
        for dump, options in DUMPS.items():
            commands[log.name, dump] = [dump_log(), *options, "--files", path]
            if runs_kafka:
                commands[log.name, kafkas_name(dump)] = kafka_tool.command(path, *options)
    measured = Measured({name: path.stat().st_size for name, path in paths.items()})
    measured.costs = measure(commands, repeat)
    if logs_to_decode:
        import decoders  # which needs the client libraries
    for log in logs_to_decode:
        with open(paths[log.name], "rb") as file:
            content = file.read(DECODED_BYTES)
        measured.rates |= {(log.name, name): rate for name, rate in decoders.rates(content, repeat).items()}
    if LOOKUP in groups:
        measured.lookups = lookups.measure(lookups.prepare(folder, divisor))
    if WRITE in groups:
        measured.writes = writing.rates(folder, divisor, repeat)
        measured.fixture_seconds = writing.fixture_seconds(folder, divisor)
    if VERIFY in groups:
        measured.verifying = verifying.measure(folder, divisor, repeat)
    if REPAIR in groups:
        measured.rebuilding = rebuilding.measure(folder, divisor, repeat)
        measured.planning = planning.measure(folder, divisor, repeat)
    if COMPACT in groups:
        measured.compacted_size, measured.compacting = compaction.measure_all(folder, divisor, repeat)
    return measured


def report(measured: Measured) -> None:
    """Print the tables."""
    print(table(COST_HEADS, list(measured.dump_rows())))
    if measured.rates:
        print(table(RATE_HEADS, list(measured.rate_rows())))
    if measured.lookups:
        print(table(LOOKUP_HEADS, list(measured.lookup_rows())))
    if measured.verifying or measured.rebuilding:
        print(table(VERIFY_HEADS, list(measured.verify_rows())))
    if measured.compacting:
        print(table(COMPACT_HEADS, list(measured.compact_rows())))
    if measured.writes:
        print(table(WRITE_HEADS, list(measured.write_rows())))
    print(table(TARGET_HEADS, [target.cells() for target in measured.targets()]))
    if measured.disturbed():
        print("The machine had other work to do: cat took much longer than its CPU time, and so may all the others.")


def as_json(measured: Measured) -> dict[str, object]:
    """All figures: seconds, bytes, records a second."""
    return {
        "machine": machine(),
        "sizes": measured.sizes,
        "costs": {f"{group} {command}": cost._asdict() for (group, command), cost in measured.costs.items()},
        "rates": {f"{group} {decoder}": rate for (group, decoder), rate in measured.rates.items()},
        "lookups": {key: cost._asdict() for key, cost in measured.lookups.items()},
        "writes": measured.writes,
        "verify": {name: seconds._asdict() for name, seconds in measured.verifying.items()},
        "rebuilding": {name: seconds._asdict() for name, seconds in measured.rebuilding.items()},
        "planning": {name: seconds._asdict() for name, seconds in measured.planning.items()},
        "compacting": {name: cost._asdict() for name, cost in measured.compacting.items()},
        "fixture": measured.fixture_seconds,
        "targets": [{**target._asdict(), "holds": target.holds} for target in measured.targets()],
    }


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="./dev bench", description=__doc__, allow_abbrev=False)
    default = Path(tempfile.gettempdir()) / "kdump-benchmarks"
    parser.add_argument("--dir", type=Path, default=default, help="where the logs are and stay (default: %(default)s)")
    parser.add_argument("--repeat", type=int, default=5, metavar="N", help="turns (default: %(default)s)")
    parser.add_argument("--only", action="append", choices=GROUPS, help="measure only this; may be given again")
    parser.add_argument("--divisor", type=int, default=1, metavar="N", help="divide all sizes by N")
    parser.add_argument("--quick", dest="divisor", action="store_const", const=8, help="the same as --divisor 8")
    parser.add_argument(
        "--published", action="store_true", help="compare with published figures of Kafka's tool, which does not run"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures there too")
    parser.add_argument("--check", action="store_true", help="exit with 1 when a target is missed")
    return parser.parse_args()


def main() -> int:
    """Measure and report; 1 where something could not be run, or a target is missed that was to be checked."""
    options = arguments()
    print(", ".join(f"{name}: {value}" for name, value in machine().items()) + "\n", flush=True)
    reason = "--published" if options.published else kafka_tool.reason()
    if reason:
        print(f"Kafka's figures are published ones, scaled by bytes ({reason}).\n", flush=True)
    try:
        folder = options.dir / f"sizes-by-{options.divisor}"
        groups = options.only or list(GROUPS)
        measured = measure_all(groups, folder, options.divisor, options.repeat, runs_kafka=reason is None)
    except (RunError, OSError) as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    report(measured)
    if options.json:
        options.json.write_text(json.dumps(as_json(measured), indent=2) + "\n", encoding="utf-8")
    return int(options.check and not all(target.holds for target in measured.targets()))


if __name__ == "__main__":
    sys.exit(main())

"""Does `kdump startup` predict what a real broker does? Damaged log directories, each predicted, then started.

    python -m tests.recovery.real_damages 4.3.1 --state killed --damages 260 --seed 1

A rich directory is made once by a real broker of that release and kept (--keep). Each round copies it, damages several
of its disks, asks `kdump startup`, starts the broker, stops it, and compares: whether the process ends and in which
exception, which log directories go offline, log start and end offsets, directories set aside, and the sizes of all
files that are left. A damage that ends the process is tried alone. Not run by pytest: a round takes ten seconds.
"""

from __future__ import annotations

import argparse
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.kafka.broker import Broker
from tests.recovery.real_damage_kinds import Damage, every_small_file, some
from tests.recovery.real_rich import DISKS, SETTINGS, Rich, rich
from tests.rows import rows_in

_ERROR = re.compile(r"There was an error in one of the threads during logs loading: (.*)")
_FATAL = re.compile(r"(?:fatal fault|Exiting Kafka due to fatal exception).*\s+((?:org|java|kafka)\.[\w.$]+(?:: .*)?)")
_OFFLINE = re.compile(
    r"Stopping serving logs in dir (\S+)|Error while reading meta.properties file (\S+)/meta.properties"
)
_LOADED = re.compile(
    r"Completed load of Log\(dir=([^,]+), .*?logStartOffset=(-?\d+), logEndOffset=(-?\d+)\) with (\d+) segments"
)
_STRAY = re.compile(r"Log in (\S+) marked stray and renamed to (\S+)")
_AT_FAULT = re.compile(r"^The log dir (\S+) is already offline")
_RETAINED = re.compile(r"partition=([^,]+), dir=([^]]+)] Deleting segments due to log start offset")
_WRITTEN_LATER = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})
_COMPARED = (".log", ".index", ".timeindex", ".txnindex", ".snapshot")


@dataclass
class Outcome:
    """What becomes of the log directories, predicted or seen; partitions by path below the log directories.

    `changed` are those whose files the broker went on to change once it was started: the log cleaner removes segments
    before the log start offset at once.
    """

    ends: str | None = None
    ending: set[str] = field(default_factory=set)
    others: set[str] = field(default_factory=set)
    offline: set[str] = field(default_factory=set)
    stray: set[str] = field(default_factory=set)
    offsets: dict[str, tuple[int, int]] = field(default_factory=dict)
    files: dict[str, dict[str, int]] = field(default_factory=dict)
    changed: set[str] = field(default_factory=set)


@dataclass
class Trial:
    """Log directories with damages in different disks."""

    damages: Sequence[Damage]
    predicted: Outcome
    seen: Outcome
    log: str = ""


def predict(disks: Sequence[Path], config: Path) -> Outcome:
    """What `kdump startup` says with these settings of the server."""
    command = [sys.executable, "-m", "kdump", "startup", "--format", "jsonl", "--config", str(config)]
    command += map(str, disks)
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1, 3) or "Traceback" in done.stderr:
        raise SystemExit(f"kdump startup ended with {done.returncode}:\n{done.stderr}")
    outcome = Outcome()
    root = disks[0].parent
    failures: list[tuple[str, dict[str, Any]]] = []
    for row in rows_in(done.stdout):
        if row["type"] == "broker":
            for failure in row["failures"]:
                found = _AT_FAULT.search(failure["message"])
                failures.append((found.group(1) if found else "", failure))
        elif row["type"] == "logDirectory":
            failures += [(row["path"], failure) for failure in row["failures"]]
            if any("another broker" in warning for warning in row["warnings"]):
                outcome.others.add(Path(row["path"]).name)
        elif row["type"] == "outcome":
            path = str(Path(row["path"]).relative_to(root))
            if row["failure"]:
                failures.append((str(Path(row["path"]).parent), row["failure"]))
            elif row.get("stray"):
                outcome.stray.add(path)
            if row["isLoaded"]:
                outcome.offsets[path] = row["logStartOffset"], row["logEndOffset"]
                outcome.files[path] = row["files"]
    _take_failures(outcome, failures)
    return outcome


def _take_failures(outcome: Outcome, failures: list[tuple[str, dict[str, Any]]]) -> None:
    """What the failures, each with its disk, come to."""
    for disk, failure in failures:
        if failure["isBrokerStartable"]:
            outcome.offline.add(Path(disk).name)
        else:
            outcome.ending.add(Path(disk).name)
            outcome.ends = outcome.ends or f"{failure['exception']}: {failure['message']}"
    if outcome.others and not outcome.ends:  # here all disks are one broker's
        outcome.ending |= outcome.others
        outcome.ends = "java.lang.RuntimeException: another broker's"


def observe(broker: Broker) -> Outcome:
    """Start and stop the broker; what its log and its disks say."""
    outcome = Outcome()
    root = broker.log_dirs[0].parent
    broker.launch()
    try:
        if broker.serves():
            time.sleep(1.5)
            serves = broker.runs
        else:
            serves = False
        if serves:
            broker.stop()
    finally:
        broker.kill()
    log = broker.log
    if not serves:
        found = _ERROR.search(log) or _FATAL.search(log)
        halted = re.search(r"Shutdown broker because.*", log)
        outcome.ends = found.group(1) if found else halted.group(0) if halted else "(no exception found)"
        return outcome
    outcome.offline = {Path(one or other).name for one, other in _OFFLINE.findall(log)}
    former = {after: before for before, after in _STRAY.findall(log)}
    outcome.stray = {str(Path(path).relative_to(root)) for path in former.values()}
    for path, start, end, _ in _LOADED.findall(log):
        outcome.offsets[str(Path(former.get(path, path)).relative_to(root))] = int(start), int(end)
    outcome.changed = {f"{Path(folder).name}/{name}" for name, folder in _RETAINED.findall(log)}
    for disk in broker.log_dirs:
        for path in disk.iterdir():
            if path.is_dir():
                sizes = {entry.name: entry.stat().st_size for entry in path.iterdir() if entry.is_file()}
                outcome.files[str(path.relative_to(root))] = sizes
    return outcome


def differences(trial: Trial) -> Iterator[tuple[str, str]]:
    """Disk (or nothing) and what differs."""
    predicted, seen = trial.predicted, trial.seen
    if predicted.ends or seen.ends:
        if not _same_end(predicted.ends, seen.ends):
            yield "", f"ends: predicted {predicted.ends}, seen {seen.ends}"
        return
    for disk in sorted(predicted.offline ^ seen.offline):
        yield disk, f"offline: predicted {disk in predicted.offline}, seen {disk in seen.offline}"
    gone = predicted.offline | seen.offline
    for path in sorted(predicted.stray ^ seen.stray):
        if path.split("/")[0] not in gone:
            yield path.split("/")[0], f"{path} stray: predicted {path in predicted.stray}, seen {path in seen.stray}"
    for path in sorted(predicted.offsets.keys() | seen.offsets.keys()):
        if path.split("/")[0] in gone or "__cluster_metadata" in path:
            continue
        here, there = predicted.offsets.get(path), seen.offsets.get(path)
        if here != there:
            yield path.split("/")[0], f"{path} log start, end: predicted {here}, seen {there}"
        elif path not in seen.stray:
            yield from _file_differences(path, predicted, seen)


def _file_differences(path: str, predicted: Outcome, seen: Outcome) -> Iterator[tuple[str, str]]:
    disk, name = path.split("/")
    if name.rpartition("-")[0] in _WRITTEN_LATER or path not in seen.files or path in seen.changed:
        return
    here, there = (
        {(file, size) for file, size in outcome.files[path].items() if file.endswith(_COMPARED)}
        for outcome in (predicted, seen)
    )
    if here != there:
        yield disk, f"{path} files: predicted {sorted(here - there)}, seen {sorted(there - here)}"


def _same_end(predicted: str | None, seen: str | None) -> bool:
    if predicted is None or seen is None:
        return predicted is seen
    predicted, seen = predicted.partition("\n")[0], seen.partition("\n")[0].removesuffix(" (kafka.log.LogManager)")
    if predicted == seen or _java_class(predicted) == _java_class(seen) == "java.lang.IllegalArgumentException":
        return True
    if _java_class(predicted) == _java_class(seen) == "java.lang.RuntimeException":
        return True
    return seen.startswith("Shutdown broker") and predicted.startswith("Shutdown broker")


def _java_class(text: str) -> str:
    return text.partition(":")[0]


class Campaign:
    """Rounds of damages on copies of one rich directory."""

    def __init__(self, source: Rich, keep: Path, verbose: bool) -> None:
        self.source = source
        self.keep = keep
        self.right = self.wrong = self.starts = 0
        self.verbose = verbose
        self.config = keep / "server.properties"
        self.config.write_text("".join(f"{name}={value}\n" for name, value in SETTINGS.items()))
        self.kinds: Counter[str] = Counter()

    def run(self, damages: Iterable[Damage]) -> None:
        """Try all, as many at once as there are disks."""
        waiting = list(damages)
        while waiting:
            batch: list[Damage] = []
            rest: list[Damage] = []
            disks = set()
            for damage in waiting:
                if damage.disk in disks or len(batch) >= DISKS - 1:
                    rest.append(damage)
                else:
                    batch.append(damage)
                    disks.add(damage.disk)
            waiting = rest
            self.batch(batch)

    def batch(self, damages: Sequence[Damage]) -> None:
        """Try damages of different disks together; those that are to end the process each alone."""
        ending = self._ending(damages) if len(damages) > 1 else set()
        alone = [damage for damage in damages if damage.disk in ending]
        together = [damage for damage in damages if damage not in alone]
        if together:
            trial = self.trial(together)
            if trial.seen.ends and len(together) > 1:
                half = len(together) // 2
                self.batch(together[:half])
                self.batch(together[half:])
            else:
                self.judge(trial)
        for damage in alone:
            self.judge(self.trial([damage]))

    def _ending(self, damages: Sequence[Damage]) -> set[str]:
        """The disks whose damage is predicted to end the process."""
        with tempfile.TemporaryDirectory(dir=self.keep) as scratch:
            disks = self.source.copy(Path(scratch))
            for damage in damages:
                damage.apply(Path(scratch) / damage.disk)
            return predict(disks, self.config).ending

    def trial(self, damages: Sequence[Damage]) -> Trial:
        """Copy, damage, predict, start."""
        folder = self.keep / "trial"
        shutil.rmtree(folder, ignore_errors=True)
        disks = self.source.copy(folder / "disks")
        for damage in damages:
            damage.apply(folder / "disks" / damage.disk)
        predicted = predict(disks, self.config)
        broker = Broker(self.source.release, folder / "node", disks, **SETTINGS)
        seen = observe(broker)
        self.starts += 1
        return Trial(damages, predicted, seen, broker.log)

    def judge(self, trial: Trial) -> None:
        """Count and print."""
        found = list(differences(trial))
        by_disk: dict[str, list[str]] = {}
        for disk, text in found:
            by_disk.setdefault(disk, []).append(text)
        for damage in trial.damages:
            texts = by_disk.pop(damage.disk, []) + (by_disk.pop("", []) if len(trial.damages) == 1 else [])
            self.kinds[damage.kind] += 1
            if texts:
                self.wrong += 1
                folder = self.keep / f"wrong-{self.wrong}"
                shutil.rmtree(folder, ignore_errors=True)
                folder.mkdir()
                (folder / "server.log").write_text(trial.log)
                damage.apply(self.source.copy(folder, [damage.disk])[0])
                print(f"WRONG {damage}")
                for text in texts[:6]:
                    print(f"      {text}")
            else:
                self.right += 1
                if self.verbose:
                    print(f"right {damage}: {_summary(trial, damage)}")
        for disk, texts in by_disk.items():
            self.wrong += 1
            print(f"WRONG {disk or 'all'} without a damage: {'; '.join(texts[:6])}")
        print(f"-- {self.right} right, {self.wrong} wrong, {self.starts} starts", flush=True)


def _summary(trial: Trial, damage: Damage) -> str:
    if trial.seen.ends:
        return f"ends: {trial.seen.ends}"
    if damage.disk in trial.seen.offline:
        return "offline"
    stray = [path for path in trial.seen.stray if path.startswith(f"{damage.disk}/")]
    return f"stray {stray}" if stray else "starts"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("release")
    parser.add_argument("--state", choices=("killed", "stopped"), default="killed")
    parser.add_argument("--damages", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--small-files", action="store_true", help="every damage of every small file instead")
    parser.add_argument("--only", default="", help="with --small-files: those whose kind begins so")
    parser.add_argument("--keep", type=Path, default=Path(tempfile.gettempdir()) / "kdump-real-damages")
    parser.add_argument("-v", "--verbose", action="store_true")
    options = parser.parse_args()
    options.keep.mkdir(parents=True, exist_ok=True)
    source = rich(options.release, options.state, options.keep)
    campaign = Campaign(source, options.keep, options.verbose)
    if options.small_files:
        campaign.run(damage for damage in every_small_file(source.folder) if damage.kind.startswith(options.only))
    else:
        campaign.run(some(source.folder, random.Random(options.seed), options.damages))
    print(f"{options.release} {options.state}: {campaign.right} of {campaign.right + campaign.wrong} predicted right")
    for kind, number in sorted(campaign.kinds.items()):
        print(f"  {number:4} {kind}")
    return 1 if campaign.wrong else 0


if __name__ == "__main__":
    sys.exit(main())

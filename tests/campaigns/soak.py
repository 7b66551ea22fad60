"""Every reading command beside a real broker under load: each ends with 0, or with the damage that was planted alone.

    ./dev campaign soak --seconds 600 --kafka 4.3.1

Needs Java and the jars that tests/kafka brings. A broker rolls segments every few seconds, deletes and compacts them,
and creates and deletes topics, while producers write to it; meanwhile the commands run one after the other over its log
directory. Half way, ten kinds of damage are planted into closed segments of a topic that nobody writes to.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from kafka import KafkaConsumer, KafkaProducer
from kafka.admin import KafkaAdminClient, NewTopic

from kdump.formats import names
from kdump.formats.batch import HEADER_SIZE, LOG_OVERHEAD
from kdump.storage.partition import PartitionLog
from kdump.storage.segment import Segment
from tests.kafka.broker import Broker, java
from tests.rows import rows_in

IDLE = "idle"
ROLLS = {"segment.ms": "3000", "segment.bytes": "4194304", "file.delete.delay.ms": "2000"}
TOPICS = {
    "deleted": (60, {**ROLLS, "retention.ms": "12000"}),
    "compacted": (30, {**ROLLS, "cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"}),
    "both": (10, {**ROLLS, "cleanup.policy": "compact,delete", "retention.ms": "20000"}),
    "transactions": (20, {**ROLLS, "retention.ms": "20000"}),
    IDLE: (12, {"segment.bytes": "1048576", "index.interval.bytes": "1024", "retention.ms": "-1"}),
}
SETTINGS = {
    "log.retention.check.interval.ms": "1000",
    "log.cleaner.backoff.ms": "200",
    "log.cleaner.threads": "1",
    "log.index.size.max.bytes": "1048576",
    "metadata.log.segment.bytes": "8388608",
    "metadata.log.max.record.bytes.between.snapshots": "20000",
}
READING = (
    ("verify", "--format", "jsonl"),
    ("ls",),
    ("verify", "--format", "jsonl", "--deep", "--jobs", "2"),
    ("stats",),
    ("txns",),
    ("dump", "--format", "jsonl"),
    ("groups",),
    ("lookup", "--topic", "compacted", "--timestamp", "0"),
    ("startup",),
    ("ls", "--count", "--segments"),
    ("metadata",),
    ("dump", "--include", "log,index,timeindex,txnindex,snapshot,checkpoints", "--batches-only", "--format", "jsonl"),
    ("export",),
    ("doctor",),
    ("replicas", "--topic", IDLE),
    ("undo",),
    ("retain",),
    ("compact",),
)
PLANNING = (
    ("repair",), ("repair", "--strategy", "salvage"), ("rebuild-index",), ("trim",),
    ("retain", "--apply"), ("compact", "--apply"), ("serve", "--listen", "127.0.0.1:0"),
)  # fmt: skip
"""What is refused beside a broker."""


FINDING = ("dump", "stats", "export", "startup", "txns", "doctor", "replicas")
"""The commands whose exit code tells of planted damage."""


class Load:
    """What keeps the broker busy: producers of Kafka's own, and threads of ours."""

    def __init__(self, broker: Broker, release: str, folder: Path) -> None:
        self._broker = broker
        self._release = release
        self._folder = folder
        self._ends = threading.Event()
        self._processes: list[subprocess.Popen[bytes]] = []
        self._threads: list[threading.Thread] = []
        self.churned = 0

    def start(self) -> None:
        self._perf("deleted", 3000, 1000)
        self._perf("both", 300, 1000)
        self._perf("transactions", 500, 1000, "--transactional-id", "soak", "--transaction-duration-ms", "200")
        for work in (self._keyed, self._churn, self._commits):
            thread = threading.Thread(target=self._guarded, args=(work,), daemon=True)
            thread.start()
            self._threads.append(thread)

    def stop(self) -> None:
        self._ends.set()
        for process in self._processes:
            process.terminate()
            process.wait()
        for thread in self._threads:
            thread.join(30)

    def _perf(self, topic: str, rate: int, size: int, *more: str) -> None:
        config = self._folder / f"{topic}.properties"
        config.write_text(f"bootstrap.servers={self._broker.servers}\nacks=1\nlinger.ms=20\nbatch.size=32768\n")
        tool = "org.apache.kafka.tools.ProducerPerformance"
        counts = ["--num-records", "1000000000", "--record-size", str(size), "--throughput", str(rate)]
        command = java(self._release, tool, "--topic", topic, *counts, *more, heap="128m")
        flag = "--command-config" if self._release >= "4.2" else "--producer.config"
        log = (self._folder / f"{topic}.out").open("wb")
        self._processes.append(
            subprocess.Popen([*command, flag, str(config)], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        )

    def _guarded(self, work: Callable[[], object]) -> None:
        while not self._ends.is_set():
            with suppress(Exception):
                work()
            self._ends.wait(1)

    def _keyed(self) -> None:
        producer = KafkaProducer(bootstrap_servers=self._broker.servers, linger_ms=20)
        try:
            while not self._ends.wait(0.02):
                for _ in range(10):
                    producer.send("compacted", key=b"%d" % random.randrange(5000), value=random.randbytes(500))
                producer.send("both", key=b"%d" % random.randrange(5000), value=random.randbytes(500))
        finally:
            producer.close(5)

    def _commits(self) -> None:
        consumer = KafkaConsumer(
            "compacted", bootstrap_servers=self._broker.servers, group_id="soak", enable_auto_commit=False
        )
        try:
            while not self._ends.is_set():
                if consumer.poll(200):
                    consumer.commit()
        finally:
            consumer.close()

    def _churn(self) -> None:
        admin = KafkaAdminClient(bootstrap_servers=self._broker.servers)
        try:
            while not self._ends.is_set():
                name = f"churn-{self.churned}"
                make_topic(admin, name, 4, ROLLS)
                producer = KafkaProducer(bootstrap_servers=self._broker.servers)
                for _ in range(200):
                    producer.send(name, random.randbytes(1000))
                producer.close(5)
                self._ends.wait(3)
                admin.delete_topics([name])
                self.churned += 1
        finally:
            admin.close()


def make_topic(admin: KafkaAdminClient, name: str, partitions: int, settings: dict[str, str]) -> None:
    admin.create_topics([NewTopic(name, partitions, 1, topic_configs=settings)])


def fill_idle(broker: Broker) -> None:
    """Give the idle topic several closed segments in every partition."""
    producer = KafkaProducer(bootstrap_servers=broker.servers, batch_size=4096)
    for _ in range(3000):
        for partition in range(TOPICS[IDLE][0]):
            producer.send(IDLE, random.randbytes(1000), partition=partition)
    producer.flush()
    producer.close()


# --- damage ----------------------------------------------------------------------------------------------------------


def replace(path: str, data: bytes | bytearray) -> None:
    """Put other bytes under a name, as a new file: the broker has the old one mapped."""
    with open(f"{path}.new", "wb") as file:
        file.write(data)
    os.replace(f"{path}.new", path)


def content(path: str) -> bytearray:
    with open(path, "rb") as file:
        return bytearray(file.read())


def third_batch(log: bytes | bytearray) -> int:
    at = 0
    for _ in range(3):
        at += LOG_OVERHEAD + int.from_bytes(log[at + 8 : at + 12], "big")
    return at


def flip(segment: Segment) -> None:
    data = content(segment.log_path)
    data[third_batch(data) + HEADER_SIZE + 20] ^= 1
    replace(segment.log_path, data)


def wrong_size(segment: Segment) -> None:
    data = content(segment.log_path)
    data[third_batch(data) + 8 : third_batch(data) + 12] = (3).to_bytes(4, "big")
    replace(segment.log_path, data)


def wrong_offset(segment: Segment) -> None:
    data = content(segment.log_path)
    at = third_batch(data)
    data[at : at + 8] = bytes(8)
    replace(segment.log_path, data)


def cut(segment: Segment) -> None:
    replace(segment.log_path, content(segment.log_path)[:-100])


def zeros(segment: Segment) -> None:
    replace(segment.log_path, content(segment.log_path) + bytes(4096))


def swapped_entries(segment: Segment) -> None:
    path = segment.path(names.OFFSET_INDEX)
    data = content(path)
    data[8:16], data[16:24] = data[16:24], data[8:16]
    replace(path, data)


def lost_index(segment: Segment) -> None:
    os.remove(segment.path(names.OFFSET_INDEX))


def wrong_time(segment: Segment) -> None:
    path = segment.path(names.TIME_INDEX)
    data = content(path)
    data[:8] = (1).to_bytes(8, "big") if len(data) < 24 else (1 << 60).to_bytes(8, "big")
    replace(path, data)


def bad_snapshot(segment: Segment) -> None:
    path = segment.path(names.PRODUCER_SNAPSHOT)
    data = content(path)
    data[3] ^= 1
    replace(path, data)


def bad_epochs(segment: Segment) -> None:
    replace(os.path.join(os.path.dirname(segment.log_path), names.LEADER_EPOCH_CHECKPOINT), b"0\nx\n")


PLANTS = (
    flip, wrong_size, wrong_offset, cut, zeros, swapped_entries, lost_index, wrong_time, bad_snapshot, bad_epochs,
)  # fmt: skip


def plant(data: Path, scratch: Path) -> set[tuple[str, str, int | None, int | None]]:
    """Damage one partition in each way; what verify finds in copies of them, to which no broker writes."""
    copies = scratch / "copies"
    for number, damage in enumerate(PLANTS):
        log = PartitionLog(str(data / f"{IDLE}-{number}"))
        assert len(log.segments) > 2, "the idle topic has too few segments"
        damage(log.segments[1])
        shutil.copytree(log.path, copies / f"{IDLE}-{number}")
    rows = findings_in(
        subprocess.run(kdump("verify", copies, "--format", "jsonl"), capture_output=True, text=True).stdout
    )
    found = {(row[0], row[1].replace(str(copies), str(data)), *row[2:]) for row in rows}
    missing = [number for number in range(len(PLANTS)) if not any(f"{IDLE}-{number}/" in row[1] for row in found)]
    assert not missing, f"planted damage that verify does not see without a broker: {missing}"
    return found


def findings_in(text: str) -> set[tuple[str, str, int | None, int | None]]:
    """The findings above notes in the output of verify."""
    rows = rows_in(text)
    return {
        (row["code"], row["path"], row["position"], row["offset"])
        for row in rows
        if row["type"] == "finding" and row["severity"] != "note"
    }


# --- the commands ----------------------------------------------------------------------------------------------------


def kdump(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "kdump", *map(str, arguments)]


class Soak:
    """Runs the commands, and keeps what they said that is false."""

    def __init__(self, data: Path, scratch: Path) -> None:
        self.data = data
        self.scratch = scratch
        self.passes = 0
        self.runs: Counter[str] = Counter()
        self.seconds: Counter[str] = Counter()
        self.false_words: list[str] = []
        self.planted: set[tuple[str, str, int | None, int | None]] = set()
        self.seen: Counter[str] = Counter()

    def one_pass(self) -> None:
        for command in READING:
            self._reading(command)
        for name, *options in PLANNING:
            done = self._run(name, self.data, *options)
            refusal = f"Refused: a broker is running on {self.data} (process "
            plan = [line for line in done.stdout.splitlines() if not line.startswith("Nothing was changed: ")]
            if done.returncode != 4 or plan or refusal not in done.stderr:
                self._false(name, done)
        self.passes += 1

    def _reading(self, command: tuple[str, ...]) -> None:
        name, *options = command
        target: list[object] = [self.data]
        if name == "export":
            folder = self.scratch / "exported"
            shutil.rmtree(folder, ignore_errors=True)
            options += ["--to", str(folder)]
        done = self._run(name, *target, *options)
        if name == "verify":
            self._judge_findings(done)
            return
        notes = ("Note: ", "kdump: note: ")
        lines = [line for line in done.stderr.splitlines() if not line.startswith(notes)]
        may_find = (name in FINDING and bool(self.planted)) or name in ("retain", "compact")  # these have work to do
        if done.returncode not in ((0, 1) if may_find else (0,)) or not all(map(self._is_of_planted, lines)):
            self._false(name, done)

    def _judge_findings(self, done: subprocess.CompletedProcess[str]) -> None:
        try:
            found = findings_in(done.stdout)
        except ValueError:
            self._false("verify", done)
            return
        self.seen.update(str(key) for key in found & self.planted)
        is_right = done.returncode == (1 if self.planted else 0)
        if found != self.planted or not is_right:
            more, less = sorted(map(str, found - self.planted)), sorted(map(str, self.planted - found))
            messages = [line for line in done.stdout.splitlines() if '"note"' not in line][:20]
            self.false_words.append(
                f"verify ({done.returncode}): more {more}\n less {less}\n {messages}\n{done.stderr}"
            )

    def _is_of_planted(self, line: str) -> bool:
        return (bool(self.planted) and f"/{IDLE}-" in line) or "more places like these" in line

    def _run(self, name: str, *arguments: object) -> subprocess.CompletedProcess[str]:
        begin = time.monotonic()
        done = subprocess.run(kdump(name, *arguments), capture_output=True, text=True, check=False)
        self.runs[name] += 1
        self.seconds[name] += time.monotonic() - begin  # type: ignore[assignment]
        return done

    def _false(self, name: str, done: subprocess.CompletedProcess[str]) -> None:
        self.false_words.append(f"{name} ({done.returncode}): {done.stderr[-3000:]}\n{done.stdout[-500:]}")

    def report(self) -> None:
        print(f"{self.passes} passes, {sum(self.runs.values())} commands: {dict(self.runs)}")
        print("seconds each:", {name: round(self.seconds[name] / count, 1) for name, count in self.runs.items()})
        print(f"{len(self.planted)} planted findings, {len(self.seen)} of them seen")
        print(f"{len(self.false_words)} false words")
        for text in self.false_words[:40]:
            print("---\n" + text)


@contextmanager
def busy_broker(release: str, folder: Path) -> Iterator[tuple[Broker, Load]]:
    broker = Broker(release, folder / "broker", [folder / "data"], **SETTINGS)
    broker.format()
    broker.start()
    load = Load(broker, release, folder)
    try:
        admin = KafkaAdminClient(bootstrap_servers=broker.servers)
        for name, (partitions, settings) in TOPICS.items():
            make_topic(admin, name, partitions, settings)
        admin.close()
        fill_idle(broker)
        load.start()
        yield broker, load
    finally:
        load.stop()
        broker.stop()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=120)
    parser.add_argument("--kafka", default="4.3.1")
    parser.add_argument("--keep", action="store_true", help="keep the directory")
    arguments = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="kdump-soak-"))
    try:
        with busy_broker(arguments.kafka, folder) as (broker, load):
            time.sleep(10)
            soak = Soak(folder / "data", folder)
            begin = time.monotonic()
            while (spent := time.monotonic() - begin) < arguments.seconds:
                if not soak.planted and spent > arguments.seconds / 2:
                    soak.planted = plant(folder / "data", folder)
                soak.one_pass()
                print(f"{spent:.0f} s, {soak.passes} passes, {len(soak.false_words)} false words", flush=True)
            size = sum(path.stat().st_size for path in (folder / "data").glob("*/*.log"))
            partitions = len(list((folder / "data").glob("*-*")))
            print(f"{partitions} partitions, {size >> 20} MiB, {load.churned} topics deleted")
            assert broker.runs, "the broker has ended"
        soak.report()
        return 1 if soak.false_words or len(soak.seen) < len(soak.planted) else 0
    finally:
        if not arguments.keep:
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())

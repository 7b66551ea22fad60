"""Measure `kdump serve` beside a real broker on the same log directory with the same consumers, all in one run.

    python benchmarks/serving.py [--release 4.3.1] [--megabytes 512] [--rounds 3]

Needs a JDK and Kafka's jars (see docs/kafka.md). The broker, with the settings and the JVM that Kafka gives it,
writes the topic and is stopped. Then it serves one copy and kdump another, both in the page cache, in turns: to
librdkafka, to Kafka's own consumer (kafka-consumer-perf-test, in a JVM that goes on), and to a loop that only asks and
throws the answers away. A new kdump reads a copy that it has not checked
yet ("first"). The limit beside them is one process that sends the same files to another with sendfile and nothing else.
"""

from __future__ import annotations

import argparse
import os
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from statistics import median
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.kafka.broker import KAFKAS_JVM, Broker  # noqa: E402
from tests.kafka.directories import MADE  # noqa: E402
from tests.kafka.jars import RELEASES  # noqa: E402
from tests.kafka.kit import Kit  # noqa: E402

TOPIC = "bench"
VALUE = 1000
FETCH_BYTES = 8 << 20
MB = 1_000_000
# What the brokers of the tests do every second is not part of serving.
USUAL = {
    "log.retention.check.interval.ms": "300000",
    "log.flush.offset.checkpoint.interval.ms": "60000",
    "log.cleaner.backoff.ms": "15000",
}


class Round(NamedTuple):
    """Bytes of a second, and seconds of CPU that the server took for each GB."""

    megabytes_per_second: float
    cpu_per_gigabyte: float


def cpu_of(process: int) -> float:
    """Seconds of CPU, user and system, that the threads of a process have taken, to the nanosecond."""
    threads = Path(f"/proc/{process}/task").iterdir()
    return sum(int((each / "schedstat").read_text().split()[0]) for each in threads) / 1e9


def fill(server: str, size: int) -> None:
    """Write `size` bytes of records, in batches as producers make them."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": server, "linger.ms": 50, "batch.size": 1 << 18})
    value = os.urandom(VALUE)
    for number in range(size // VALUE):
        while True:
            try:
                producer.produce(TOPIC, value, key=str(number).encode(), partition=0)
                break
            except BufferError:
                producer.poll(0.1)
    producer.flush()


def read_with_librdkafka(server: str) -> int:
    """Read the whole topic; how many bytes its values have."""
    from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

    settings = {"bootstrap.servers": server, "group.id": "bench", "enable.auto.commit": False}
    settings |= {"enable.partition.eof": True, "queued.max.messages.kbytes": 1 << 18}
    settings |= {"fetch.message.max.bytes": FETCH_BYTES}
    consumer = Consumer(settings)
    consumer.assign([TopicPartition(TOPIC, 0, OFFSET_BEGINNING)])
    total = 0
    while True:
        for message in consumer.consume(2_000, timeout=0.2):
            error = message.error()
            if error is None:
                total += VALUE
            elif error.code() == KafkaError._PARTITION_EOF:
                consumer.close()
                return total
            else:
                raise SystemExit(str(error))


def read_with_java(server: str, kit: Kit, records: int) -> int:
    """Read the whole topic with Kafka's consumer; how many bytes its values have."""
    done = kit.tool(
        "org.apache.kafka.tools.ConsumerPerformance", "--bootstrap-server", server, "--topic", TOPIC,
        "--num-records", str(records), "--fetch-size", str(FETCH_BYTES), "--hide-header",
    )  # fmt: skip
    if done.exit_code:
        raise SystemExit(done.err.decode())
    return int(done.out.split(b",")[4]) * VALUE


def read_raw(server: str) -> int:
    """Fetch the whole topic in version 4, looking only for the last batch of each answer; the bytes of the answers."""
    host, _, port = server.rpartition(":")
    total = offset = 0
    view = memoryview(bytearray(FETCH_BYTES + (2 << 20)))
    with socket.create_connection((host, int(port))) as sock:
        while True:
            body = struct.pack(">iiiibih", -1, 500, 1, FETCH_BYTES, 0, 1, len(TOPIC)) + TOPIC.encode()
            body += struct.pack(">iiqi", 1, 0, offset, FETCH_BYTES)
            request = struct.pack(">hhih", 1, 4, 1, -1) + body
            sock.sendall(struct.pack(">i", len(request)) + request)
            size = struct.unpack(">i", _read(sock, view[:4]))[0]
            data = _read(sock, view[:size])
            total += size
            # correlation id, throttle, topics, name, partitions, partition, error, watermark, stable, aborted, records
            start = 4 + 4 + 4 + 2 + len(TOPIC) + 4 + 4 + 2 + 8 + 8 + 4 + 4
            following = _end_offset(data[start:])
            if following == offset or following < 0:
                return total
            offset = following


def _read(sock: socket.socket, view: memoryview) -> memoryview:
    done = 0
    while done < len(view):
        got = sock.recv_into(view[done:])
        if not got:
            raise SystemExit("the server has closed the connection")
        done += got
    return view


def _end_offset(records: memoryview) -> int:
    position, end = 0, -1
    while position + 61 <= len(records):
        base, size = struct.unpack_from(">qi", records, position)
        if position + 12 + size > len(records):
            break
        end = base + struct.unpack_from(">i", records, position + 23)[0] + 1
        position += 12 + size
    return end


def sendfile_limit(files: list[Path]) -> Round:
    """One process sends the files, another throws them away."""
    receiver = (
        "import socket,sys; s=socket.create_connection(('127.0.0.1',int(sys.argv[1]))); b=bytearray(1<<20)\n"
        "while s.recv_into(b): pass"
    )
    size = sum(path.stat().st_size for path in files)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        process = subprocess.Popen([sys.executable, "-c", receiver, str(listener.getsockname()[1])])
        sock, _ = listener.accept()
        started, cpu = time.perf_counter(), time.process_time()
        with sock:
            for path in files:
                with path.open("rb") as file:
                    sock.sendfile(file)
        process.wait()
    elapsed = time.perf_counter() - started
    return Round(size / MB / elapsed, (time.process_time() - cpu) / size * 1000 * MB)


def measured(server: str, process: int, read: Callable[[str], int]) -> Round:
    """One reading of the whole topic."""
    before, started = cpu_of(process), time.perf_counter()
    size = read(server)
    elapsed = time.perf_counter() - started
    return Round(size / MB / elapsed, (cpu_of(process) - before) / size * 1000 * MB)


@contextmanager
def kdump_serving(log_dirs: list[Path]) -> Iterator[tuple[str, int]]:
    """`kdump serve`: its address and process."""
    program = Path(sys.executable).parent / "kdump"
    command = [str(program), "serve", *map(str, log_dirs), "--listen", "127.0.0.1:0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield process.stdout.readline().split()[2].rstrip(":"), process.pid
    finally:
        process.terminate()
        process.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--release", default=RELEASES[-1], choices=RELEASES)
    parser.add_argument("--megabytes", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    rounds: dict[tuple[str, str], list[Round]] = {}
    with (
        tempfile.TemporaryDirectory(prefix="kdump-serving-") as scratch,
        Kit(asked.release, MADE, Path(scratch) / "kit.log") as kit,
    ):
        folder = Path(scratch)
        java = partial(read_with_java, kit=kit, records=asked.megabytes * MB // VALUE)
        readers: dict[str, Callable[[str], int]] = {"librdkafka": read_with_librdkafka, "Java": java}
        readers["raw fetch"] = read_raw
        broker = Broker(asked.release, folder / "broker", [folder / "data"], KAFKAS_JVM, **USUAL)
        broker.format()
        try:
            broker.start()
            fill(broker.servers, asked.megabytes * MB)
            broker.stop()
            shutil.copytree(folder / "data", folder / "copy")
            files = sorted((folder / "copy" / f"{TOPIC}-0").glob("*.log"))
            broker.start()
            with kdump_serving([folder / "copy"]) as kdump:
                servers = {"broker": (broker.servers, broker.process_id), "kdump": kdump}
                for read in [*readers.values()] * 3:  # the JVM warms up, CRCs are computed
                    for server in servers.values():
                        measured(*server, read)
                for _ in range(asked.rounds):
                    rounds.setdefault(("sendfile", ""), []).append(sendfile_limit(files))
                    for name, read in readers.items():
                        for each, server in servers.items():
                            rounds.setdefault((each, name), []).append(measured(*server, read))
                        with kdump_serving([folder / "copy"]) as first:
                            rounds.setdefault(("kdump, first", name), []).append(measured(*first, read))
        finally:
            broker.kill()
    medians = {key: Round(*map(median, zip(*found, strict=True))) for key, found in rounds.items()}
    print(f"{'server':14} {'consumer':12} {'MB/s':>8} {'CPU s/GB':>9}   of the broker's")
    for (who, name), (speed, cost) in sorted(medians.items()):
        broker = medians.get(("broker", name))
        beside = f"{speed / broker[0]:8.2f} {cost / broker[1]:8.2f}" if broker and who != "broker" else ""
        print(f"{who:14} {name:12} {speed:8.0f} {cost:9.2f} {beside}")


if __name__ == "__main__":
    main()

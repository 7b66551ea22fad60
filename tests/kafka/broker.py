"""A combined KRaft node of any release on free loopback ports: start, stop, kill."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path

from tests.kafka.jars import class_path, made, made_once
from tests.kafka.ports import free_ports

NODE = 1
CLUSTER = "a2R1bXAgaXMgYSB0b29sLg"

_JVM = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")

KAFKAS_JVM = ("-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-XX:InitiatingHeapOccupancyPercent=35")
"""What kafka-server-start.sh gives, where speed counts and not a short start."""

LOG4J2 = """\
status = error
appender.c.type = Console
appender.c.name = C
appender.c.layout.type = PatternLayout
appender.c.layout.pattern = [%d] %p %m (%c)%n
rootLogger.level = info
rootLogger.appenderRef.c.ref = C
"""

_LOG4J1 = """\
log4j.rootLogger=INFO, C
log4j.appender.C=org.apache.log4j.ConsoleAppender
log4j.appender.C.layout=org.apache.log4j.PatternLayout
log4j.appender.C.layout.ConversionPattern=[%d] %p %m (%c)%n
"""

SETTINGS = {
    "num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.num.partitions": "4",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "3",
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.session.timeout.ms": "60000",
    "group.share.session.timeout.ms": "60000",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
    "super.users": "User:ANONYMOUS",
    # Nothing goes, and no transaction ends, because a data set was made days ago.
    "log.retention.ms": "-1",
    "offsets.retention.minutes": "2147483",
    "transaction.max.timeout.ms": "2147483647",
    # Everything that a broker does in the background within seconds.
    "log.initial.task.delay.ms": "500",
    "log.retention.check.interval.ms": "1000",
    "log.flush.offset.checkpoint.interval.ms": "3000",
    "log.cleaner.backoff.ms": "500",
    "log.segment.delete.delay.ms": "2000",
    # Preallocated for every active segment; one topic has Kafka's default of 10 MiB.
    "log.index.size.max.bytes": "131072",
    "log.cleaner.dedupe.buffer.size": "4194304",
    "metadata.max.idle.interval.ms": "2000",
}

_OF_RELEASE = {
    "3.9": {"group.coordinator.rebalance.protocols": "classic,consumer"},
    "4.0": {
        "unstable.api.versions.enable": "true",
        "group.coordinator.rebalance.protocols": "classic,consumer,share",
        "group.share.enable": "true",
    },
}


class BrokerError(Exception):
    """A broker that cannot be formatted, or ended when it should serve."""


def minor(release: str) -> str:
    """`4.3` of `4.3.1`."""
    return ".".join(release.split(".")[:2])


def settings_of(release: str) -> dict[str, str]:
    """What all our brokers of a release have in server.properties, apart from places and ports."""
    return {**SETTINGS, **_OF_RELEASE.get(minor(release), {})}


def java(
    release: str, *arguments: str, heap: str = "512m", extra: Sequence[Path] = (), jvm: Sequence[str] = _JVM
) -> list[str]:
    """The command that runs a class of a release, with the class data of `archive_classes` where they are there."""
    archive = shared_classes(release)
    shared = [f"-XX:SharedArchiveFile={archive}", "-Xlog:disable"] if archive.exists() else []
    # the archive serves class paths that begin as its own did
    path = os.pathsep.join(map(str, [*_class_path(release), *extra]))
    return ["java", f"-Xmx{heap}", *jvm, *shared, "-cp", path, *arguments]


_class_path = cache(class_path)


@cache
def shared_classes(release: str) -> Path:
    """Where the class data lie that JVMs of a release share, by the jars and by the JVM."""
    java_version = subprocess.run(["java", "-version"], capture_output=True, check=True).stderr
    digest = hashlib.sha256(repr(_class_path(release)).encode() + java_version).hexdigest()[:12]
    return made() / f"shared-{release}-{digest}.jsa"


def archive_classes(release: str) -> None:
    """Make those class data unless they are there: of a node that starts and stops.

    They hold what classes are once they are read and verified, nothing of what they do; a start takes a third less of a
    processor's time with them.
    """
    made_once(shared_classes(release), partial(_archive, release))


def _archive(release: str, target: Path) -> None:
    """Raises BrokerError."""
    folder = target.parent
    broker = Broker(release, folder, [folder / "data"], jvm=(*_JVM, f"-XX:ArchiveClassesAtExit={target}"))
    broker.format()
    try:
        broker.start()
        broker.stop()
    finally:
        broker.kill()
    if not target.exists():
        raise BrokerError(f"{release}: the JVM wrote no archive of its classes: see {broker.log_file}")


class Broker:
    """A node in a folder of its own: server.properties, server.log, and the log directories that it is given.

    `log` is what the broker has said since its last start.
    """

    def __init__(
        self, release: str, folder: Path, log_dirs: Sequence[Path], jvm: Sequence[str] = _JVM, **settings: str
    ) -> None:
        self.release = release
        self._jvm = jvm
        self.folder = folder
        self.log_dirs = [path.absolute() for path in log_dirs]
        self.log_file = folder / "server.log"
        self._settings = settings
        self._process: subprocess.Popen[bytes] | None = None
        self._from = 0
        folder.mkdir(parents=True, exist_ok=True)
        self._configure()

    def _configure(self) -> None:
        broker, controller = free_ports(2)
        lines = {
            "process.roles": "broker,controller",
            "node.id": str(NODE),
            "controller.quorum.voters": f"{NODE}@127.0.0.1:{controller}",
            "listeners": f"PLAINTEXT://127.0.0.1:{broker},CONTROLLER://127.0.0.1:{controller}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{broker}",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "log.dirs": ",".join(map(str, self.log_dirs)),
            "metadata.log.dir": str(self.log_dirs[0]),
            **settings_of(self.release),
            **self._settings,
        }
        self.servers = lines["advertised.listeners"].split(",")[0].removeprefix("PLAINTEXT://")
        text = "".join(f"{name}={value}\n" for name, value in lines.items())
        (self.folder / "server.properties").write_text(text)
        (self.folder / "log4j2.properties").write_text(LOG4J2)
        (self.folder / "log4j.properties").write_text(_LOG4J1)

    @property
    def config(self) -> Path:
        return self.folder / "server.properties"

    def format(self, *arguments: str) -> None:
        """Make the log directories those of a new cluster; `arguments` go to kafka-storage too. Raises BrokerError."""
        for log_dir in self.log_dirs:
            log_dir.mkdir(parents=True, exist_ok=True)
        command = java(self.release, "kafka.tools.StorageTool", "format", "-t", CLUSTER, "-c", str(self.config))
        command += arguments
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        if done.returncode:
            raise BrokerError(f"{self.release} was not formatted:\n{done.stdout}{done.stderr}")

    def launch(self) -> None:
        """Start the process; `wait_until_serving` or `wait_until_ended` come next."""
        self._configure()
        self._from = self.log_file.stat().st_size if self.log_file.exists() else 0
        command = java(
            self.release,
            f"-Dlog4j2.configurationFile={self.folder / 'log4j2.properties'}",
            f"-Dlog4j.configuration=file:{self.folder / 'log4j.properties'}",
            "kafka.Kafka",
            str(self.config),
            jvm=self._jvm,
        )
        with self.log_file.open("ab") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )

    def serves(self, seconds: float = 120) -> bool:
        """Wait until it serves (true) or its process has ended (false)."""
        assert self._process is not None
        for _ in range(int(seconds / 0.1)):
            if self._process.poll() is not None:
                return False
            if "Kafka Server started" in self.log:
                return True
            time.sleep(0.1)
        raise BrokerError(f"{self.release} neither serves nor ends after {seconds:.0f} s: see {self.log_file}")

    def tried(self) -> tuple[bool, str]:
        """Start, see whether it serves, and kill it: whether it did, and its log."""
        try:
            self.launch()
            return self.serves(), self.log
        finally:
            self.kill()

    def start(self) -> None:
        """Start, and return when it serves. Raises BrokerError if it ends."""
        self.launch()
        if not self.serves():
            raise BrokerError(f"{self.release} ended at its start:\n{self.log[-4000:]}")

    @property
    def log(self) -> str:
        with self.log_file.open("rb") as file:
            file.seek(self._from)
            return file.read().decode(errors="replace")

    @property
    def runs(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def exit_code(self) -> int | None:
        return None if self._process is None else self._process.poll()

    @property
    def process_id(self) -> int:
        """The running process."""
        assert self._process is not None
        return self._process.pid

    def stop(self) -> None:
        """An orderly end; nothing if it does not run."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold all its threads, wherever they are: on its disks is what a kill would leave."""
        os.kill(self.process_id, signal.SIGSTOP)
        try:
            os.waitid(os.P_PID, self.process_id, os.WSTOPPED)
            yield
        finally:
            os.kill(self.process_id, signal.SIGCONT)

    def _end(self, how: signal.Signals) -> None:
        if self._process is None:
            return
        if self._process.poll() is None:
            self._process.send_signal(how)
        self._process.wait(180)

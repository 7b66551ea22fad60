"""The official jars of each release: locked by name and SHA-256, brought by Maven, kept for the next run.

A machine without Java or Maven has no brokers: `why_not()` says what is missing, and nobody is left to guess.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.request import urlopen

LOCKS = Path(__file__).resolve().parent / "jars"

RELEASES = ("3.9.2", "4.0.2", "4.1.2", "4.2.2", "4.3.1", "4.4.0")

SPARK_SOURCE = "spark-4.2.0"
"""What stands for the jars of Spark's own Kafka source, in the newest release that Maven has; Spark 4.3 runs it too."""

MIRROR = "mirror-4.3.1"
"""What stands for MirrorMaker 2 and Connect's file connectors, beside the jars of the release in its name."""

_MAVEN_PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:2.8:copy-dependencies"
_LOG4J = "2.25.4"


class JarError(Exception):
    """Jars that cannot be brought, or are not those that are locked."""


def cache() -> Path:
    """The folder of what is brought or made once."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kdump" / "kafka"


def made() -> Path:
    """The folder of what takes long to make."""
    return cache() / "made"


def made_once(target: Path, make: Callable[[Path], object]) -> Path:
    """Make a file or a folder unless it is there; of several processes one makes it, and the others wait for it.

    `make` is called with a new folder's path, in which what is made is to stand under the name of the target.
    """
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.with_name(f"{target.name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not target.exists():
                scratch = target.with_name(f"{target.name}.part")
                shutil.rmtree(scratch, ignore_errors=True)
                scratch.mkdir()
                make(scratch / target.name)
                (scratch / target.name).rename(target)
                shutil.rmtree(scratch)
    return target


def home() -> Path:
    """The folder with a folder of jars for each release: KDUMP_KAFKA_JARS, else one of the cache."""
    return Path(os.environ.get("KDUMP_KAFKA_JARS") or cache() / "jars")


def why_not(release: str) -> str | None:
    """Why nothing can run on this machine that needs these jars; None if it can."""
    for program in ("java", "javac"):
        if shutil.which(program) is None:
            return f"there is no {program} (a JDK of 17 or later)"
    if missing(release) and shutil.which("mvn") is None:
        return f"its jars are not in {home() / release}, and there is no mvn to bring them"
    return None


def locked(release: str) -> dict[str, str]:
    """File name → SHA-256 of all jars of a release."""
    lines = (LOCKS / f"{release}.sha256").read_text().splitlines()
    return {name: digest for digest, name in (line.split() for line in lines)}


def _found(release: str) -> dict[str, Path]:
    """File name → path of the locked jars that are there and are what is locked."""
    wanted = locked(release)
    found: dict[str, Path] = {}
    for path in sorted((home() / release).rglob("*.jar")):
        if path.name in wanted and path.name not in found and _digest(path) == wanted[path.name]:
            found[path.name] = path
    return found


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def missing(release: str) -> list[str]:
    """Names of the locked jars that are not there."""
    return sorted(locked(release).keys() - _found(release).keys())


def lock(release: str) -> None:
    """Lock the jars of a release that has no lock yet, as Maven brings them now. Raises JarError."""
    path = LOCKS / f"{release}.sha256"
    if not path.exists():
        if not any((home() / release).rglob("*.jar")):
            _bring(release)
        jars = {jar.name: jar for jar in (home() / release).rglob("*.jar")}
        path.write_text("".join(f"{_digest(jars[name])}  {name}\n" for name in sorted(jars)))


def newest_on_maven() -> str:
    """Return the newest release that Maven Central has, previews apart. Raises JarError."""
    url = "https://repo.maven.apache.org/maven2/org/apache/kafka/kafka-clients/maven-metadata.xml"
    try:
        with urlopen(url, timeout=60) as answer:
            text = str(answer.read(), "utf-8")
    except OSError as error:
        raise JarError(f"{url}: {error}") from None
    versions: list[str] = re.findall(r"<version>(\d+\.\d+\.\d+)</version>", text)
    return max(versions, key=lambda version: tuple(map(int, version.split("."))))


def class_path(release: str) -> list[Path]:
    """The jars of a release, brought if need be. Raises JarError."""
    if missing(release):
        _bring(release)
    found = _found(release)
    if lost := sorted(locked(release).keys() - found.keys()):
        raise JarError(f"{release}: not what is locked in {LOCKS / release}.sha256, or missing: {', '.join(lost)}")
    return [found[name] for name in sorted(found)]


def _bring(release: str) -> None:
    folder = home() / release
    folder.mkdir(parents=True, exist_ok=True)
    pom = folder / "pom.xml"
    pom.write_text("".join(_pom(release)))
    command = ["mvn", "-q", "-B", "-f", str(pom), _MAVEN_PLUGIN, f"-DoutputDirectory={folder}"]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode:
        raise JarError(f"{release}: Maven did not bring the jars:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")


def _dependencies(release: str) -> Iterator[tuple[str, str, str]]:
    if release == SPARK_SOURCE:
        yield "org.apache.spark", "spark-sql-kafka-0-10_2.13", release.removeprefix("spark-")
        return
    if release == MIRROR:
        for artifact in ("connect-mirror", "connect-file"):
            yield "org.apache.kafka", artifact, release.removeprefix("mirror-")
        return
    yield "org.apache.kafka", "kafka_2.13", release
    yield "org.apache.kafka", "kafka-tools", release
    if not release.startswith("3."):
        for artifact in ("log4j-api", "log4j-core", "log4j-slf4j-impl"):
            yield "org.apache.logging.log4j", artifact, _LOG4J


def _pom(release: str) -> Iterator[str]:
    yield '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
    yield "<groupId>kdump</groupId><artifactId>brokers</artifactId><version>1</version><dependencies>"
    for group, artifact, version in _dependencies(release):
        yield f"<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId><version>{version}</version>"
        yield "</dependency>"
    yield "</dependencies></project>\n"

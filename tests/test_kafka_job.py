"""What of the job `./dev kafka` needs no broker: its page, its counts, its locked jars, what it says without Java."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.kafka import clients, damages, jars, page, ports, run
from tests.kafka.server_log import Loaded, cleaned, loaded, offline
from tests.kafka.tally import Column, Tally, summed

ROOT = Path(__file__).resolve().parent.parent


def test_a_cell_without_a_run_says_so() -> None:
    text = page.written({"4.3.1": {"read": (1234, 0), "dump": (10, 3)}})
    assert "| 4.3.1 | 1,234 | not tested | not tested | 7 of 10 | not tested |" in text
    assert "| 3.9.2 | not tested | not tested | not tested | not tested | not tested |" in text


def test_the_page_is_the_generators() -> None:
    def without_numbers(text: str) -> str:
        return re.sub(r"^\| \d.*$", "|", text, flags=re.MULTILINE)

    assert without_numbers(page.PAGE.read_text()) == without_numbers(page.written({}))


def test_comparisons_count_and_differences_fail(tmp_path: Path) -> None:
    tally = Tally()
    with tally.of("4.3.1", Column.READ) as compare:
        compare.same("one", 1, 1)
        compare.agreed(4)
    with pytest.raises(pytest.fail.Exception, match="1 of 2 comparisons differ:\nend: kdump 7, Kafka 8"):
        _differ(tally)
    tally.write(tmp_path / "results")
    assert json.loads((tmp_path / "results").read_text()) == {"4.3.1": {"read": [7, 1]}}


def test_counts_of_parts_add_up() -> None:
    parts = [{"4.3.1": {"read": [7, 1], "dump": [2, 0]}}, {"4.3.1": {"read": [3, 0]}, "3.9.2": {"read": [1, 0]}}]
    assert summed(parts) == {"4.3.1": {"read": (10, 1), "dump": (2, 0)}, "3.9.2": {"read": (1, 0)}}


def test_the_parts_of_a_release_have_each_file_once() -> None:
    there = {path.relative_to(ROOT).as_posix() for path in (ROOT / "tests" / "kafka").glob("test_*.py")}
    ran = set()
    for release in jars.RELEASES:
        files = [file for part in run._parts([release], ["--rounds", "3"]) for file in part.files]
        assert sorted(files) == sorted(set(files))
        assert there - set(files) - {*run._BY_NAME, *run._WITH_ONE} == set()
        ran |= set(files)
    assert ran == there - set(run._BY_NAME)
    assert [part.files for part in run._parts(["4.3.1"], ["tests/kafka/test_reading.py"])] == [()]


def test_the_worst_part_is_how_a_release_ends() -> None:
    parts = [run._Part("4.3.1", "1", ()), run._Part("4.3.1", "2", ()), run._Part("3.9.2", "1", ())]
    assert run._by_release(parts, [0, 1, 0]) == {"4.3.1": 1, "3.9.2": 0}
    assert run._by_release(parts, [0, 5, 5]) == {"4.3.1": 0, "3.9.2": 5}


def test_a_test_that_compares_nothing_fails() -> None:
    with pytest.raises(pytest.fail.Exception, match="nothing was compared"):
        _compare_nothing(Tally())


def _compare_nothing(tally: Tally) -> None:
    with tally.of("4.3.1", Column.READ):
        pass


def _differ(tally: Tally) -> None:
    with tally.of("4.3.1", Column.READ) as compare:
        compare.same("start", 0, 0)
        compare.same("end", 7, 8)


@pytest.mark.parametrize("release", jars.RELEASES)
def test_every_release_has_its_locked_jars(release: str) -> None:
    locked = jars.locked(release)
    assert {f"kafka-clients-{release}.jar", f"kafka_2.13-{release}.jar", f"kafka-tools-{release}.jar"} <= locked.keys()
    assert all(re.fullmatch("[0-9a-f]{64}", digest) for digest in locked.values())


def test_a_jar_with_other_bytes_is_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KDUMP_KAFKA_JARS", str(tmp_path))
    (tmp_path / "4.3.1").mkdir()
    (tmp_path / "4.3.1" / "kafka-clients-4.3.1.jar").write_bytes(b"another")
    assert "kafka-clients-4.3.1.jar" in jars.missing("4.3.1")


def test_without_java_the_job_says_what_is_not_run() -> None:
    command = [sys.executable, "-m", "tests.kafka.run", "--release", "4.3.1"]
    done = subprocess.run(command, cwd=ROOT, env={"PATH": "/nonexistent"}, capture_output=True, text=True, check=False)
    assert done.returncode == 3
    assert done.stdout == "not run: Kafka 4.3.1: there is no java (a JDK of 17 or later)\n"


def test_a_client_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clients, "KCAT", None)
    assert clients.absent()[-1] == "kcat"
    monkeypatch.setattr(clients, "KCAT", "/usr/bin/kcat")
    assert "kcat" not in clients.absent()


_TAKE_PORTS = """
import sys
from tests.kafka.ports import free_ports
print(*free_ports(int(sys.argv[1])), flush=True)
sys.stdin.read()
"""


def test_two_jobs_never_get_the_same_port(tmp_path: Path) -> None:
    """Before anyone listens there; who ends gives its ports back."""
    first = 28000
    environment = os.environ | {"TMPDIR": str(tmp_path), ports.PORTS: f"{first}-{first + 49}"}
    command = [sys.executable, "-c", _TAKE_PORTS]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}

    def taken(number: int) -> tuple[subprocess.Popen[str], set[str]]:
        job = subprocess.Popen([*command, str(number)], cwd=ROOT, env=environment, **pipes)
        assert job.stdout is not None
        return job, set(job.stdout.readline().split())

    one, ones = taken(20)
    with one:
        other, others = taken(20)
        other.communicate()
        assert len(ones) == len(others) == 20
        assert not ones & others
        refused = subprocess.run(
            [*command, "40"], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
        )
        assert f"no free ports from {first} to {first + 49}" in refused.stderr
    again, agains = taken(40)
    again.communicate()
    assert len(agains) == 40


def test_a_process_gets_a_port_once() -> None:
    given = [port for _ in range(20) for port in ports.free_ports(3)]
    assert len(set(given)) == 60


def test_of_several_who_need_a_thing_one_makes_it(tmp_path: Path) -> None:
    """As the jobs of two releases need the same classes: the second finds what the first has made."""
    makers: list[Path] = []

    def make(path: Path) -> None:
        makers.append(path)
        path.mkdir()
        (path / "class").touch()
        time.sleep(0.05)

    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda _: jars.made_once(tmp_path / "classes", make), range(4)))
    assert len(makers) == 1
    assert set(found) == {tmp_path / "classes"}
    assert (tmp_path / "classes" / "class").exists()
    assert not (tmp_path / "classes.part").exists()


def test_jars_beside_a_release_are_told_of_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KDUMP_KAFKA_JARS", str(tmp_path / "jars"))
    monkeypatch.setenv("PATH", str(tmp_path))
    for name in ("java", "javac"):
        (tmp_path / name).touch(0o755)
    for name in (jars.MIRROR, jars.SPARK_SOURCE):
        told = f"its jars are not in {tmp_path / 'jars' / name}, and there is no mvn to bring them"
        assert jars.why_not(name) == told


def test_the_plain_job_does_not_collect_them() -> None:
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "tests", "--ignore-glob=tests/[!k]*"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert "tests/kafka/" not in done.stdout


def test_the_server_log_is_read() -> None:
    log = (
        "INFO Completed load of Log(dir=/d/a-0, topicId=x, topic=a, partition=0, highWatermark=0, lastStableOffset=0, "
        "logStartOffset=3, logEndOffset=9) with 2 segments, local-log-start-offset 3\n"
        "INFO Cleaner 0: Beginning cleaning of log c-1 (org.apache.kafka)\n"
        "ERROR Stopping serving logs in dir /d2 (kafka.log.LogManager)\n"
    )
    assert loaded(log) == {"/d/a-0": Loaded(3, 9, 2)}
    assert cleaned(log) == {"c-1"}
    assert offline(log) == {"/d2"}


def test_damages_follow_from_their_seed(tmp_path: Path) -> None:
    told = []
    for name in ("one", "other"):
        partition = tmp_path / name / "orders-0"
        partition.mkdir(parents=True)
        (partition / "00000000000000000000.log").write_bytes(bytes(range(200)))
        (partition / "partition.metadata").write_text("version: 0\ntopic_id: x\n")
        done = damages.damage([tmp_path / name], Random(11), 4)
        told.append([(damage.path.relative_to(tmp_path / name), damage.how) for damage in done])
        assert done
    assert told[0] == told[1]

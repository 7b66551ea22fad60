"""What of the job `./dev kafka` needs no broker: its page, its counts, its locked jars, what it says without Java."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from tests.kafka import damages, jars, page
from tests.kafka.server_log import Loaded, cleaned, loaded, offline
from tests.kafka.tally import Column, Tally

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

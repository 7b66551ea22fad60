"""The benchmark measures what it says: its logs are sound, its processes are costed, its program runs."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks import data, processes
from kdump.formats.faults import END
from kdump.storage.log_reader import LogFile

pytestmark = pytest.mark.slow

PROGRAM = Path(__file__).parent.parent / "benchmarks" / "run.py"
SMALL = [replace(log, size=200_000, distinct=3) for log in data.LOGS]


def bench(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, str(PROGRAM), "--published", *arguments], capture_output=True, text=True)


@pytest.mark.parametrize("log", SMALL, ids=lambda log: log.name)
def test_a_log_walks_cleanly_with_all_crcs_valid(log: data.Log, tmp_path: Path) -> None:
    path = data.generate(log, tmp_path)
    assert path == tmp_path / f"{log.name}-0" / "00000000000000000000.log"
    expected = 0
    with LogFile(str(path)) as file:
        for block in file.blocks():
            assert all(block.valid[: block.length])
            assert set(block.attributes[: block.length]) == {log.codec}
            for row in range(block.length):
                assert (block.base_offset[row], block.count[row]) == (expected, log.records)
                expected = block.last_offset[row] + 1
        assert (block.status, block.next_position) == (END, file.size)
        assert file.size <= log.size < file.size + 20_000
    assert expected > 3 * log.records


@pytest.mark.parametrize(("log", "size"), [(data.LZ4_JSON, 115), (data.ZSTD_JSON, 69)], ids=["lz4", "zstd"])
def test_json_compresses_as_it_did_where_kafka_was_measured(log: data.Log, size: int) -> None:
    batches = list(log.batches())
    assert sum(map(len, batches)) / len(batches) / log.records == pytest.approx(size, rel=0.05)


def test_a_log_is_reused_unless_its_size_or_start_differs(tmp_path: Path) -> None:
    log = SMALL[1]
    path = data.generate(log, tmp_path)
    good = path.read_bytes()
    path.write_bytes(good[:-1] + bytes([good[-1] ^ 1]))
    assert data.generate(log, tmp_path).read_bytes() != good
    path.write_bytes(good[:-1])
    assert data.generate(log, tmp_path).read_bytes() == good
    path.write_bytes(b"\1" + good[1:])
    assert data.generate(log, tmp_path).read_bytes() == good
    assert data.generate(log, tmp_path, 2).stat().st_size == pytest.approx(log.size // 2, abs=200)


def test_the_peak_memory_is_the_command_s_own() -> None:
    ours = b"x" * (100 << 20)
    base = processes.run([sys.executable, "-c", "pass"])
    large = processes.run([sys.executable, "-c", "b'x' * (50 << 20)"])
    assert base.peak < len(ours) // 2
    assert 49 << 20 <= large.peak - base.peak < 60 << 20
    assert base.cpu > 0


@pytest.mark.parametrize(
    ("code", "text"), [("raise SystemExit(3)", "exit code 3"), ("import sys; sys.stderr.write('oh')", "oh")]
)
def test_a_command_that_fails_is_an_error(code: str, text: str) -> None:
    with pytest.raises(processes.RunError, match=text):
        processes.run([sys.executable, "-c", code])


def test_a_program_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(processes.RunError, match="FileNotFoundError"):
        processes.run([str(tmp_path / "none")])


def test_a_run(tmp_path: Path) -> None:
    figures = tmp_path / "figures.json"
    done = bench(
        *("--dir", str(tmp_path), "--divisor", "256", "--repeat", "1", "--json", str(figures)),
        *("--only", "one-record", "--only", "decode"),
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("cpu: ")
    result = json.loads(figures.read_text())
    assert set(result["costs"]) == {
        *("start python", "start cat", "start dump-log"),
        *("one-record cat", "one-record headers", "one-record deep", "one-record print"),
    }
    assert all(cost["wall"] > 0 and cost["peak"] > 0 for cost in result["costs"].values())
    assert {name.partition(" ")[0] for name in result["rates"]} == {log.name for log in data.LOGS}
    assert all(rate > 0 for rate in result["rates"].values())
    assert [target["name"] for target in result["targets"]] == [
        "tiny file, CPU",
        "one-record, headers: faster than Kafka",
        "one-record, print: faster than Kafka",
        "large-batches, decode in the kernel: faster than aiokafka",
        "large-batches, walk, CRC and decode: faster than aiokafka",
        "one-record, decode in the kernel: faster than aiokafka",
        "one-record, walk, CRC and decode: faster than aiokafka",
        "peak memory over the interpreter's",
    ]
    for target in result["targets"]:
        assert target["name"] in done.stdout


def test_lookups_are_right_and_few_bytes_are_read(tmp_path: Path) -> None:
    figures = tmp_path / "figures.json"
    done = bench(
        *("--dir", str(tmp_path), "--divisor", "512", "--repeat", "1", "--json", str(figures), "--only", "lookup")
    )
    assert (done.returncode, done.stderr) == (0, "")
    result = json.loads(figures.read_text())
    assert set(result["lookups"]) == {"offset", "time"}
    for cost in result["lookups"].values():
        assert 0 < cost["seconds"] <= cost["slow"]
        assert 0 < cost["read"] < 100_000
    assert {target["name"] for target in result["targets"]} >= {
        "lookup by offset",
        "lookup by offset: read of the log",
        "lookup by time",
        "lookup by time: read of the log",
    }


def test_the_timestamps_of_a_searched_log_rise(tmp_path: Path) -> None:
    path = data.generate(replace(data.SEARCHED, size=20_000, distinct=3), tmp_path)
    with LogFile(str(path)) as file:
        (block,) = file.blocks()
        assert all(block.valid[: block.length])
        assert block.length > 9
        timestamps = list(block.max_timestamp[: block.length])
    assert timestamps == list(range(data.BASE_TIMESTAMP, data.BASE_TIMESTAMP + len(timestamps)))


def test_a_missed_target_fails_only_when_checked(tmp_path: Path) -> None:
    # of so small a file nothing but the start is measured, which no 15th of Kafka's seconds covers
    small = ("--dir", str(tmp_path), "--divisor", "1024", "--repeat", "1", "--only", "lz4")
    assert bench(*small).returncode == 0
    checked = bench(*small, "--check")
    assert checked.returncode == 1
    assert "| NO " in checked.stdout

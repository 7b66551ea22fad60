"""Bytes that fail their CRC are not sent, whatever is broken; what comes before and after them is."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kdump.server.background import serve
from kdump.server.pieces import OnDamage
from tests.sampling import sampled
from tests.serve.clients import READERS, UNCOMMITTED, confluent, kafka_python
from tests.serve.data import Seen, build, records_in

STARTS = {"trimmed-0": 23}
DAMAGED = "codec-none-0"

FAULTS = (
    "flip-payload-bit",
    "wrong-crc",
    "wrong-size",
    "zero-batch",
    "unknown-magic",
    "duplicate-batch",
    "swap-batches",
    "wrong-offset-delta",
    "far-offset",
)


def read(server: str, name: str = "confluent-kafka") -> list[Seen]:
    return READERS[name](server, UNCOMMITTED)


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> list[Seen]:
    return records_in(build(tmp_path_factory.mktemp("sound") / "data"), STARTS)


@pytest.mark.parametrize("fault", sampled(FAULTS, 3))
def test_a_partition_ends_before_the_damage(fault: str, tmp_path: Path, sound: list[Seen]) -> None:
    log_dir = build(tmp_path / "data", [f"{fault}:topic=codec-none,partition=0,segment=1,batch=1"])
    said: list[str] = []
    with serve(str(log_dir), say=said.append) as server:
        found = read(server)
        consumer = kafka_python(server, UNCOMMITTED)
    assert consumer == found
    lost = sorted(set(sound) - set(found))
    assert not set(found) - set(sound)
    assert lost
    assert {seen.partition for seen in lost} == {DAMAGED}
    offsets = [seen.offset for seen in lost]
    if fault != "swap-batches":  # there the second of the two is damage
        assert offsets == list(range(offsets[0], 80))
    end = max(seen.offset for seen in found if seen.partition == DAMAGED) + 1
    assert [line for line in said if line.endswith(f"the partition ends at offset {end}") and DAMAGED in line], said


@pytest.mark.parametrize("fault", sampled(FAULTS, 3))
def test_damage_can_be_skipped(fault: str, tmp_path: Path, sound: list[Seen]) -> None:
    log_dir = build(tmp_path / "data", [f"{fault}:topic=codec-none,partition=0,segment=1,batch=1"])
    with serve(str(log_dir), on_damage=OnDamage.SKIP) as server:
        found = read(server)
    lost = set(sound) - set(found)
    assert not set(found) - set(sound)
    assert {seen.partition for seen in lost} <= {DAMAGED}
    assert len(lost) <= 14
    assert max(seen.offset for seen in found if seen.partition == DAMAGED) == 79


def test_damage_can_be_served_as_a_broker_would(tmp_path: Path) -> None:
    log_dir = build(tmp_path / "data", ["flip-payload-bit:topic=codec-none,partition=0,segment=1,batch=1"])
    with serve(str(log_dir), on_damage=OnDamage.SERVE) as server, pytest.raises(Exception, match=r"(?i)corrupt|crc"):
        kafka_python(server, UNCOMMITTED)


@pytest.mark.parametrize("fault", ["truncate-tail", "zero-tail", "garbage-tail", "preallocated-log"])
def test_what_follows_the_last_batch_is_no_damage(fault: str, tmp_path: Path, sound: list[Seen]) -> None:
    log_dir = build(tmp_path / "data", [f"{fault}:topic=codec-zstd,partition=0"])
    said: list[str] = []
    with serve(str(log_dir), say=said.append) as server:
        found = read(server)
    lost = sorted(set(sound) - set(found))
    assert not set(found) - set(sound)
    # only a log that was cut has lost something: its last batch
    assert [seen.partition for seen in lost] == (["codec-zstd-0"] * 2 if fault == "truncate-tail" else [])
    assert said == []
    assert max(seen.offset for seen in found if seen.partition == "codec-zstd-0") >= 77


@pytest.mark.parametrize("fault", ["index-missing", "index-shift", "timeindex-missing", "index-zero-tail"])
def test_indexes_are_not_trusted(fault: str, tmp_path: Path, sound: list[Seen]) -> None:
    log_dir = build(tmp_path / "data", [f"{fault}:topic=codec-lz4,partition=0"])
    with serve(str(log_dir)) as server:
        assert read(server) == sound


def test_a_file_that_changes_is_checked_again(tmp_path: Path, sound: list[Seen]) -> None:
    log_dir = build(tmp_path / "data")
    log = sorted((log_dir / DAMAGED).glob("*.log"))[1]
    with serve(str(log_dir)) as server:
        assert read(server) == sound
        data = bytearray(log.read_bytes())
        data[100] ^= 1
        log.write_bytes(data)
        base = int(log.stem)
        found = [seen.offset for seen in read(server) if seen.partition == DAMAGED]
    assert found == list(range(base))


def test_reading_changes_nothing(tmp_path: Path) -> None:
    faults = ["flip-payload-bit:topic=codec-none,partition=0", "truncate-tail:topic=codec-lz4"]
    log_dir = build(tmp_path / "data", faults)

    def state() -> dict[str, tuple[int, int]]:
        found = (path for path in [log_dir, *log_dir.rglob("*")])
        return {str(path): (os.stat(path).st_size, os.stat(path).st_mtime_ns) for path in found}

    before = state()
    with serve(str(log_dir)) as server:
        confluent(server, UNCOMMITTED)
    assert state() == before

"""Writing without Spark: staged batches, partitions, and logs that take their places whole or not at all."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from kafka.partitioner.default import murmur2 as kafkas_murmur2

from kdump.columns.arrays import HEADERS
from kdump.disk import durable
from kdump.errors import KdumpError, RefusedError
from kdump.findings.kind import NOTE
from kdump.library.verifying import verify
from kdump.spark import commit
from kdump.spark.commit import Commit
from kdump.spark.staging import HELD_BYTES, Counts, Stage, Staged
from kdump.spark.write_options import write_options
from kdump.storage.partition import PartitionLog
from tests.columns.reading import expected_rows
from tests.sampling import sampled
from tests.spark.building import NOW, log_directory


def rows(count: int, **columns: pa.Array) -> pa.RecordBatch:
    """Rows with a value each, and other columns."""
    return pa.RecordBatch.from_pydict({"value": pa.array([b"v%d" % at for at in range(count)]), **columns})


def staged(folder: Path, *batches: pa.RecordBatch, counts: Counts | None = None, **options: str) -> list[Staged]:
    """What a task makes of some rows."""
    asked = write_options({"path": str(folder), "topic": "t", **options})
    counts = counts or Counts({}, asked.to.partitions, False)
    return Stage(str(folder / ".staging" / "task"), asked, counts).write(batches)


def written(
    root: Path, *batches: pa.RecordBatch, replaces: bool = False, existing: dict[str, int] | None = None, **options: str
) -> None:
    """Write some rows to a log directory."""
    asked = write_options({"path": str(root), "topic": "t", **options})
    counts = Counts(existing or {}, asked.to.partitions, replaces)
    staging = root / f".staging-{len(list(root.glob('.staging*')))}"
    files = Stage(str(staging / "task"), asked, counts).write(batches)
    Commit(asked, str(staging), counts, replaces=replaces).run(files)
    for folder, _, names in os.walk(staging, topdown=False):
        for name in names:
            os.remove(os.path.join(folder, name))
        os.rmdir(folder)


def values(path: Path) -> list[bytes | None]:
    return [row.value for row in expected_rows(path)]


def faults(root: Path) -> list[str]:
    """What a verification minds."""
    return [found.code for found in verify(root, deep=True) if found.severity != NOTE]


# --- rows to partitions


def test_keys_choose_partitions_as_kafkas_producer_does(tmp_path: Path) -> None:
    keys = [b"key %d" % at for at in range(50)] + [b""]
    found = staged(tmp_path, rows(51, key=pa.array(keys)), numPartitions="7")
    expected: dict[int, int] = {}
    for key in keys:
        number = (kafkas_murmur2(key) & 0x7FFFFFFF) % 7
        expected[number] = expected.get(number, 0) + 1
    assert {each.number: each.records for each in found} == expected


def test_a_column_of_partitions_goes_before_keys_and_null_ones_go_anywhere(tmp_path: Path) -> None:
    numbers = pa.array([5, None, None], pa.int32())
    keys = pa.array([b"a", b"b", None])
    found = staged(tmp_path, rows(3, key=keys, partition=numbers), numPartitions="2")
    assert sum(each.records for each in found) == 3
    assert {each.number for each in found} <= {0, 1, 5}
    assert next(each.records for each in found if each.number == 5) == 1


def test_rows_without_keys_are_spread(tmp_path: Path) -> None:
    found = staged(tmp_path, *[rows(10)] * 6, numPartitions="3")
    assert {each.number: each.records for each in found} == {0: 20, 1: 20, 2: 20}


@pytest.mark.parametrize(
    ("existing", "asked", "replaces", "count"),
    [
        ({"t": 4}, None, False, 4),
        ({"t": 4}, 2, False, 4),
        ({"t": 4}, 2, True, 2),
        ({"t": 4}, None, True, 4),
        ({}, 3, False, 3),
        ({}, None, True, 1),
    ],
)
def test_how_many_partitions_a_topic_has(
    existing: dict[str, int], asked: int | None, replaces: bool, count: int
) -> None:
    assert Counts(existing, asked, replaces).of("t") == count


def test_topics_by_column(tmp_path: Path) -> None:
    options = write_options({"path": str(tmp_path)})
    stage = Stage(str(tmp_path / "s"), options, Counts({}, None, False))
    found = stage.write([rows(3, topic=pa.array(["a", "b", "a"]))])
    assert {(each.topic, each.number, each.records) for each in found} == {("a", 0, 2), ("b", 0, 1)}


@pytest.mark.parametrize(
    ("columns", "text"),
    [
        ({"topic": pa.array(["../../etc"])}, "cannot be a topic's name"),
        ({"topic": pa.array([None], pa.string())}, "a row has no topic"),
        ({"topic": pa.array(["t"]), "partition": pa.array([-1], pa.int32())}, "cannot be the number of a partition"),
    ],
)
def test_rows_that_cannot_be_written(tmp_path: Path, columns: dict[str, pa.Array], text: str) -> None:
    options = write_options({"path": str(tmp_path)})
    with pytest.raises(KdumpError, match=text):
        Stage(str(tmp_path / "s"), options, Counts({}, None, False)).write([rows(1, **columns)])


def test_small_stretches_of_a_partition_share_batches(tmp_path: Path) -> None:
    from kdump.storage.log_reader import LogFile

    [only] = staged(tmp_path, *[rows(3)] * 40)
    with LogFile(only.path) as log:
        counts = [count for block in log.blocks() for count in block.count[: block.length]]
    assert counts == [120]
    assert 40 * rows(3).nbytes < HELD_BYTES


# --- logs


def test_a_new_log_directory_is_sound(tmp_path: Path) -> None:
    root = tmp_path / "new"
    root.mkdir()
    header = pa.array([[{"key": "h", "value": b"x"}], None, None], HEADERS)
    content = rows(3, headers=header, timestamp=pa.array([NOW * 1000, None, -1000], pa.timestamp("us")))
    written(root, content, numPartitions="2", codec="zstd")
    assert sorted(os.listdir(root)) == [
        ".kafka_cleanshutdown", "log-start-offset-checkpoint", "meta.properties", "recovery-point-offset-checkpoint",
        "replication-offset-checkpoint", "t-0", "t-1",
    ]  # fmt: skip
    assert faults(root) == []
    [full] = [path for path in (root / "t-0", root / "t-1") if values(path)]
    found = expected_rows(full)
    assert [row.value for row in found] == [b"v0", b"v1", b"v2"]
    assert (found[0].timestamp, found[2].timestamp, found[0].headers) == (NOW, -1, (("h", b"x"),))
    assert found[1].timestamp > NOW


def test_appending_leaves_what_is_there(tmp_path: Path) -> None:
    root = tmp_path / "logs"
    root.mkdir()
    small: dict[str, Any] = {"segment.bytes": "2000"}
    written(root, rows(500), **small)
    before = {path.name: path.stat().st_ino for path in (root / "t-0").glob("*.log")}
    content = values(root / "t-0")
    written(root, rows(5), existing={"t": 1}, **small)
    assert values(root / "t-0") == [*content, *(b"v%d" % at for at in range(5))]
    assert faults(root) == []
    after = {path.name: path.stat().st_ino for path in (root / "t-0").glob("*.log")}
    shared = [name for name in before if after[name] == before[name]]
    assert len(shared) == len(before) - 1  # all but the last one are not even copied
    metadata = PartitionLog(str(root / "t-0")).metadata
    assert metadata is not None


def test_appending_to_what_a_broker_wrote(tmp_path: Path) -> None:
    root = log_directory(tmp_path / "logs", t_0=50, other_0=4)
    before = expected_rows(root / "t-0")
    (root / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":-1}')
    written(root, rows(5), existing={"t": 1})
    assert expected_rows(root / "t-0")[:50] == before
    assert len(expected_rows(root / "t-0")) == 55
    assert (root / ".kafka_cleanshutdown").exists()
    assert values(root / "other-0")


def test_overwriting_replaces_whole_topics_and_no_others(tmp_path: Path) -> None:
    root = tmp_path / "logs"
    root.mkdir()
    written(root, rows(9), numPartitions="3")
    other: dict[str, Any] = {"topic": "u"}
    written(root, rows(4), **other)
    written(root, rows(2), replaces=True, existing={"t": 3}, numPartitions="2")
    assert sorted(path.name for path in root.iterdir() if path.is_dir()) == ["t-0", "t-1", "u-0"]
    assert sum(len(values(root / name)) for name in ("t-0", "t-1")) == 2
    assert len(values(root / "u-0")) == 4
    assert faults(root) == []


def test_a_log_directory_in_use_is_refused(tmp_path: Path) -> None:
    root = tmp_path / "logs"
    root.mkdir()
    written(root, rows(2))
    before = values(root / "t-0")
    holder = os.fork()
    if holder == 0:  # the lock of another process
        with open(root / ".lock", "wb") as lock:
            fcntl.lockf(lock, fcntl.LOCK_EX)
            open(root / "locked", "wb").close()
            import time

            time.sleep(60)
        os._exit(0)
    try:
        while not (root / "locked").exists():
            pass
        with pytest.raises(RefusedError, match="a broker is running on"):
            written(root, rows(2), existing={"t": 1})
    finally:
        os.kill(holder, 9)
        os.waitpid(holder, 0)
    assert values(root / "t-0") == before


class Killed(BaseException):
    """The end of the process."""


@pytest.fixture(params=["exchange", "rename"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """How directories change places: the system's exchange, or two renames where it has none."""
    if request.param == "rename":
        monkeypatch.setattr(durable, "exchange", lambda first, second: False)
    return str(request.param)


def calls_until_death(monkeypatch: pytest.MonkeyPatch, at: int) -> Iterator[None]:
    """Let the process die at the call number `at` of those that change directories or files beside the logs."""
    count = iter(range(at, -1, -1))

    def dying(real: Callable[..., object]) -> Callable[..., object]:
        def call(*arguments: object, **named: object) -> object:
            if next(count, 0) == 0:
                raise Killed
            return real(*arguments, **named)

        return call

    with monkeypatch.context() as patch:
        for name in ("put_in_place", "note_offsets", "put_clean_mark", "open_log", "copy_log"):
            patch.setattr(commit, name, dying(getattr(commit, name)))
        yield


@pytest.mark.parametrize("at", sampled(range(9), 2))
def test_each_partition_is_old_or_new_after_a_kill(
    tmp_path: Path, way: str, at: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "logs"
    root.mkdir()
    numbers = pa.array([0, 1], pa.int32())
    written(root, rows(2, partition=numbers))
    for _ in calls_until_death(monkeypatch, at):
        try:
            written(root, rows(2, partition=numbers), existing={"t": 2})
            died = False
        except Killed:
            died = True
    assert died == (at < 9)
    for number in range(2):
        log = root / f"t-{number}"
        assert values(log) in ([b"v%d" % number], [b"v%d" % number] * 2)
        assert not [code for code in (each.code for each in verify(log, deep=True)) if "LOG" in code]


def test_directories_change_places(tmp_path: Path, way: str) -> None:
    for name in ("new", "final"):
        (tmp_path / name).mkdir()
        (tmp_path / name / name).touch()
    durable.put_in_place(str(tmp_path / "new"), str(tmp_path / "final"), str(tmp_path / "aside"))
    assert os.listdir(tmp_path / "final") == ["new"]
    assert os.listdir(tmp_path / "aside") == ["final"]
    durable.put_in_place(str(tmp_path / "final"), str(tmp_path / "first"), str(tmp_path / "none"))
    assert os.listdir(tmp_path / "first") == ["new"]


def test_a_staged_file_that_was_cut_short_is_noticed(tmp_path: Path) -> None:
    root = tmp_path / "logs"
    root.mkdir()
    [file] = staged(root, rows(5))
    with open(file.path, "r+b") as batches:
        batches.truncate(os.path.getsize(file.path) - 1)
    asked = write_options({"path": str(root), "topic": "t"})
    with pytest.raises(KdumpError, match="cut short"):
        Commit(asked, str(root / ".staging"), Counts({}, None, False), replaces=False).run([file])
    assert not (root / "t-0").exists()

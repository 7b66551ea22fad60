"""Reading beside a broker that appends, rolls, deletes, swaps and renames while we look."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kdump.disk import locks, reading
from kdump.disk.locks import LockHolder, check_not_locked, holding, lock_holder
from kdump.disk.reading import list_directory, open_for_reading
from kdump.errors import BrokerRunsError, KdumpRunsError
from kdump.formats import names
from kdump.formats.index_entries import (
    OffsetIndexEntry,
    TimeIndexEntry,
    encode_offset_entries,
    encode_time_entries,
)
from kdump.query.inventory import partition_info
from kdump.storage import live
from kdump.storage.live import held, hold_partition, tally, was_deleted
from kdump.storage.partition import PartitionLog
from tests.storage.building import batch, segment_file

Step = Callable[[], object]


@pytest.fixture(autouse=True)
def fresh_tally() -> Iterator[None]:
    tally.clear()
    yield
    tally.clear()


@pytest.fixture
def partition(tmp_path: Path) -> Path:
    """Three segments of two batches each, with indexes; a broker is running on the directory around them."""
    folder = tmp_path / "data" / "orders-0"
    for base in (0, 4, 8):
        add_segment(folder, base)
    return folder


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "lock_holder", lambda path: LockHolder(4711) if path.endswith("data") else None)


def add_segment(folder: Path, base: int, value: bytes = b"value") -> None:
    first = batch(base, value=value)
    segment_file(folder, first + batch(base + 2, value=value), base)
    name(folder, base, "index").write_bytes(encode_offset_entries([OffsetIndexEntry(base + 3, len(first))], base))
    name(folder, base, "timeindex").write_bytes(encode_time_entries([TimeIndexEntry(1001, base + 3)], base))


def name(folder: Path, base: int, suffix: str) -> Path:
    return folder / names.segment_file_name(base, f".{suffix}")


def offsets(log: PartitionLog) -> list[int]:
    return [item.offset for item in log.records()]  # type: ignore[union-attr]  # damage fails the test


def after_listing(monkeypatch: pytest.MonkeyPatch, *steps: Step) -> None:
    """Let each step happen after one listing of a directory, the first after the first."""
    left = list(steps)

    def listed(path: str) -> tuple[list[str], list[str]]:
        found = list_directory(path)
        if left:
            left.pop(0)()
        return found

    monkeypatch.setattr(live, "list_directory", listed)


def after_opening(monkeypatch: pytest.MonkeyPatch, ending: str, step: Step) -> None:
    """Let the step happen once, after a file with this ending was opened."""
    left = [step]

    def opened(path: str) -> int:
        descriptor = open_for_reading(path)
        if path.endswith(ending) and left:
            left.pop()()
        return descriptor

    monkeypatch.setattr(live, "open_for_reading", opened)


class TestLock:
    @pytest.fixture
    def locked(self, tmp_path: Path) -> Iterator[tuple[Path, int]]:
        (tmp_path / names.META_PROPERTIES).touch()
        (tmp_path / names.LOCK).touch()
        ready, done = os.pipe(), os.pipe()
        child = os.fork()
        if not child:
            try:
                with open(tmp_path / names.LOCK, "r+b") as file:
                    fcntl.lockf(file, fcntl.LOCK_EX)
                    os.write(ready[1], b"x")
                    os.close(done[1])
                    os.read(done[0], 1)
            finally:
                os._exit(0)
        os.read(ready[0], 1)
        yield tmp_path, child
        os.close(done[1])
        os.waitpid(child, 0)

    def test_the_process_is_named(self, locked: tuple[Path, int]) -> None:
        folder, process = locked
        assert lock_holder(str(folder)) == LockHolder(process)
        with pytest.raises(BrokerRunsError) as refused:
            check_not_locked(str(folder))
        assert str(refused.value) == f"a broker is running on {folder} (process {process} holds .lock)."

    def test_a_lock_file_of_somebody_else(self, locked: tuple[Path, int], monkeypatch: pytest.MonkeyPatch) -> None:
        def refuse(path: str) -> int:
            raise PermissionError(13, "Permission denied", path)

        monkeypatch.setattr(reading, "open_for_reading", refuse)
        folder, process = locked
        assert lock_holder(str(folder)) == LockHolder(process)

    def test_a_leftover_is_none(self, tmp_path: Path) -> None:
        assert lock_holder(str(tmp_path)) is None
        (tmp_path / names.LOCK).touch()
        assert lock_holder(str(tmp_path)) is None
        assert sorted(os.listdir(tmp_path)) == [names.LOCK]

    def test_looking_does_not_lose_our_own(self, tmp_path: Path) -> None:
        (tmp_path / names.META_PROPERTIES).touch()
        with holding(str(tmp_path)):
            assert lock_holder(str(tmp_path)) is None
            child = os.fork()
            if not child:
                locks._OWN.clear()
                os._exit(lock_holder(str(tmp_path)) is None)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


class TestOnePicture:
    def test_nothing_is_held_without_a_broker(self, partition: Path) -> None:
        with held(str(partition)) as log:
            assert log is not None
            name(partition, 0, "log").unlink()
            with pytest.raises(FileNotFoundError):
                offsets(log)
        assert not tally.brokers

    def test_what_is_deleted_can_be_read_to_its_end(self, partition: Path, broker: None) -> None:
        with held(str(partition)) as log:
            assert log is not None
            for file in list(partition.iterdir()):
                file.rename(f"{file}.deleted")
            assert offsets(log) == list(range(12))
            assert PartitionLog(str(partition)).files.keys() == log.files.keys()
            info = partition_info(log)
            assert (info.end_offset, info.errors, info.problems) == (12, (), ())
        assert offsets(PartitionLog(str(partition))) == []
        assert str(partition.parent) in tally.brokers

    def test_a_segment_vanishes_between_listing_and_opening(
        self, partition: Path, broker: None, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def unlinked() -> None:
            for path in list(partition.glob("*00.*")):
                path.unlink()

        after_listing(monkeypatch, unlinked)
        with held(str(partition)) as log:
            assert log is not None
            assert offsets(log) == list(range(4, 12))

    def test_the_topic_is_deleted(self, partition: Path, broker: None, monkeypatch: pytest.MonkeyPatch) -> None:
        gone = partition.with_name("orders-0.0123456789abcdef0123456789abcdef-delete")
        after_listing(monkeypatch, lambda: partition.rename(gone))
        with held(str(partition)) as log:
            assert log is None
        assert tally.deleted == {str(partition)}
        assert was_deleted(str(partition), FileNotFoundError())
        assert not was_deleted(str(partition.parent.parent / "other" / "x-0"), FileNotFoundError())

    def test_cleaned_segments_are_swapped_in(self, partition: Path, broker: None) -> None:
        """The old ones have lost their names, the new one has not got its name yet."""
        for path in [*partition.glob("*00.*"), *partition.glob("*04.*")]:
            path.rename(f"{path}.deleted")
        segment_file(partition, batch(2), 0)
        name(partition, 0, "log").rename(name(partition, 0, "log.swap"))
        pauses: list[float] = []

        def pause(seconds: float) -> None:
            pauses.append(seconds)
            name(partition, 0, "log.swap").rename(name(partition, 0, "log"))

        hold = hold_partition(str(partition), pause)
        assert hold is not None
        with hold:
            assert offsets(PartitionLog(str(partition))) == [2, 3, 8, 9, 10, 11]
        assert len(pauses) == 1

    def test_an_index_and_a_log_of_different_segments_under_one_name(
        self, partition: Path, broker: None, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def swap() -> None:
            for path in [*partition.glob("*00.*"), *partition.glob("*04.*")]:
                path.unlink()
            add_segment(partition, 0, b"another")

        after_opening(monkeypatch, "00.index", swap)
        with held(str(partition)) as log:
            assert log is not None
            assert offsets(log) == [0, 1, 2, 3, 8, 9, 10, 11]
            with log.segments[0].offset_index() as index:
                assert index.entry(0).position == len(batch(0, value=b"another"))

    def test_a_name_that_the_listing_missed(
        self, partition: Path, broker: None, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        calls = []

        def listed(path: str) -> tuple[list[str], list[str]]:
            directories, files = list_directory(path)
            calls.append(path)
            return directories, [each for each in files if len(calls) > 1 or not each.startswith("0" * 19 + "4")]

        monkeypatch.setattr(live, "list_directory", listed)
        with held(str(partition)) as log:
            assert log is not None
            assert offsets(log) == list(range(12))

    def test_a_new_segment_makes_no_second_look(
        self, partition: Path, broker: None, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        after_listing(monkeypatch, lambda: add_segment(partition, 12))
        with held(str(partition)) as log:
            assert log is not None
            assert offsets(log) == list(range(12))

    def test_it_gives_up_after_four_times_and_takes_what_there_is(
        self, partition: Path, broker: None, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def lose() -> None:
            for path in sorted(partition.glob("*.log"))[:1]:
                path.unlink()

        for base in range(12, 40, 4):
            add_segment(partition, base)
        after_listing(monkeypatch, lose, lose, lose, lose)
        with held(str(partition)) as log:
            assert log is not None
            assert offsets(log) == list(range(16, 40))


class TestGrowingEnd:
    def test_what_is_appended_later_does_not_count(self, partition: Path, broker: None) -> None:
        with held(str(partition)) as log:
            assert log is not None
            with open(name(partition, 8, "log"), "ab") as file:
                file.write(batch(12))
            with open(name(partition, 8, "index"), "ab") as file:
                file.write(encode_offset_entries([OffsetIndexEntry(13, 200)], 8))
            assert offsets(log) == list(range(12))
            with log.segments[-1].offset_index() as index:
                assert index.entries == 1
        assert tally.growing == {str(partition)}

    def test_the_index_grows_before_the_log_is_measured(
        self, partition: Path, broker: None, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def append() -> None:
            with open(name(partition, 8, "log"), "ab") as file:
                file.write(batch(12))

        after_opening(monkeypatch, "08.index", append)
        with held(str(partition)) as log:
            assert log is not None
            assert offsets(log) == list(range(14))
        assert not tally.growing

    @pytest.mark.parametrize(
        "tail", [batch(12)[:-1], batch(12)[:30], batch(12)[:5], bytes(100), bytes(5)], ids=range(5)
    )
    def test_a_batch_that_is_being_written(self, partition: Path, broker: None, tail: bytes) -> None:
        with open(name(partition, 8, "log"), "ab") as file:
            file.write(tail)
        with held(str(partition)) as log:
            assert log is not None
            assert offsets(log) == list(range(12))
        assert tally.growing == {str(partition)}

    def test_damage_before_the_end_is_none_of_that(self, partition: Path, broker: None) -> None:
        path = name(partition, 8, "log")
        data = bytearray(path.read_bytes())
        data[70] ^= 1
        path.write_bytes(data)
        with held(str(partition)) as log:
            assert log is not None
            with log.segments[-1].open_log() as file:
                assert file.size == len(data)
            assert any(not hasattr(item, "offset") for item in log.records())

    def test_room_that_indexes_keep(self, partition: Path, broker: None) -> None:
        for kind in ("index", "timeindex"):
            with open(name(partition, 8, kind), "ab") as file:
                file.write(bytes(240))
        with held(str(partition)) as log:
            assert log is not None
            with log.segments[-1].offset_index() as index, log.segments[-1].time_index() as times:
                assert (index.entries, times.entries) == (1, 1)

    def test_a_segment_is_rolled_while_its_index_is_looked_at(
        self, partition: Path, broker: None, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = name(partition, 8, "index")
        entry = path.read_bytes()
        path.write_bytes(entry + bytes(240))
        after_listing(monkeypatch, lambda: None, lambda: os.truncate(path, len(entry)))
        with held(str(partition)) as log:
            assert log is not None
            with log.segments[-1].offset_index() as index:
                assert index.entries == 1

    def test_files_without_room_are_opened_when_they_are_read(
        self, partition: Path, broker: None, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(live, "room_for_files", lambda: 5)
        with held(str(partition)) as log:
            assert log is not None
            assert offsets(log) == list(range(12))


def test_another_kdump_that_holds_the_lock_is_no_broker(tmp_path: Path) -> None:
    (tmp_path / names.META_PROPERTIES).write_text("version=1\nnode.id=1\ncluster.id=abc\n")
    script = tmp_path / "bin" / "kdump"
    script.parent.mkdir()
    script.write_text(
        "import fcntl, sys\n"
        "file = open(sys.argv[1], 'a')\n"
        "fcntl.lockf(file, fcntl.LOCK_EX)\n"
        "print('held', flush=True)\n"
        "sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, str(script), str(tmp_path / names.LOCK)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"held\n"
        assert lock_holder(str(tmp_path)) == LockHolder(other.pid, is_kdump=True)
        with pytest.raises(KdumpRunsError) as refused:
            check_not_locked(str(tmp_path))
        expected = f"another kdump is changing {tmp_path} (process {other.pid} holds .lock)."
        assert str(refused.value) == expected
        command = [sys.executable, "-m", "kdump", "repair", str(tmp_path)]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 4
        assert done.stderr.startswith("Refused: another kdump is changing ")
        assert f"(process {other.pid} holds .lock)." in done.stderr
        assert "Nothing was changed. Wait until it has ended, then run this again." in done.stderr
        other.communicate(b"")

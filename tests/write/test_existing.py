"""Appending to a log that is there: what is refused untouched, and that a kill at any moment loses nothing."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kdump.change import journal
from kdump.change.apply import apply_plan
from kdump.change.change import Change
from kdump.change.place import new_change
from kdump.change.states import state_of
from kdump.errors import KdumpError, NameFormatError, RefusedError
from kdump.formats import names
from kdump.mend.as_broker import plan_recovery
from kdump.operations.append import NewLog, Opening, opened
from kdump.operations.open_log import NotAppendableError, open_log
from kdump.recovery.broker_start import directory_state
from kdump.recovery.outcome import LoadOutcome
from kdump.settings.writing import WritingSettings
from kdump.storage.directory import LogDirectory
from kdump.storage.open import open_log as read_log
from kdump.write.log_dir import LogDirWriter, read_offsets
from kdump.write.log_writer import LogWriter
from kdump.write.record_source import Message
from kdump.write.sessions import Producer
from tests.change.kept import change_files
from tests.sampling import sampled
from tests.write.building import NOW, Clock, files, messages, records, startup

CONFIG = WritingSettings(segment_bytes=1200, index_interval_bytes=200, segment_index_bytes=120)
HOW = Opening(clock=Clock())


def fill(log: LogWriter, count: int = 6) -> None:
    producer = Producer(5, is_transactional=True)
    for number in range(count):
        log.append(messages(2, size=30, start=NOW + 100 * number))
        producer.send(log, messages(1, start=NOW + 100 * number))
        producer.commit() if number % 2 else producer.abort()


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A log directory with two partitions, closed in order."""
    with LogDirWriter(str(tmp_path / "data"), clock=Clock(), durable=False) as log_dir:
        for partition in range(2):
            fill(log_dir.create_log("orders", partition, CONFIG, topic_id=bytes(15) + b"\1"))
    return tmp_path / "data"


def test_goes_on_where_the_log_is(data: Path) -> None:
    before = records(data / "orders-0")
    other = files(data / "orders-1")
    with opened(str(data / "orders-0"), CONFIG, HOW) as log:
        assert not (data / names.CLEAN_SHUTDOWN).exists()
        assert log.end_offset == 24
        fill(log)
    assert records(data / "orders-0")[: len(before)] == before
    assert len(records(data / "orders-0")) == 48
    assert files(data / "orders-1") == other
    assert (data / names.CLEAN_SHUTDOWN).read_bytes() == b'{"version":0,"brokerEpoch":-1}'
    assert not (data / names.LOCK).exists()
    for name in (names.RECOVERY_POINT_CHECKPOINT, names.REPLICATION_CHECKPOINT):
        assert read_offsets(str(data), name) == {("orders", 0): 48, ("orders", 1): 24}


def test_same_files_as_if_the_log_had_never_been_closed(tmp_path: Path, data: Path) -> None:
    """But for index entries, which are counted from the opening on, and the snapshot of the closing."""
    with opened(str(data / "orders-0"), CONFIG, HOW) as log:
        fill(log)
    with LogDirWriter(str(tmp_path / "whole"), clock=Clock(), durable=False) as log_dir:
        whole = log_dir.create_log("orders", 0, CONFIG, topic_id=bytes(15) + b"\1")
        fill(whole)
        fill(whole)
    got, want = files(data / "orders-0"), files(tmp_path / "whole" / "orders-0")
    assert got.pop(f"{24:020d}.snapshot")
    assert got.keys() == want.keys()
    changed = {name for name in want if got[name] != want[name]}
    assert {Path(name).suffix for name in changed} <= {".index", ".timeindex"}


def test_a_new_log(data: Path) -> None:
    how = Opening(clock=Clock(), create=NewLog(100, bytes(15) + b"\2"))
    with opened(str(data / "new-3"), CONFIG, how) as log:
        log.append(messages(3))
    assert [record.offset for record in records(data / "new-3")] == [100, 101, 102]
    assert read_offsets(str(data), names.RECOVERY_POINT_CHECKPOINT)["new", 3] == 103
    with opened(str(data / "new-3"), CONFIG, how) as log:
        assert log.end_offset == 103


def test_a_partition_directory_alone(tmp_path: Path, data: Path) -> None:
    shutil.copytree(data / "orders-0", tmp_path / "alone" / "orders-0")
    with opened(str(tmp_path / "alone" / "orders-0"), CONFIG, HOW) as log:
        log.append(messages(1))
    assert os.listdir(tmp_path / "alone") == ["orders-0"]
    assert len(records(tmp_path / "alone" / "orders-0")) == 25


@pytest.mark.parametrize("backup", [True, False])
def test_files_beside_the_log_are_made_anew_after_an_unclean_shutdown(data: Path, backup: bool) -> None:
    (data / names.CLEAN_SHUTDOWN).unlink()
    index = max((data / "orders-0").glob("*.index"))
    content = index.read_bytes() + bytes(80)
    index.write_bytes(content)
    with opened(str(data / "orders-0"), CONFIG, Opening(clock=Clock(), backup=backup)) as log:
        assert index.read_bytes() == content[:-80]
        kept = log.change
    assert (kept is not None) == backup == bool(change_files(data))


def test_told_that_it_was_closed_in_order(tmp_path: Path, data: Path) -> None:
    shutil.copytree(data / "orders-0", tmp_path / "alone" / "orders-0")
    with opened(str(tmp_path / "alone" / "orders-0"), CONFIG, Opening(clean=True, clock=Clock())) as log:
        assert log.change is None
    assert files(tmp_path / "alone") == {f"orders-0/{k}": v for k, v in files(data / "orders-0").items()}


def test_error_of_the_block_leaves_what_was_appended(data: Path) -> None:
    def fail(error: BaseException) -> None:
        with opened(str(data / "orders-0"), CONFIG, HOW) as log:
            log.append(messages(1))
            raise error

    for count, error in enumerate((KdumpError("stop"), KeyError(), ValueError(), OSError(2, "no such input")), 25):
        with pytest.raises(type(error)):
            fail(error)
        assert (data / names.CLEAN_SHUTDOWN).exists()
        assert len(records(data / "orders-0")) == count
        outcome = loaded(data)
        assert (outcome.failure, outcome.log_end_offset, outcome.loss.bytes) == (None, count, 0)
    for count, end in enumerate((KeyboardInterrupt(), SystemExit(), MemoryError()), 29):
        with pytest.raises(type(end)):
            fail(end)
        assert not (data / names.CLEAN_SHUTDOWN).exists()
        assert loaded(data).log_end_offset == count


def test_a_wrong_argument_within_the_block_leaves_the_log_clean(data: Path) -> None:
    def fail() -> None:
        with opened(str(data / "orders-0"), CONFIG, HOW) as log:
            log.append([*messages(1), Message("text")])  # type: ignore[arg-type]

    before = files(data)
    with pytest.raises(TypeError):
        fail()
    assert files(data).keys() == before.keys()
    assert len(records(data / "orders-0")) == 24
    assert (data / names.CLEAN_SHUTDOWN).exists()


def test_an_append_that_fails_in_its_middle_leaves_the_log_as_a_kill_does(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise ValueError("a fault of ours")

    def run() -> None:
        with opened(str(data / "orders-0"), CONFIG, HOW) as log:
            log.append(messages(1))
            monkeypatch.setattr(log.active.indexes, "append", fail)
            monkeypatch.setattr(log.active, "_index_batches", fail)
            with pytest.raises(ValueError, match="ours"):
                log.append(messages(1))
            raise KeyError

    with pytest.raises(KeyError):
        run()
    assert not (data / names.CLEAN_SHUTDOWN).exists()
    assert loaded(data).log_end_offset == 25


def test_what_the_block_closed_as_a_kill_does_is_not_marked_clean(data: Path) -> None:
    with opened(str(data / "orders-0"), CONFIG, HOW) as log:
        log.append(messages(1))
        log.close(clean=False)
    assert not (data / names.CLEAN_SHUTDOWN).exists()


def test_disk_full(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: object) -> int:
        raise OSError(28, "No space left on device")

    def run() -> None:
        with opened(str(data / "orders-0"), CONFIG, HOW) as log:
            log.append(messages(1))
            with monkeypatch.context() as patch:
                patch.setattr("os.pwrite", fail)
                log.append(messages(1))

    with pytest.raises(OSError, match="No space"):
        run()
    assert not (data / names.CLEAN_SHUTDOWN).exists()
    assert not (data / names.LOCK).exists()
    outcome = loaded(data)
    assert (outcome.failure, outcome.log_end_offset, outcome.loss.bytes) == (None, 25, 0)


# --- what is refused ---


def tail(garbage: bytes) -> Callable[[Path], None]:
    def damage(partition: Path) -> None:
        path = max(partition.glob("*.log"))
        path.write_bytes(path.read_bytes() + garbage)

    return damage


def flip(partition: Path) -> None:
    path = max(partition.glob("*.log"))
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


def link(partition: Path) -> None:
    path = min(partition.glob("*.index"))
    path.rename(partition.parent / "elsewhere")
    path.symlink_to(partition.parent / "elsewhere")


def interrupted_repair(partition: Path) -> None:
    path = str(partition)
    files = new_change(path)
    os.makedirs(files.directory, exist_ok=True)
    journal.write(Change(files, path, "repair", 0, (), state_of(path)))


def no_log(partition: Path) -> None:
    for path in partition.glob("*.log"):
        path.unlink()


REFUSED = {
    "torn tail": (tail(b"\0\0\0\0\0\0\0\x18\0\0\0\x50abcdefgh"), "kdump repair"),
    "short tail": (tail(b"\1\2\3"), "kdump repair"),
    "zeros": (tail(bytes(100)), "kdump repair"),
    "bit": (flip, "kdump repair"),
    "symbolic link": (link, "a symbolic link"),
    "interrupted repair": (interrupted_repair, "was interrupted; finish it first"),
    "no log": (no_log, "there is no .log in it"),
    "epochs": (lambda partition: (partition / "leader-epoch-checkpoint").write_text("x\n"), "could not load"),
}


# Zeros at the end are cut off by a broker that was not stopped in order, and nothing is lost.
@pytest.mark.parametrize(
    ("name", "clean"), [(name, clean) for name in REFUSED for clean in (True, False) if clean or name != "zeros"]
)
def test_refused_untouched(data: Path, name: str, clean: bool) -> None:
    damage, text = REFUSED[name]
    damage(data / "orders-0")
    if not clean:
        (data / names.CLEAN_SHUTDOWN).unlink()
    before, times = files(data), {path: path.stat().st_mtime_ns for path in data.rglob("*") if path.name != ".lock"}
    with pytest.raises(NotAppendableError, match=text), opened(str(data / "orders-0"), CONFIG, HOW):
        pass
    assert files(data) == before
    assert {path: path.stat().st_mtime_ns for path in times} == times


def test_preallocated_and_killed(tmp_path: Path) -> None:
    config = WritingSettings(segment_bytes=5000, preallocate=True, segment_index_bytes=240)
    with LogDirWriter(str(tmp_path / "data"), clock=Clock(), durable=False) as log_dir:
        log_dir.create_log("orders", 0, config).append(messages(3))
        log_dir.close(clean=False)
    with opened(str(tmp_path / "data" / "orders-0"), config, HOW) as log:
        log.append(messages(1))
    assert len(records(tmp_path / "data" / "orders-0")) == 4
    assert not (tmp_path / "data" / names.CLEAN_SHUTDOWN).exists()


def test_a_broker_is_running(data: Path) -> None:
    ready, done = os.pipe(), os.pipe()
    child = os.fork()
    if not child:
        with open(data / names.LOCK, "w+b") as file:
            fcntl.lockf(file, fcntl.LOCK_EX)
            os.write(ready[1], b"x")
            os.read(done[0], 1)
            os._exit(0)
    os.read(ready[0], 1)
    before = files(data)
    with pytest.raises(RefusedError, match=r"holds [.]lock"), opened(str(data / "orders-0"), CONFIG, HOW):
        pass
    assert files(data) == before
    with opened(str(data / "orders-0"), CONFIG, Opening(clock=Clock(), ignore_lock="orders-0")) as log:
        log.append(messages(1))
    os.write(done[1], b"x")
    os.waitpid(child, 0)
    assert len(records(data / "orders-0")) == 25


@pytest.mark.parametrize("name", ["orders", f"orders-0.{'0' * 32}-delete", f"orders-0.{'0' * 32}-stray"])
def test_not_a_partition_in_use(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    with pytest.raises((NotAppendableError, NameFormatError)), opened(str(tmp_path / name)):
        pass


def test_growing(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.sleep", lambda seconds: tail(b"x")(data / "orders-0"))
    with pytest.raises(RefusedError, match="is being written"), opened(str(data / "orders-0"), CONFIG, HOW):
        pass
    assert (data / names.CLEAN_SHUTDOWN).exists()


def test_a_new_log_in_a_directory_that_is_not_there(tmp_path: Path) -> None:
    how = Opening(create=NewLog())
    with pytest.raises(FileNotFoundError) as raised, opened(str(tmp_path / "absent" / "orders-0"), CONFIG, how):
        pass
    assert raised.value.filename == str(tmp_path / "absent")
    assert os.listdir(tmp_path) == []


def test_nothing_can_be_written(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.access", lambda path, mode: False)
    with pytest.raises(RefusedError, match="nothing can be written here"), opened(str(data / "orders-0"), CONFIG, HOW):
        pass


def test_new_files_are_like_the_old_ones(data: Path) -> None:
    for path in (data / "orders-0").iterdir():
        path.chmod(0o640)
    with opened(str(data / "orders-0"), CONFIG, HOW) as log:
        fill(log)
        log.roll()
    assert {path.stat().st_mode & 0o777 for path in (data / "orders-0").iterdir()} == {0o640}


# --- kills ---


class Killed(BaseException):
    """The process is gone: nothing is done any more."""


class Killer:
    """Lets the n-th change to the disk, and all after it, not happen; of a write the first half does."""

    NAMES = ("pwrite", "fsync", "ftruncate", "replace", "rename", "remove", "mkdir", "link", "open")

    def __init__(self, at: int, patch: pytest.MonkeyPatch) -> None:
        self.left = at
        self._real = {name: getattr(os, name) for name in self.NAMES}
        for name in self.NAMES:
            patch.setattr(os, name, self._wrap(name))

    def _wrap(self, name: str) -> Callable[..., Any]:
        def call(*args: Any, **how: Any) -> Any:
            if name != "open" or args[1] & (os.O_WRONLY | os.O_RDWR):
                self.left -= 1
                if self.left <= 0:
                    if self.left == 0 and name == "pwrite":
                        self._real["pwrite"](args[0], bytes(args[1])[: len(args[1]) // 2], args[2])
                    raise Killed
            return self._real[name](*args, **how)

        return call


def kills(data: Path, scratch: Path, patch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A copy of the log directory for every change of an append, killed there."""
    at = 0
    while True:
        at += 1
        copy = scratch / f"killed-{at}"
        shutil.copytree(data, copy)
        with patch.context() as patched:
            killer = Killer(at, patched)
            try:
                with opened(str(copy / "orders-0"), CONFIG, Opening(clock=Clock(), ignore_lock="orders-0")) as log:
                    fill(log, 4)
            except Killed:
                pass
        yield copy
        if killer.left > 0:
            assert at > 50
            return
        shutil.rmtree(copy)


def loaded(data: Path) -> LoadOutcome:
    """What a broker that starts on the log directory does with orders-0."""
    log = read_log(str(data / "orders-0"))
    how = directory_state(LogDirectory(str(data))).shutdown_of(log)
    keys = ("clean", "recovery_point", "log_start_offset")
    outcome, _ = plan_recovery(log, startup(config=CONFIG.loading, **dict(zip(keys, how, strict=True))))
    return outcome


@pytest.mark.parametrize("was_clean", sampled([True, False], 1))
def test_killed_anywhere(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, was_clean: bool) -> None:
    if not was_clean:
        (data / names.CLEAN_SHUTDOWN).unlink()
        with open_log(str(data / "orders-0"), CONFIG, clock=Clock(), durable=False) as log:
            log.append(messages(1))
            log.close(clean=False)
    before = records(data / "orders-0")
    with opened(str(shutil.copytree(data, tmp_path / "done") / "orders-0"), CONFIG, HOW) as log:
        fill(log, 4)
    after = records(tmp_path / "done" / "orders-0")
    for copy in kills(data, tmp_path, monkeypatch):
        killed = read_log(str(copy / "orders-0"))
        outcome = loaded(copy)
        assert outcome.failure is None
        state = directory_state(LogDirectory(str(copy)))
        if state.clean:
            assert outcome.log_end_offset in (len(before), len(after))
        how = dict(zip(("clean", "recovery_point", "log_start_offset"), state.shutdown_of(killed), strict=True))
        _, plan = plan_recovery(killed, startup(config=CONFIG.loading, **how))
        assert plan is not None
        apply_plan(plan, new_change(plan.path), keep_old=False)
        found = records(copy / "orders-0")
        assert found[: len(before)] == before
        assert found == after[: len(found)]
        assert not state.clean or len(found) in (len(before), len(after))

"""What producers a log has that is loaded, from a snapshot and the batches behind it; which snapshots are written."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from kdump.errors import CorruptSnapshotError, LoadError
from kdump.formats.index_entries import OffsetIndexEntry, encode_offset_entries
from kdump.formats.producer_snapshot import ProducerEntry, decode_producer_snapshot, encode_producer_snapshot
from kdump.recovery.losses import count_loss
from kdump.recovery.producer_rebuild import rebuild_producer_state
from kdump.recovery.producer_state import ProducerStates
from kdump.recovery.segments import LoadedSegment, Segments
from kdump.recovery.snapshots import SnapshotFiles
from kdump.recovery.startup import Startup
from kdump.settings.loading import LoadingSettings
from kdump.storage.log_reader import LogFile
from kdump.storage.planned import PlannedPartition
from kdump.txns.producers import Producer
from tests.recovery.building import NOW, batch, broken, file, load, loaded, make_log, marker, produced

SEGMENTS = {
    0: produced(0, 7) + produced(1, 8),
    2: produced(2, 9, transactional=True) + produced(3, 7, base_sequence=1),
    4: marker(4, 9) + produced(5, 10),
}
LOGS = {file(base, "log"): data for base, data in SEGMENTS.items()} | {
    file(base, kind): b"" for base in SEGMENTS for kind in ("index", "timeindex")
}


def snapshots(files: dict[str, bytes]) -> dict[int, dict[int, tuple[int, int]]]:
    """By the offset of each snapshot: each producer's last sequence and the start of its transaction."""
    return {
        int(name.partition(".")[0]): {
            each.producer_id: (each.last_sequence, each[-1]) for each in decode_producer_snapshot(data)
        }
        for name, data in files.items()
        if name.endswith(".snapshot")
    }


def empty(*offsets: int) -> dict[str, bytes]:
    return {file(offset, "snapshot"): encode_producer_snapshot([]) for offset in offsets}


def snapshot(offset: int, *producers: int) -> dict[str, bytes]:
    entries = [ProducerEntry(each, 0, 5, offset - 1, 0, NOW, 0, -1) for each in producers]
    return {file(offset, "snapshot"): encode_producer_snapshot(entries)}


def test_after_a_kill_the_last_two_segments_and_the_end_get_snapshots(tmp_path: Path) -> None:
    """What is checked leaves one before every segment; the stray one is not needed."""
    found = snapshots(loaded(make_log(tmp_path, LOGS)))
    assert found[2] == {7: (0, -1), 8: (0, -1)}
    assert found[4] == {7: (1, -1), 8: (0, -1), 9: (0, 2)}
    assert found[6] == {7: (1, -1), 8: (0, -1), 9: (0, -1), 10: (0, -1)}


def test_without_any_after_a_clean_stop_nothing_is_scanned(tmp_path: Path) -> None:
    assert snapshots(loaded(make_log(tmp_path, LOGS), clean=True)) == {2: {}, 4: {}, 6: {}}


def test_from_the_newest_one_on_the_batches_count(tmp_path: Path) -> None:
    found = snapshots(loaded(make_log(tmp_path, LOGS | snapshot(4, 7, 11)), clean=True))
    assert found[4] == {7: (5, -1), 11: (5, -1)}
    assert found[6].keys() == {7, 9, 10, 11}
    assert (found[6][7], found[6][9][1], found[6][10]) == ((5, -1), -1, (0, -1))


def test_one_of_too_many_producers_is_deleted_and_made_again(tmp_path: Path) -> None:
    """As 4.4.0, which reads 1,000,000."""
    log = make_log(tmp_path, LOGS | snapshot(6, 7, 8, 11))
    config = LoadingSettings(max_producers=2)
    assert snapshots(loaded(log, clean=True, config=config))[6].keys() == {7, 8, 9, 10}
    assert snapshots(loaded(log, clean=True, config=config._replace(max_producers=3)))[6].keys() == {7, 8, 11}
    text = "Tried to read a collection of size 3, which exceeds the maximum allowed size of 2"
    with pytest.raises(CorruptSnapshotError, match=text):
        decode_producer_snapshot(snapshot(6, 7, 8, 11)[file(6, "snapshot")], max_producers=2)


def test_one_at_the_end_is_all_there_is_to_know(tmp_path: Path) -> None:
    found = snapshots(loaded(make_log(tmp_path, LOGS | snapshot(6, 11)), clean=True))
    assert found[6] == {11: (5, -1)}


def test_what_lies_before_the_log_start_offset_is_not_taken(tmp_path: Path) -> None:
    log = make_log(tmp_path, LOGS | empty(0))
    found = snapshots(loaded(log, clean=True, log_start_offset=3))
    assert 8 not in found[6]
    assert 7 in found[6]


def test_a_batch_that_cannot_be_read_ends_the_loading(tmp_path: Path) -> None:
    """After a clean stop nobody checks the CRC, but sizes have to be right."""
    logs = LOGS | {file(4, "log"): SEGMENTS[4][:-20]}
    whole = load(make_log(tmp_path / "whole", LOGS | snapshot(4)), clean=True)
    cut = load(make_log(tmp_path / "cut", logs | snapshot(4)), clean=True)
    assert whole.failure is None
    assert cut.failure is not None or cut.log_end_offset < whole.log_end_offset


class TestRebuilding:
    """One rebuild, of segments that are open."""

    BASES = (0, 2, 4, 6, 8)

    def rebuild(
        self,
        folder: Path,
        end: int,
        files: dict[str, bytes] | None = None,
        *,
        states: Callable[[ProducerStates], None] = lambda states: None,
        start: int = 0,
        clean: bool = True,
    ) -> tuple[ProducerStates, PlannedPartition]:
        """Producer N + 1 has written the batch at offset N; each segment has two."""
        logs = {file(base, "log"): produced(base, base + 1) + produced(base + 1, base + 2) for base in self.BASES}
        logs |= {file(base, "index"): b"" for base in self.BASES}
        directory = PlannedPartition(make_log(folder, logs | (files or {})))
        segments = Segments()
        for name in directory.names():
            if name.endswith(".log"):
                segments.add(LoadedSegment(directory, int(name[:20]), 10485760))
        found = ProducerStates(SnapshotFiles(directory))
        states(found)
        rebuild_producer_state(found, segments, Startup(NOW), start, end, "t-0", clean=clean)
        return found, directory

    def written(self, directory: PlannedPartition) -> list[int]:
        return [int(name[:20]) for name in directory.names() if name.endswith("snapshot")]

    def test_the_last_two_segments_and_the_end_get_snapshots(self, tmp_path: Path) -> None:
        found, directory = self.rebuild(tmp_path, 10, snapshot(2, 99))
        assert self.written(directory) == [2, 6, 8, 10]
        assert list(found.producers) == [99, *range(3, 11)]
        assert (found.map_end_offset, found.snapshot_offset) == (10, 10)
        contents = {name[:20]: data for name in directory.names() for data in [directory.read(name)]}
        six = {each.producer_id for each in decode_producer_snapshot(contents[f"{6:020d}"])}
        assert six == {99, 3, 4, 5, 6}

    def test_the_end_may_lie_inside_a_segment(self, tmp_path: Path) -> None:
        found, directory = self.rebuild(tmp_path, 5, empty(2))
        assert list(found.producers) == [3, 4, 5]
        assert self.written(directory) == [2, 5]

    def test_nothing_is_read_where_a_snapshot_is_at_the_end(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(LoadedSegment, "open_log", None)
        for held in (snapshot(10, 99), empty(10)):
            found, _ = self.rebuild(tmp_path, 10, held)
            assert found.map_end_offset == 10
        empty_states, directory = self.rebuild(tmp_path, 10, {file(10, "snapshot"): b""}, clean=True, start=10)
        assert (empty_states.producers, self.written(directory)) == ({}, [])

    def test_producers_up_to_the_end_stay_as_they_are(self, tmp_path: Path) -> None:
        def known(states: ProducerStates) -> None:
            states.producers[99] = Producer(1)
            states.map_end_offset = 10

        found, directory = self.rebuild(tmp_path, 10, snapshot(4, 50), states=known)
        assert list(found.producers) == [99]
        assert self.written(directory) == [4, 10]

    def test_without_any_before_and_after_nothing_is_read(self, tmp_path: Path) -> None:
        """UnifiedLog.rebuildProducerState: there were none up to a later offset."""

        def known(states: ProducerStates) -> None:
            states.map_end_offset = 9

        found, directory = self.rebuild(tmp_path, 8, snapshot(4), states=known)
        assert (list(found.producers), found.map_end_offset) == ([], 8)
        assert self.written(directory) == [4, 8]

    def test_a_walk_over_what_is_no_batch_ends_loading(self, tmp_path: Path) -> None:
        damaged = {file(4, "log"): produced(4, 5) + bytes(30)}
        with pytest.raises(LoadError, match="record size 0 smaller than"):
            self.rebuild(tmp_path, 10, damaged | empty(4))

    def test_an_index_that_leads_back_ends_loading(self, tmp_path: Path) -> None:
        """The end is found before the start."""
        batches = [produced(8, 7), produced(9, 7), produced(10, 7, count=2), produced(12, 7)]
        size = len(batches[2])
        index = [OffsetIndexEntry(9, len(b"".join(batches[:3]))), OffsetIndexEntry(11, 0)]
        files = {file(8, "log"): b"".join(batches), file(8, "index"): encode_offset_entries(index, 8)}
        with pytest.raises(LoadError, match=f"Invalid size: -{size} in read from") as caught:
            self.rebuild(tmp_path, 11, files | empty(10), start=9)
        assert caught.value.file == file(8, "log")


class TestLosses:
    @pytest.mark.parametrize(
        ("data", "expected"),
        [
            (batch(0, 3) + batch(3, 2), (2, 5, 0, 4)),
            (broken(batch(0, 3)) + batch(3, 2) + batch(5), (2, 3, 3, 5)),
        ],
        ids=["sound", "damaged in front"],
    )
    def test_batches_and_records_that_could_be_read(
        self, tmp_path: Path, data: bytes, expected: tuple[int, int, int, int]
    ) -> None:
        path = tmp_path / file(0, "log")
        path.write_bytes(data)
        with LogFile(str(path)) as log:
            loss, _ = count_loss(log, 0, 0)
        assert loss == (len(data), 0, *expected)

    def test_nothing_but_zeros_is_told_apart(self, tmp_path: Path) -> None:
        path = tmp_path / file(0, "log")
        path.write_bytes(batch(0) + bytes(100))
        with LogFile(str(path)) as log:
            loss, reason = count_loss(log, 0, len(batch(0)))
            nothing, _ = count_loss(log, 0, log.size)
        assert loss == (100, 100, 0, 0, None, None)
        assert reason
        assert nothing == (0, 0, 0, 0, None, None)

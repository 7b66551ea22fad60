"""What salvage leaves out of the files of a partition: ranges and their offsets, copies, segments, what waits."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from kdump.change.plan import Cut
from kdump.formats import names
from kdump.formats.codecs import GZIP, compress
from kdump.formats.encode import NewRecord, encode_message
from kdump.mend.decision import Damaged
from kdump.mend.load_result import views
from kdump.mend.salvage_partition import Salvaged
from kdump.mend.salvaged_files import SalvagedFiles
from kdump.mend.survey import Survey
from kdump.recovery.outcome import CHANGE, DELETE, LEAVE_OUT, MOVE, RENAME, Loss, Step
from kdump.recovery.startup import Startup
from kdump.storage.partition import PartitionLog
from kdump.storage.planned import content_of
from tests.recovery.building import NOW, batch, broken, file, make_log, with_offset
from tests.repair.salvaging import examined

STARTUP = Startup(NOW)
SIZE = len(batch(0))
DISTINCT = [batch(n, timestamp=1000 + n) for n in range(10)]


def salvage_of(folder: Path, *segments: tuple[int, bytes], **more: bytes) -> Salvaged:
    """Salvage, on paper, a log of segments with these base offsets."""
    files = {file(base, "log"): data for base, data in segments}
    log = make_log(folder, files | {name.replace("_", "."): data for name, data in more.items()})
    salvaged = examined(Path(log.path), STARTUP).salvaged
    assert salvaged is not None
    return salvaged


def given_up(salvaged: Salvaged) -> list[tuple[str, int, int | None, int | None]]:
    return [(each.file, each.start, each.first_offset, each.last_offset) for each in salvaged.given_up]


def steps(salvaged: Salvaged, *actions: str) -> list[Step]:
    return [step for step in salvaged.outcome.steps if step.action in actions]


class TestOffsetsOfWhatIsGivenUp:
    def test_up_to_the_next_batch_or_segment(self, tmp_path: Path) -> None:
        first = broken(batch(0)) + batch(1) + broken(batch(2)) + batch(5) + broken(batch(6))
        salvaged = salvage_of(tmp_path, (0, first), (9, batch(9) + broken(batch(10))))
        assert sorted(given_up(salvaged)) == [
            (file(0, "log"), 0, 0, 0),
            (file(0, "log"), 2 * SIZE, 2, 4),
            (file(0, "log"), 4 * SIZE, 6, 8),
            (file(9, "log"), SIZE, 10, None),
        ]

    def test_behind_a_batch_that_is_out_of_place(self, tmp_path: Path) -> None:
        """Where that one claims to be says nothing of the next."""
        data = batch(0) + batch(1) + batch(0, 2, timestamp=5000) + broken(batch(3)) + batch(4) + batch(5)
        salvaged = salvage_of(tmp_path, (0, data), (9, batch(9)))
        start = 2 * SIZE + len(batch(0, 2))
        assert given_up(salvaged) == [(file(0, "log"), start, 2, 3)]
        assert [Damaged(each, None).records for each in salvaged.given_up] == [2]
        assert (salvaged.dropped.batches, salvaged.dropped.first_offset) == (1, 0)

    def test_in_front_of_one_that_is_moved(self, tmp_path: Path) -> None:
        data = batch(0) + broken(batch(1)) + batch(2) + batch(4) + batch(3) + batch(5)
        salvaged = salvage_of(tmp_path, (0, data))
        assert given_up(salvaged) == [(file(0, "log"), SIZE, 1, 1)]
        assert [(step.file, step.position, step.why) for step in steps(salvaged, MOVE)] == [
            (file(0, "log"), 3 * SIZE, "batch 4 stands where others belong")
        ]

    def test_zeros_are_counted_as_such(self, tmp_path: Path) -> None:
        salvaged = salvage_of(tmp_path, (0, batch(0) + broken(batch(1)) + batch(2) + bytes(100)))
        assert [(step.position, step.loss) for step in steps(salvaged, LEAVE_OUT)] == [
            (SIZE, Loss(SIZE)),
            (3 * SIZE, Loss(100, 100)),
        ]
        assert [(cut.file, cut.start, cut.stop) for cut in salvaged.cuts] == [
            (file(0, "log"), SIZE, 2 * SIZE),
            (file(0, "log"), 3 * SIZE, 3 * SIZE + 100),
        ]


@pytest.mark.parametrize("damaged", [0, 1, 2])
def test_what_verification_finds_in_records_counts(tmp_path: Path, damaged: int) -> None:
    """A v1 message inside a wrapper that fails its CRC, though that of the wrapper holds."""
    wrappers = []
    for number in range(3):
        inner = bytearray(encode_message(NewRecord(0, 1000, None, b"x" * 30), 1, 0))
        inner[-1] ^= number == damaged
        wrappers.append(encode_message(NewRecord(number, 1000, None, compress(GZIP, bytes(inner), magic=1)), 1, GZIP))
    salvaged = salvage_of(tmp_path, (0, b"".join(wrappers)))
    start = sum(map(len, wrappers[:damaged]))
    assert [(cut.start, cut.stop) for cut in salvaged.cuts] == [(start, start + len(wrappers[damaged]))]
    assert salvaged.cuts[0].why.endswith("fails its CRC")


class TestCopies:
    """A valid batch that fits nowhere, of which another segment has every byte."""

    @pytest.mark.parametrize("twice", [2, 3])
    def test_at_the_edges_of_a_sound_segment(self, tmp_path: Path, twice: int) -> None:
        segments = (0, batch(0) + batch(1)), (2, batch(2) + batch(3)), (4, batch(4) + batch(twice))
        assert salvage_of(tmp_path, *segments).dropped == Loss()

    def test_of_the_last_segment(self, tmp_path: Path) -> None:
        assert salvage_of(tmp_path, (0, batch(0) + batch(9)), (2, batch(2) + batch(9))).dropped == Loss()

    def test_of_a_segment_that_is_damaged_as_well(self, tmp_path: Path) -> None:
        segments = (0, batch(0) + batch(7)), (2, batch(2) + broken(batch(3)) + batch(7) + batch(8))
        assert salvage_of(tmp_path, *segments).dropped == Loss()

    def test_of_what_is_nowhere_else_all_is_counted(self, tmp_path: Path) -> None:
        dropped = salvage_of(tmp_path, (0, batch(0) + batch(7, 2)), (2, batch(2) + batch(7))).dropped
        assert (dropped.batches, dropped.records, dropped.first_offset, dropped.last_offset) == (1, 1, 7, 8)


class TestSegments:
    @pytest.mark.parametrize(("base", "stays"), [(1, False), (2, False), (3, True)])
    def test_an_empty_one_inside_the_offsets_of_others(self, tmp_path: Path, base: int, stays: bool) -> None:
        salvaged = salvage_of(tmp_path, (0, batch(0, 3)), (base, b""), (9, batch(9)))
        assert salvaged.outcome.files is not None
        assert (file(base, "log") in salvaged.outcome.files) is stays

    def test_an_empty_first_one_stays(self, tmp_path: Path) -> None:
        salvaged = salvage_of(tmp_path, (0, b""), (5, batch(5) + broken(batch(6)) + batch(7)))
        assert salvaged.outcome.files is not None
        assert file(0, "log") in salvaged.outcome.files

    def test_one_without_a_valid_batch_bounds_no_other(self, tmp_path: Path) -> None:
        """What is in front of it reaches up to the next one that holds something."""
        salvaged = salvage_of(tmp_path, (0, batch(0) + batch(6)), (5, broken(batch(5))), (9, batch(9)))
        assert salvaged.dropped == Loss()
        assert steps(salvaged, DELETE)[0].why == "nothing of the segment can be kept"
        assert salvaged.outcome.files is not None
        assert sum(recipe.size for name, recipe in salvaged.outcome.files.items() if name.endswith(".log")) == 3 * SIZE

    def test_the_last_one_stays_empty(self, tmp_path: Path) -> None:
        salvaged = salvage_of(tmp_path, (0, batch(0)), (5, broken(batch(5))))
        assert salvaged.outcome.log_end_offset == 5

    def test_leader_epochs_are_put_right_in_all_that_stay(self, tmp_path: Path) -> None:
        wrong = batch(2, leader_epoch=9)
        segments = (0, batch(0) + broken(batch(1)) + wrong), (5, batch(5, leader_epoch=1) + batch(6, leader_epoch=1))
        (step,) = steps(salvage_of(tmp_path, *segments), CHANGE)
        assert (step.file, step.position) == (file(0, "log"), SIZE)


class TestSwaps:
    """A .log that waits to replace others, where what it is for is there, and where it is not."""

    ORIGINALS = ((0, batch(0) + batch(1)), (2, batch(2) + batch(3)), (4, batch(4)))
    WAITS = file(0, "log.swap").replace(".", "_")

    def test_a_damaged_one_goes_where_all_originals_are_sound(self, tmp_path: Path) -> None:
        salvaged = salvage_of(tmp_path, *self.ORIGINALS, **{self.WAITS: batch(0) + broken(batch(1)) + batch(3)})
        gone = [(step.file, step.why) for step in steps(salvaged, DELETE)]
        why = "the segments that it would replace are here and valid; the replacement is damaged"
        assert gone[0] == (file(0, "log.swap"), why)
        assert salvaged.cuts == ()
        assert salvaged.kept is not None
        assert salvaged.kept.batches == 5

    def test_where_an_original_is_damaged_too_fewer_records_go(self, tmp_path: Path) -> None:
        originals = (self.ORIGINALS[0], (2, batch(2) + broken(batch(3))), self.ORIGINALS[2])
        waits = batch(0) + broken(batch(1)) + batch(3)
        salvaged = salvage_of(tmp_path, *originals, **{self.WAITS: waits})
        assert [(cut.file, cut.start) for cut in salvaged.cuts] == [(file(2, "log"), SIZE)]
        assert (salvaged.dropped.batches, salvaged.dropped.first_offset) == (1, 3)  # in the place of three others

    def test_without_the_originals_it_stays_without_its_damage(self, tmp_path: Path) -> None:
        waits = batch(0) + broken(batch(1)) + batch(3)
        salvaged = salvage_of(tmp_path, self.ORIGINALS[2], **{self.WAITS: waits})
        assert [(cut.file, cut.start) for cut in salvaged.cuts] == [(file(0, "log.swap"), SIZE)]
        assert salvaged.kept is not None
        assert (salvaged.kept.batches, salvaged.dropped.batches) == (3, 0)

    def test_one_beyond_the_damaged_original_does_not_count(self, tmp_path: Path) -> None:
        originals = (*self.ORIGINALS[:2], (4, batch(4) + broken(batch(5)) + batch(6)))
        waits = batch(0) + broken(batch(1)) + batch(3)
        salvaged = salvage_of(tmp_path, *originals, **{self.WAITS: waits})
        assert [cut.file for cut in salvaged.cuts] == [file(4, "log")]

    @pytest.mark.parametrize(("waits", "kept"), [(range(4), 5), ((0, 3), 3), (range(5), 5), ((3,), 2)])
    def test_a_sound_one_takes_their_place_if_it_has_all_but_what_a_cleaner_drops(
        self, tmp_path: Path, waits: Iterable[int], kept: int
    ) -> None:
        salvaged = salvage_of(tmp_path, *self.ORIGINALS, **{self.WAITS: b"".join(map(batch, waits))})
        assert salvaged.cuts == ()
        assert salvaged.kept is not None
        assert (salvaged.kept.batches, salvaged.dropped.batches) == (kept, 0)
        assert file(0, "log.swap") in [step.file for step in steps(salvaged, RENAME)]

    def test_a_sound_one_that_lacks_more_stands_back(self, tmp_path: Path) -> None:
        salvaged = salvage_of(tmp_path, *self.ORIGINALS, **{self.WAITS: b"".join(map(batch, range(3)))})
        assert salvaged.kept is not None
        assert (salvaged.kept.batches, salvaged.swap_loss.batches) == (5, 1)


class TestTakenOut:
    @pytest.fixture
    def files(self, tmp_path: Path) -> SalvagedFiles:
        data = batch(0) + batch(1) + batch(2)
        log = make_log(tmp_path, {file(0, "log"): data, "abc.index": b"12345"})
        return SalvagedFiles(log, Survey(), 1 << 20, STARTUP.config)

    @pytest.mark.parametrize(
        ("position", "size"), [(0, 0), (SIZE, -1), (SIZE, 2 * SIZE + 1), (3 * SIZE, 1), (4 * SIZE, SIZE)]
    )
    def test_a_batch_that_is_not_there(self, files: SalvagedFiles, position: int, size: int) -> None:
        assert not files.leave_out_batch(file(0, "log"), position, size, "why")
        assert (files.cuts, files.steps) == ([], [])

    @pytest.mark.parametrize("number", [0, 1, 2])
    def test_a_batch(self, files: SalvagedFiles, number: int) -> None:
        name = file(0, "log")
        assert files.leave_out_batch(name, number * SIZE, SIZE, "why")
        assert files.cuts == [Cut(name, number * SIZE, number * SIZE + SIZE, "why")]
        assert files.steps == [Step(LEAVE_OUT, name, "why", position=number * SIZE, loss=Loss(SIZE))]
        left = b"".join(content_of(files.directory.path, files.directory.files[name]))
        assert left == b"".join(batch(each) for each in range(3) if each != number)

    def test_a_file(self, files: SalvagedFiles) -> None:
        files.leave_out_file("abc.index", "why")
        assert files.cuts == [Cut("abc.index", 0, 5, "why")]
        assert files.steps == [Step(DELETE, "abc.index", "why")]
        assert not files.directory.exists("abc.index")

    def test_indexes_where_there_are_none(self, files: SalvagedFiles) -> None:
        index = file(0, names.OFFSET_INDEX)
        files.put_indexes()
        assert files.directory.size(index) == 0
        assert files.directory.exists(index)
        files.directory.write(index, b"12345678")
        files.put_indexes()
        assert files.directory.size(index) == 8


class TestBaseOffsets:
    """No CRC covers the base offset of a batch; its place in the log may name it."""

    def salvaged(self, folder: Path, data: bytes, *segments: tuple[int, bytes]) -> tuple[list[int], int]:
        """Salvage a log: the first offsets of its batches afterwards, and how many batches are dropped."""
        salvaged = salvage_of(folder, (0, data), *segments)
        log = PartitionLog(str(folder / "topic-0"))
        offsets = [
            block.base_offset[row]
            for _, view in views(log, salvaged.outcome)
            for block in view.blocks()
            for row in range(block.length)
        ]
        return offsets, salvaged.dropped.batches

    @pytest.mark.parametrize("stored", [0, 3, 77, -5, 2**60])
    @pytest.mark.parametrize("fill", [0, 255])
    def test_one_bad_sector_over_the_end_of_a_batch_and_the_offset_of_the_next(
        self, tmp_path: Path, stored: int, fill: int
    ) -> None:
        data = bytearray(b"".join(DISTINCT[:5]) + with_offset(DISTINCT[5], stored) + b"".join(DISTINCT[6:]))
        data[5 * SIZE - 20 : 5 * SIZE] = bytes([fill]) * 20
        assert self.salvaged(tmp_path, bytes(data)) == ([0, 1, 2, 3, 5, 6, 7, 8, 9], 0)

    @pytest.mark.parametrize("number", [0, 4, 8])
    def test_a_batch_that_fills_the_hole(self, tmp_path: Path, number: int) -> None:
        data = b"".join((*DISTINCT[:number], with_offset(DISTINCT[number], 1 << 40), *DISTINCT[number + 1 :]))
        assert self.salvaged(tmp_path, data) == (list(range(10)), 0)

    def test_the_next_segment_ends_the_hole(self, tmp_path: Path) -> None:
        data = b"".join(DISTINCT[:4]) + with_offset(DISTINCT[4], 1 << 40)
        assert self.salvaged(tmp_path, data, (5, b"".join(DISTINCT[5:]))) == (list(range(10)), 0)

    def test_a_message_of_the_old_formats(self, tmp_path: Path) -> None:
        """It stores the last offset, and its CRC covers neither that nor the size."""
        messages = [encode_message(NewRecord(n, 1000 + n, None, b"x"), 1, 0) for n in range(4)]
        messages[2] = with_offset(messages[2], 0)
        assert self.salvaged(tmp_path, b"".join(messages)) == ([0, 1, 2, 3], 0)

    @pytest.mark.parametrize(
        "parts",
        [
            # the hole has more offsets, and nothing tells which
            [*DISTINCT[:3], with_offset(DISTINCT[3], 1 << 40), *DISTINCT[6:]],
            # the log ends there
            [*DISTINCT[:9], with_offset(DISTINCT[9], 3)],
            # a copy, and a piece of another log
            [*DISTINCT[:3], with_offset(DISTINCT[0], 90), *DISTINCT[4:]],
            [*DISTINCT[:3], with_offset(DISTINCT[3], 90), with_offset(DISTINCT[4], 91), *DISTINCT[5:]],
        ],
    )
    def test_a_place_that_is_not_certain(self, tmp_path: Path, parts: list[bytes]) -> None:
        kept, dropped = self.salvaged(tmp_path, b"".join(parts))
        assert len(kept) + dropped == len(parts)
        assert dropped

    def test_a_damaged_batch_says_nothing_of_what_it_holds(self, tmp_path: Path) -> None:
        """Batches are sent as records, too."""
        outer = batch(1, size=400)
        data = bytearray(b"".join((DISTINCT[0], outer, *DISTINCT[2:])))
        data[SIZE + 150 : SIZE + 150 + SIZE] = DISTINCT[1]
        assert self.salvaged(tmp_path, bytes(data))[0] == [0, *range(2, 10)]

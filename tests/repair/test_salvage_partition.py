"""What salvage tells of a partition, and the rules for what is beside its logs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kdump.change.plan import Cut
from kdump.formats import names
from kdump.mend import salvage_partition
from kdump.mend.proposal import examine
from kdump.mend.salvage_partition import Salvaged
from kdump.mend.salvaged_files import GivenUp
from kdump.mend.task import ABORTED, SALVAGE, Request, Task
from kdump.recovery.outcome import (
    CHANGE,
    INSERT,
    LEAVE_OUT,
    MOVE,
    TRUNCATE,
    WARN,
    WRITE,
    LoadOutcome,
    Loss,
    Step,
)
from kdump.recovery.startup import Startup
from kdump.storage.partition import PartitionLog
from kdump.storage.recipe import NewContent
from kdump.topics.clusters import Clusters
from kdump.topics.topic_ids import TopicIds
from tests.recovery.building import METADATA, NOW, batch, broken, file, make_log, marker, produced
from tests.repair.damaged import STARTUP, edit, flip, name
from tests.repair.salvaging import examined

SIZE = len(batch(0))
UNCLEAN = Startup(NOW)
LOG, SWAP, INDEX = file(0, "log"), file(0, "log.swap"), file(0, "index")


def salvaged_of(*steps: Step, cuts: tuple[Cut, ...] = (), given_up: tuple[GivenUp, ...] = ()) -> Salvaged:
    return Salvaged(LoadOutcome(steps), cuts, None, None, (), (), given_up)


TAIL = GivenUp(LOG, 100, 150, 5, None, "torn")
CUT = Cut(LOG, 100, 150, "torn")


@pytest.mark.parametrize(
    ("salvaged", "only_tails"),
    [
        (salvaged_of(), True),
        (salvaged_of(cuts=(CUT,), given_up=(TAIL,)), True),
        (salvaged_of(Step(LEAVE_OUT, LOG, "torn", 100, loss=Loss(50))), True),
        (salvaged_of(cuts=(Cut(INDEX, 0, 8, "wrong"),)), True),
        (salvaged_of(cuts=(CUT,)), False),
        (salvaged_of(cuts=(CUT, Cut(LOG, 30, 40, "CRC")), given_up=(TAIL,)), False),
        (salvaged_of(cuts=(Cut(SWAP, 100, 150, "torn"),), given_up=(TAIL,)), False),
        (salvaged_of(Step(TRUNCATE, LOG, "CRC", 100, loss=Loss(50, 0, 1))), False),
        (salvaged_of()._replace(dropped=Loss(50, 0, 1)), False),
        *((salvaged_of(Step(action, LOG, "why", 5)), False) for action in (CHANGE, MOVE, INSERT)),
    ],
)
def test_whether_nothing_but_incomplete_ends_goes(salvaged: Salvaged, only_tails: bool) -> None:
    assert salvaged.drops_only_tails is only_tails


def test_what_is_rewritten_in_words() -> None:
    changed, moved = Step(CHANGE, LOG, "epoch", 5), Step(MOVE, LOG, "order", 70)
    salvaged = salvaged_of(changed, Step(WRITE, INDEX, "new"), moved, Step(INSERT, LOG, "m", 9))
    assert salvaged.rewritten == (f"{LOG}, byte 5: epoch", f"{LOG}, byte 70: order", f"{LOG}, byte 9: m")


def salvage_of(folder: Path, *segments: tuple[int, bytes], startup: Startup = UNCLEAN, **more: Any) -> Salvaged:
    log = make_log(folder, {file(base, "log"): data for base, data in segments})
    salvaged = examined(Path(log.path), startup, **more).salvaged
    assert salvaged is not None
    return salvaged


class TestBesideABroker:
    """What its own recovery would keep and drop, to choose by."""

    def test_of_damage(self, tmp_path: Path) -> None:
        salvaged = salvage_of(tmp_path, (0, batch(0) + broken(batch(1)) + batch(2) + batch(3)))
        assert (salvaged.kept, salvaged.kafka_keeps) == (Loss(3 * SIZE, 0, 3, 3, 0, 3), Loss(SIZE, 0, 1, 1, 0, 0))
        assert salvaged.kafka_drops == Loss(3 * SIZE, 0, 2, 2, 2, 3)

    def test_where_nothing_is_in_its_way(self, tmp_path: Path) -> None:
        log = make_log(tmp_path, {LOG: batch(0) + batch(1), INDEX: b"xyz"})
        salvaged = examined(Path(log.path), UNCLEAN).salvaged
        assert salvaged is not None
        assert salvaged.kept == salvaged.kafka_keeps == Loss(2 * SIZE, 0, 2, 2, 0, 1)
        assert salvaged.kafka_drops == Loss()

    def test_where_it_does_not_get_through(self, tmp_path: Path) -> None:
        salvaged = salvage_of(tmp_path, (0, produced(0, 7, transactional=True) + produced(1, 7, base_sequence=1)))
        assert (salvaged.kafka_keeps, salvaged.kafka_drops) == (None, None)
        assert salvaged.kept == Loss(SIZE, 0, 1, 1, 0, 0)
        assert len(salvaged.cuts) == 1

    def test_a_batch_out_of_place_is_no_range(self, tmp_path: Path) -> None:
        salvaged = salvage_of(tmp_path, (0, batch(0) + batch(1) + batch(0, 2, timestamp=5000) + batch(3)))
        assert salvaged.given_up == ()
        assert (salvaged.dropped.batches, len(salvaged.cuts)) == (1, 1)


@pytest.mark.parametrize(("most", "number"), [(1, 0), (2, 2)])
def test_no_more_markers_than_a_log_can_take(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int, number: int
) -> None:
    monkeypatch.setattr(salvage_partition, "MAX_MARKERS", most)
    lost = broken(marker(2, 7)) + broken(marker(3, 8))
    data = produced(0, 7, transactional=True) + produced(1, 8, transactional=True) + lost + batch(4)
    salvaged = salvage_of(tmp_path, (0, data), lost_markers=ABORTED)
    assert len(salvaged.markers) == number
    assert [(step.position, step.file) for step in salvaged.outcome.steps if step.action == INSERT] == [
        (2 * SIZE, LOG)
    ] * number


class TestPartitionMetadata:
    """The topic's id is that of the cluster's metadata, else that of most of the topic's partitions at hand."""

    OTHER = METADATA.replace(b"AAAAA", b"ABCDE")

    @pytest.fixture
    def damaged(self, partition: Path) -> Path:
        edit(name(20, "log"), flip(70))(partition)
        (partition / names.PARTITION_METADATA).unlink()
        return partition

    def task(self, partition: Path, topic_id: str | None = None) -> Task:
        ids = TopicIds(Clusters.around([str(partition)]))
        return examine(PartitionLog(str(partition)), STARTUP, Request(SALVAGE, topic_id=topic_id), ids)

    def written(self, task: Task) -> list[tuple[str, bytes]]:
        """What is written into the file, and why."""
        assert task.plan is not None
        changes = [each for each in task.plan.operations if each.name == names.PARTITION_METADATA]
        recipes = [(each.why, task.plan.recipes[each.name]) for each in changes]
        return [(why, recipe.data) for why, recipe in recipes if isinstance(recipe, NewContent)]

    def beside(self, partition: Path, folder: str, data: bytes = METADATA) -> None:
        path = partition.parent / folder
        path.mkdir()
        (path / names.PARTITION_METADATA).write_bytes(data)

    @pytest.mark.parametrize(
        "folder", ["payments-0", f"orders-1.{32 * '1'}-delete", f"orders-1.{32 * '1'}-future"]
    )
    def test_of_another_directory_it_is_not_taken(self, damaged: Path, folder: str) -> None:
        self.beside(damaged, folder)
        assert self.written(self.task(damaged)) == []

    @pytest.mark.parametrize("own", [None, b"", b"garbage"])
    def test_most_partitions_decide(self, damaged: Path, own: bytes | None) -> None:
        if own is not None:
            (damaged / names.PARTITION_METADATA).write_bytes(own)
        self.beside(damaged, "orders-1", self.OTHER)
        self.beside(damaged, "orders-2", b"garbage")
        self.beside(damaged, "orders-3")
        self.beside(damaged, "orders-4")
        ((why, data),) = self.written(self.task(damaged))
        assert data == METADATA
        assert why.endswith("from orders-3 and 1 more partition of the topic")

    def test_where_nothing_decides_it_is_a_question(self, damaged: Path) -> None:
        self.beside(damaged, "orders-1", self.OTHER)
        self.beside(damaged, "orders-3")
        task = self.task(damaged)
        assert self.written(task) == []
        assert any("--topic-id" in each for each in task.problems)
        ((_, data),) = self.written(self.task(damaged, "AAAAAAAAAAAAAAAAAAAAAQ"))
        assert data == METADATA

    def test_one_that_cannot_be_read_stays_where_nothing_is_known(self, damaged: Path) -> None:
        (damaged / names.PARTITION_METADATA).write_bytes(b"garbage")
        task = self.task(damaged)
        assert task.plan is not None
        assert names.PARTITION_METADATA not in {each.name for each in task.plan.operations}
        assert any("--topic-id" in each for each in task.problems)

    def test_an_id_that_is_another_one_is_a_question_and_a_damaged_one_is_not(self, damaged: Path) -> None:
        self.beside(damaged, "orders-1")
        self.beside(damaged, "orders-2")
        (damaged / names.PARTITION_METADATA).write_bytes(METADATA.replace(b"AAAAAQ", b"AABAAQ"))
        assert [data for _, data in self.written(self.task(damaged))] == [METADATA]
        (damaged / names.PARTITION_METADATA).write_text("version: 0\ntopic_id: bRQsPtWPRbWiO_P8QbCxvA")
        task = self.task(damaged)
        assert self.written(task) == []
        assert any(each.endswith("--topic-id AAAAAAAAAAAAAAAAAAAAAQ --apply") for each in task.problems)



class TestLogStart:
    @pytest.mark.parametrize(("start", "treated"), [(0, 0), (4, 4), (5, 0), (99, 0)])
    def test_one_beyond_the_end_is_none(self, tmp_path: Path, start: int, treated: int) -> None:
        """With it a broker would drop all that salvage keeps; the end is 4."""
        data = batch(0) + broken(batch(1)) + batch(2) + batch(3)
        salvaged = salvage_of(tmp_path, (0, data), startup=Startup(NOW, log_start_offset=start))
        warned = [step.why for step in salvaged.outcome.steps if step.action == WARN and "treated as 0" in step.why]
        if start == treated:
            assert warned == []
        else:
            assert warned == [f"the log start offset {start} is above the log end offset: it is treated as 0"]
        assert (salvaged.outcome.log_start_offset, salvaged.outcome.log_end_offset) == (treated, 4)

    def test_of_a_log_without_a_batch_it_stays(self, tmp_path: Path) -> None:
        salvaged = salvage_of(tmp_path, (0, bytes(80)), startup=Startup(NOW, log_start_offset=9))
        assert salvaged.outcome.log_start_offset == 9


def test_leader_epochs_of_a_format_that_has_none_stay(partition: Path) -> None:
    """Whatever the batches say: a broker with such a topic does not read them."""
    config = STARTUP.config._replace(record_version=1)
    (partition / names.LEADER_EPOCH_CHECKPOINT).write_text("0\n1\n9 5\n")
    edit(name(20, "log"), flip(70))(partition)
    task = examined(partition, STARTUP._replace(config=config))
    assert task.salvaged is not None
    assert task.salvaged.outcome.ok

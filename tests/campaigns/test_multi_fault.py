"""The campaign of partition directories with several faults: a run of 1,000, what its faults are, and its judge."""

from __future__ import annotations

import random
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest

from kdump.fixture.make import make as fixture
from tests.campaigns import faulted_directory, multi_fault
from tests.campaigns.faulted_directory import Choice, Directory
from tests.campaigns.partition_faults import kinds
from tests.campaigns.valid_batches import missing, valid_batches

SEED = "slow"


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 34, 2))
def test_a_strategy_loses_no_batch_unannounced_and_undo_gives_all_back(first: int, tmp_path: Path) -> None:
    """17 times two log directories, of about 30 partition directories each."""
    (tmp_path / "templates").mkdir()
    arguments = SEED, str(tmp_path), str(tmp_path / "templates"), 1
    with ProcessPoolExecutor(1, initializer=multi_fault.begin, initargs=arguments) as process:
        for number in (first, first + 1):
            tally = process.submit(multi_fault.run_one, number).result()
            assert tally.wrong == [], "\n".join(tally.wrong)
            assert tally.partitions >= 30
            assert sum(tally.applied.values()) > 0


@pytest.fixture(scope="module")
def templates(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(faulted_directory, "TEMPLATES", 1)
        yield tmp_path_factory.mktemp("templates")


def test_a_directory_is_that_of_its_number(tmp_path: Path, templates: Path) -> None:
    trees = []
    for name in ("one", "other"):
        directory = Directory(tmp_path / name, templates, SEED, 3, Choice())
        directory.make()
        trees.append({path: content[-1] for path, content in faulted_directory.tree(directory.outside).items()})
    assert trees[0].keys() == trees[1].keys()
    assert [path for path in trees[0] if trees[0][path] != trees[1][path]] == []
    assert len(directory.faults) > 30


def test_the_faults_of_partitions_are_of_all_kinds(tmp_path: Path, templates: Path) -> None:
    texts = []
    for number in range(6):
        directory = Directory(tmp_path / "run", templates, SEED, number, Choice())
        directory.make()
        texts += [text for name, own in directory.faults.items() if name for text in own]
    assert {text.split(": ")[1] for text in texts} >= set(kinds())


class TestJudge:
    """A batch is found by its magic, size and CRC alone; only what no CRC covers may differ."""

    @pytest.fixture(params=["2.8", "0.10.2", "0.9.0"])
    def log(self, request: pytest.FixtureRequest, tmp_path: Path) -> bytes:
        config = {"message.format.version": request.param} if request.param != "2.8" else {}
        steps = [{"append": {"records": 9, "batch_records": 3}}]
        fixture({"topics": [{"name": "a", "config": config, "steps": steps}]}, tmp_path / "data")
        return (tmp_path / "data" / "a-0" / f"{0:020d}.log").read_bytes()

    def test_batches_are_found_after_zeros_and_noise(self, log: bytes) -> None:
        batches = valid_batches(log)
        middle = batches[1].start
        shifted = valid_batches(bytes(100) + log[:middle] + random.Random(1).randbytes(77) + log[middle:])
        assert [batch.identity for batch in shifted] == [batch.identity for batch in batches]

    def test_a_changed_record_is_another_batch_and_a_changed_offset_is_not(self, log: bytes) -> None:
        batches = valid_batches(log)
        moved = b"\0\0\0\0\0\0\0\7" + log[8:]
        assert missing(batches, valid_batches(moved), {}) == []
        changed = log[: batches[0].stop - 1] + bytes((log[batches[0].stop - 1] ^ 1,)) + log[batches[0].stop :]
        assert missing(batches, valid_batches(changed), {}) == [batches[0]]

    def test_a_copy_that_a_fault_made_may_go(self, log: bytes) -> None:
        twice, once = valid_batches(log + log), valid_batches(log)
        assert missing(twice, once, {}) == []
        assert len(missing(twice, once, {batch.identity: 2 for batch in once})) == len(once)

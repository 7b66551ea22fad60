"""Which indexes are built anew, of which logs, and what is said of those that are left."""

from __future__ import annotations

from pathlib import Path

import pytest

import kdump
from kdump.change.apply import apply_plan
from kdump.change.place import new_change
from kdump.errors import RefusedError
from kdump.formats import names
from kdump.formats.index_entries import AbortedTxn, encode_aborted_txns
from kdump.mend.indexes import examine_indexes
from kdump.mend.task import INDEX_KINDS, Task
from kdump.recovery.startup import Startup
from kdump.storage.partition import PartitionLog
from tests.recovery.building import NOW, batch, broken, file, make_log, marker, produced
from tests.repair.damaged import BASES, DAMAGES, STARTUP, edit, flip, name
from tests.repair.salvaging import content

ALL = frozenset(INDEX_KINDS)
FAR = 1 << 31


def asked(log: PartitionLog, *bases: int, kinds: frozenset[str] = ALL, startup: Startup = STARTUP) -> Task:
    return examine_indexes(log, startup, kinds, frozenset(bases) or None)


def built(task: Task) -> list[str]:
    assert task.plan is not None, task.failure
    return sorted(each.name for each in task.plan.operations)


def of(partition: Path, *bases: int, kinds: frozenset[str] = ALL) -> Task:
    return asked(kdump.open_log(str(partition)), *bases, kinds=kinds)


class TestMissing:
    def test_of_a_log_without_a_batch_none_is(self, tmp_path: Path) -> None:
        """A broker makes them with the first entry."""
        log = make_log(tmp_path, {file(0, "log"): batch(0), file(1, "log"): b""})
        assert built(asked(log)) == [file(0, "index"), file(0, "timeindex")]

    def test_none_is_of_aborted_transactions(self, partition: Path) -> None:
        """Without one there were none, but verification knows better."""
        for base in BASES:
            (partition / name(base, "txnindex")).unlink(missing_ok=True)
        assert built(of(partition)) == [name(20, "txnindex")]
        assert built(of(partition, 0)) == []

    @pytest.mark.parametrize("kinds", [{"indexes"}, {"timeindexes"}, {"indexes", "timeindexes"}])
    def test_those_of_other_kinds_stay_away(self, partition: Path, kinds: set[str]) -> None:
        for kind in ("index", "timeindex"):
            (partition / name(20, kind)).unlink()
        suffixes = {"indexes": "index", "timeindexes": "timeindex"}
        assert built(of(partition, kinds=frozenset(kinds))) == sorted(name(20, suffixes[kind]) for kind in kinds)


class TestDamagedLogs:
    @pytest.mark.parametrize(
        ("damage", "base"),
        [
            ("first segment, payload", 0),
            ("middle segment, payload", 20),
            ("middle segment, torn tail", 20),
            ("last segment, garbage tail", 40),
            ("last segment, zero tail", 40),
        ],
    )
    def test_are_named_once_with_their_first_damage(self, partition: Path, damage: str, base: int) -> None:
        DAMAGES[damage](partition)
        (partition / name(20 if base == 0 else 0, "index")).unlink()
        (partition / name(base, "index")).unlink(missing_ok=True)
        task = of(partition, kinds=frozenset({"indexes"}))
        assert built(task) == [name(20 if base == 0 else 0, "index")]
        (problem,) = task.problems
        assert problem.startswith(f"{partition}/{name(base, 'log')}: byte ")
        assert problem.endswith(f". Indexes were not rebuilt. First: kdump repair {partition}")

    def test_of_several_damages_the_first_counts(self, partition: Path) -> None:
        size = 12 + int.from_bytes((partition / name(20, "log")).read_bytes()[8:12], "big")
        edit(name(20, "log"), flip(size + 70))(partition)
        edit(name(20, "log"), flip(900))(partition)
        (problem,) = of(partition).problems
        assert problem.startswith(f"{partition}/{name(20, 'log')}: byte {size}: ")

    def test_are_told_of_where_nothing_is_to_be_built(self, partition: Path) -> None:
        edit(name(20, "log"), flip(70))(partition)
        task = of(partition, kinds=frozenset({"indexes"}))
        assert (task.plan, len(task.problems)) == ((str(partition), (), {}), 1)
        assert of(partition, 0, 40, kinds=frozenset({"indexes"})).problems == ()
        assert len(of(partition, 20, kinds=frozenset({"indexes"})).problems) == 1

    def test_that_only_recovery_finds(self, tmp_path: Path) -> None:
        """Loading fails over a batch outside the transaction of its producer, which is no damage."""
        fails = produced(5, 7, transactional=True) + produced(6, 7, base_sequence=1)
        log = make_log(tmp_path, {file(0, "log"): batch(0, 5), file(5, "log"): fails, file(7, "log"): batch(7)})
        task = asked(log, kinds=frozenset({"indexes", "timeindexes"}), startup=Startup(NOW))
        assert built(task) == [file(base, kind) for base in (0, 7) for kind in ("index", "timeindex")]
        assert any(file(5, "log") in problem and "Expected transactional write" in problem for problem in task.problems)

    @pytest.mark.parametrize(
        ("base", "data", "why"),
        [
            (0, batch(0) + batch(FAR), ""),  # recovery makes several of it
            (2, batch(2) + batch(1), ": Split operation is only permitted for segments with overflow, and the problem"),
        ],
    )
    def test_whose_offsets_do_not_fit_into_a_segment(self, tmp_path: Path, base: int, data: bytes, why: str) -> None:
        log = make_log(tmp_path, {file(base, "log"): data, file(2 * FAR, "log"): batch(2 * FAR)})
        task = asked(log, startup=Startup(NOW))
        assert built(task) == [file(2 * FAR, "index"), file(2 * FAR, "timeindex")]
        (problem,) = task.problems
        assert problem.startswith(f"{log.path}/{file(base, 'log')}{why}")
        assert problem.endswith(f". Indexes were not rebuilt. First: kdump repair {log.path}")

    def test_a_transaction_may_have_begun_there(self, tmp_path: Path) -> None:
        """What aborted transactions later segments have depends on it; the other indexes do not."""
        segments = {0: broken(produced(0, 7, transactional=True)) + batch(1), 2: marker(2, 7, commit=False) + batch(3)}
        wrong = encode_aborted_txns([AbortedTxn(0, 7, 0, 9, 9)])
        files = {file(base, "log"): data for base, data in segments.items()} | {file(2, "txnindex"): wrong}
        task = asked(make_log(tmp_path, files), startup=Startup(NOW))
        assert built(task) == [file(2, "index"), file(2, "timeindex")]
        said = f"{file(2, 'txnindex')}: what aborted transactions it has depends on {file(0, 'log')}"
        assert any(said in problem for problem in task.problems)


def test_a_note_counts_where_another_index_of_the_segment_is_missing(partition: Path) -> None:
    """A broker builds both then, which may be what excuses the one that is there."""
    before = content(partition)
    data = before[name(40, "timeindex")]
    (partition / name(40, "timeindex")).write_bytes(data + bytes(120))
    task = asked(kdump.open_log(str(partition)), startup=STARTUP._replace(clean=False))
    (partition / name(40, "index")).unlink()
    both = asked(kdump.open_log(str(partition)), startup=STARTUP._replace(clean=False))
    assert set(built(both)) >= {name(40, "index"), name(40, "timeindex")}
    assert set(built(task)) <= {name(40, "timeindex")}
    assert both.plan is not None
    apply_plan(both.plan, new_change(str(partition)), keep_old=False)
    assert content(partition) == before


def test_a_directory_without_kafka_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / "dbus-1" / "system.d").mkdir(parents=True)
    with pytest.raises(RefusedError, match=r"has no Kafka files"):
        of(tmp_path / "dbus-1")


@pytest.mark.parametrize("beside", [names.LEADER_EPOCH_CHECKPOINT, name(40, "snapshot"), name(20, "txnindex")])
def test_what_is_garbage_beside_the_logs_does_not_matter(partition: Path, beside: str) -> None:
    before = content(partition)
    (partition / beside).write_bytes(b"garbage")
    (partition / name(0, "index")).unlink()
    task = of(partition)
    assert built(task) == sorted({name(0, "index"), beside} - {names.LEADER_EPOCH_CHECKPOINT, name(40, "snapshot")})
    assert task.plan is not None
    apply_plan(task.plan, new_change(str(partition)), keep_old=False)
    assert content(partition)[name(0, "index")] == before[name(0, "index")]
    assert content(partition)[name(20, "txnindex")] == before[name(20, "txnindex")]

"""The functions of `import kdump` that do what the commands do, with the same safety."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import kdump
from kdump.errors import CheckpointError, ConfigError, KdumpError, NameFormatError, ProblemError, RefusedError
from kdump.exports.options import ExportOptions
from kdump.formats import names
from kdump.mend.task import SALVAGE, TRUNCATE_LOG, Request
from kdump.operations.compact import Compacted, Skipped
from kdump.operations.lookup import AbortedRequest, Answer, OffsetRequest, TimestampRequest
from kdump.operations.lookup import Request as LookupRequest
from kdump.operations.results import Failed, Interrupted, Note
from kdump.operations.retain import Deleted
from kdump.operations.startup import Loaded
from kdump.operations.undo import Undone
from kdump.query.lookup import OffsetPosition, TimestampOffset
from kdump.recovery.broker_start import DirectoryState
from kdump.retention.partition import PartitionRetention
from kdump.storage import live, replica
from kdump.storage.partition import PartitionLog
from tests.change.kept import killed_after
from tests.locked import broker_on, open_files
from tests.replicas.test_lost_keys import SHARED, cluster, puts, uncleaned
from tests.schemas import registries
from tests.topics.building import Log as ClusterLog
from tests.topics.building import cluster_directory, metadata_pairs, snapshot_file
from tests.verify.building import Log, build, file, flip

CORPUS = Path(__file__).resolve().parent.parent / "fixtures" / "corpus"
NOW = 1_800_000_000_000


@pytest.fixture
def damaged(tmp_path: Path) -> Log:
    """A log with a batch that fails its CRC in the first segment."""
    built = build(tmp_path / "data")
    built.edit(file(0, "log"), flip(70))
    return built


def content(folder: Path) -> dict[str, bytes]:
    """The files below a folder that are not kdump's own."""
    found = (path for path in folder.rglob("*") if path.is_file() and not path.name.startswith(".kdump"))
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


def test_what_is_public_are_functions_and_classes() -> None:
    assert set(dir(kdump)) == set(kdump.__all__)
    for name in kdump.__all__:
        assert not isinstance(getattr(kdump, name), ModuleType)
    with pytest.raises(AttributeError, match="nothing_such"):
        _ = kdump.nothing_such


@pytest.mark.parametrize(
    "function", [kdump.startup, kdump.repair, kdump.groups, kdump.transactions, kdump.stats, kdump.verify]
)
def test_what_is_wrong_with_a_call_is_raised_by_the_call(function: object, tmp_path: Path) -> None:
    assert callable(function)
    with pytest.raises(FileNotFoundError):
        function(tmp_path / "nothing")
    with pytest.raises(NameFormatError):
        function(tmp_path)


WRONG: list[tuple[Callable[..., object], dict[str, object], type[Exception], str]] = [
    (kdump.verify, {"jobs": -1}, ValueError, "jobs is -1: expected a whole number, 0 or more"),
    (kdump.verify, {"jobs": "2"}, TypeError, "jobs is '2'"),
    (kdump.verify, {"limit": 0}, ValueError, "limit is 0"),
    (kdump.verify, {"max_per_code": -1}, ValueError, "max_per_code is -1"),
    (kdump.verify, {"max_rate": 0}, ValueError, "max_rate is 0"),
    (kdump.verify, {"max_duration": -1}, ValueError, "max_duration is -1: expected a number, 0 or more"),
    (kdump.verify, {"max_duration": "1h"}, TypeError, "max_duration is '1h'"),
    (kdump.startup, {"recovery_point": -1}, ValueError, "recovery_point is -1"),
    (kdump.startup, {"log_start_offset": 1.5}, TypeError, "log_start_offset is 1.5"),
    (kdump.startup, {"now": "today"}, TypeError, "now is 'today'"),
    (kdump.startup, {"clean": "no"}, TypeError, "clean is 'no'"),
    (kdump.repair, {"apply": "no"}, TypeError, "apply is 'no': expected bool"),
    (kdump.retain, {"apply": 1}, TypeError, "apply is 1"),
    (kdump.compact, {"keep_originals": None}, TypeError, "keep_originals is None"),
    (kdump.repair, {"jobs": -1}, ValueError, "jobs is -1"),
    (kdump.repair, {"accept_loss": -1}, ValueError, "accept_loss is -1"),
    (kdump.repair, {"backup_dir": "/absent"}, FileNotFoundError, "/absent"),
    (kdump.repair, {"backup_dir": "/", "keep_originals": False}, ValueError, "backup_dir"),
    (kdump.repair, {"request": "salvage"}, TypeError, r"'salvage': expected kdump\.mend\.task\.Request"),
    (kdump.repair, {"request": Request("salvge")}, ValueError, "strategy is 'salvge': expected safe, truncate"),  # type: ignore[arg-type]
    (kdump.repair, {"request": Request(kinds=frozenset({"logs"}))}, ValueError, "kinds is 'logs'"),
    (kdump.retain, {"log_start_offset": -5}, ValueError, "log_start_offset is -5"),
    (kdump.retain, {"high_watermark": -5}, ValueError, "high_watermark is -5"),
    (kdump.retain, {"settings": {"retention.mss": "1"}}, ConfigError, r"did you mean 'retention\.ms'\?"),
    (kdump.compact, {"passes": 0}, ValueError, "passes is 0: expected a whole number, 1 or more"),
    (kdump.compact, {"min_cleanable_ratio": 1.5}, ValueError, "expected a number from 0 to 1"),
    (kdump.compact, {"min_cleanable_ratio": float("nan")}, ValueError, "expected a number from 0 to 1"),
    (kdump.lookup, {"offset": -1}, ValueError, "offset is -1"),
    (kdump.lookup, {"timestamp": -7}, ValueError, "timestamp is -7"),
    (kdump.lookup, {"offset": 1, "isolation": "none"}, ValueError, "isolation is 'none': expected read_uncommitted"),
    (kdump.lookup, {"offset": 1, "log_start_offset": -1}, ValueError, "log_start_offset is -1"),
    (kdump.transactions, {"max_timeout_ms": -1}, ValueError, "max_timeout_ms is -1"),
    (kdump.metadata, {"at": -1}, ValueError, "at is -1"),
    (kdump.stats, {"options": "x"}, TypeError, "options is 'x'"),
    (kdump.undo, {"change": "x", "backup_dir": "/absent"}, FileNotFoundError, "/absent"),
    (kdump.changes, {"backup_dir": "/absent"}, FileNotFoundError, "/absent"),
    (kdump.verify, {"deep": "no"}, TypeError, "deep is 'no': expected bool"),
    (kdump.verify, {"select": "KD-LOG-CRC"}, TypeError, "select is 'KD-LOG-CRC': expected several"),
    (kdump.verify, {"ignore": "KD-LOG-CRC"}, TypeError, "ignore is 'KD-LOG-CRC'"),
    (kdump.ls, {"count": "no"}, TypeError, "count is 'no'"),
    (kdump.ls, {"outline": True, "now": "today"}, TypeError, "now is 'today'"),
    (kdump.transactions, {"keep_ended": "no"}, TypeError, "keep_ended is 'no'"),
    (kdump.transactions, {"now": "today"}, TypeError, "now is 'today'"),
    (kdump.metadata, {"secrets": "no"}, TypeError, "secrets is 'no'"),
    (kdump.repair, {"only_copy": "no"}, TypeError, "only_copy is 'no'"),
    (kdump.heal, {"sources": "/data"}, TypeError, "sources is '/data': expected several"),
    (kdump.rebuild_index, {"kinds": "indexes"}, TypeError, "kinds is 'indexes'"),
    (kdump.rebuild_index, {"wants_all": "no"}, TypeError, "wants_all is 'no'"),
    (kdump.retain, {"tombstones": "no"}, TypeError, "tombstones is 'no'"),
    (kdump.compact, {"compares_keys": "no"}, TypeError, "compares_keys is 'no'"),
    (kdump.compact, {"converts_old_formats": "no"}, TypeError, "converts_old_formats is 'no'"),
    (kdump.schemas, {"deep": "no"}, TypeError, "deep is 'no'"),
    (kdump.lost_records, {"leader": "1", "folder": "lost"}, TypeError, "leader is '1'"),
    (kdump.set_voters, {"voters": "1@kafka:9093"}, TypeError, "voters is '1@kafka:9093'"),
    (kdump.serve, {"on_damage": "stopp"}, ValueError, "on_damage is 'stopp': expected stop, skip, serve"),
    (kdump.serve, {"options": 3}, TypeError, "options is 3"),
]


@pytest.mark.parametrize(("function", "arguments", "error", "text"), WRONG)
def test_a_wrong_argument_is_named_by_the_call(
    damaged: Log, function: Callable[..., object], arguments: dict[str, object], error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        function(damaged.directory, **arguments)


@pytest.mark.parametrize("arguments", [{"threads": 0}, {"options": "x"}])
def test_a_wrong_argument_of_an_export(damaged: Log, tmp_path: Path, arguments: dict[str, object]) -> None:
    pytest.importorskip("pyarrow")
    with pytest.raises((ValueError, TypeError), match=next(iter(arguments))):
        kdump.export(damaged.directory, folder=tmp_path / "out", **arguments)  # type: ignore[arg-type]
    assert not (tmp_path / "out").exists()


def test_options_of_classes_are_checked() -> None:
    from kdump.exports.options import ExportOptionError, ExportOptions
    from kdump.operations.append import NewLog, Opening
    from kdump.statistics.partition import StatsOptions

    with pytest.raises(ExportOptionError, match="'orc' is not a format"):
        ExportOptions(format="orc")
    with pytest.raises(ValueError, match="target_bytes is 0"):
        ExportOptions(target_bytes=0)
    with pytest.raises(ValueError, match="sample is -1"):
        StatsOptions(sample=-1)
    with pytest.raises(ValueError, match="start_offset is -1"):
        Opening(create=NewLog(-1))
    with pytest.raises(TypeError, match="ignore_lock is True"):
        Opening(ignore_lock=True)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="clock is 3"):
        Opening(clock=3)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="create is True"):
        Opening(create=True)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="text is 3"):
        kdump.explain(3)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="lines is 'started'"):
        kdump.explain_log("started")


@pytest.mark.parametrize(
    "function",
    [
        *(kdump.open_log, kdump.open_segment, kdump.open_directory, kdump.verify, kdump.startup, kdump.repair),
        *(kdump.retain, kdump.compact, kdump.append, kdump.changes, kdump.groups, kdump.transactions),
        *(kdump.metadata, kdump.stats, partial(kdump.lookup, offset=1), partial(kdump.undo, change="x")),
        *(partial(kdump.export, folder="x"), partial(kdump.verify, "x", state=b"y")),  # type: ignore[arg-type]
    ],
)
def test_bytes_are_no_path(function: Callable[..., object]) -> None:
    with pytest.raises(TypeError, match=r"expected str or os\.PathLike, not bytes"):
        function(b"/data")


def test_bytes_are_no_path_of_a_scan() -> None:
    scanning = pytest.importorskip("kdump.columns.scanning", exc_type=ImportError)
    with pytest.raises(TypeError, match=r"expected str or os\.PathLike, not bytes"):
        scanning.scan([b"/data"])


def test_no_path_is_given() -> None:
    for function in (kdump.verify, kdump.startup, kdump.stats, kdump.retain):
        with pytest.raises(ValueError, match="paths is empty"):
            function()


def test_a_log_directory_is_no_log(damaged: Log, tmp_path: Path) -> None:
    with pytest.raises(NameFormatError, match="expected a partition directory"):
        kdump.open_log(damaged.directory)
    with pytest.raises(NameFormatError, match="not a log directory"):
        kdump.open_log(tmp_path)
    with pytest.raises(FileNotFoundError):
        kdump.append(tmp_path / "orders-7")
    with pytest.raises(TypeError, match="opening is 7"):
        kdump.append(damaged.partition, opening=7)  # type: ignore[arg-type]


def test_an_unknown_policy_is_refused(damaged: Log) -> None:
    for function in (kdump.stats, kdump.groups, kdump.retain, kdump.metadata):
        with pytest.raises(ValueError, match="errors is 'ignore': expected raise, skip, yield"):
            function(damaged.directory, errors="ignore")
    with pytest.raises(ValueError, match="one result"):
        kdump.metadata(damaged.directory, errors="yield")


@pytest.mark.parametrize(("release", "starts"), [("3.9", False), ("4.3", True), (None, True)])
def test_startup_and_repair_are_those_of_a_release(tmp_path: Path, release: str | None, starts: bool) -> None:
    data = cluster_directory(tmp_path / "data")
    feature = {"name": "metadata.version", "featureLevel": 25}
    ClusterLog(data / "__cluster_metadata-0", 9).add(*metadata_pairs(("FeatureLevel", feature))).write()
    found = list(kdump.startup(data, release=release, errors="skip"))
    assert any("metadata.version is 25" in str(each) for each in found) != starts
    with pytest.raises(ValueError, match=r"Kafka 2\.8 is not known"):
        kdump.startup(data, release="2.8")
    with pytest.raises(ValueError, match=r"'new' is not a release"):
        kdump.repair(data, release="new")


def test_startup(damaged: Log) -> None:
    found = list(kdump.startup(damaged.directory, clean=False, recovery_point=0, now=NOW))
    state, loaded = found
    assert isinstance(state, DirectoryState)
    assert isinstance(loaded, Loaded)
    assert loaded.outcome.loss.has_data
    with pytest.raises(ConfigError, match=r"segment\.index\.bytes is 'x'"):
        kdump.startup(damaged.directory, config={"segment.index.bytes": "x"})


def test_repair_and_undo(damaged: Log) -> None:
    before = content(damaged.directory)
    (planned,) = kdump.repair(damaged.partition, now=NOW)
    assert planned.task is not None
    assert planned.task.decision is not None
    assert content(damaged.directory) == before
    refused = kdump.repair(damaged.directory, request=Request(TRUNCATE_LOG), apply=True, now=NOW)
    with pytest.raises(RefusedError, match="drops"):
        next(refused)
    (left,) = kdump.repair(damaged.directory, request=Request(TRUNCATE_LOG), apply=True, now=NOW, errors="yield")
    assert isinstance(left.error, RefusedError)
    assert list(kdump.repair(damaged.directory, request=Request(TRUNCATE_LOG), apply=True, errors="skip")) == []
    assert content(damaged.directory) == before
    (done,) = kdump.repair(damaged.directory, request=Request(SALVAGE), apply=True, now=NOW)
    assert done.change is not None
    assert not [each for each in kdump.verify(damaged.directory, now=NOW) if each.severity == "error"]
    (listed,) = kdump.changes(damaged.directory).changes
    assert listed.change.id == done.change.id
    (undone,) = kdump.undo(damaged.directory, done.change.id)
    assert isinstance(undone, Undone)
    assert not undone.is_done
    (undone,) = kdump.undo(damaged.directory, done.change.id, apply=True)
    assert isinstance(undone, Undone)
    assert undone.is_done
    assert content(damaged.directory) == before
    with pytest.raises(KdumpError, match="there is no change"):
        kdump.undo(damaged.directory, "20200101T000000")


def test_a_repair_says_what_it_has_to_do_and_where_it_keeps_what_is_cut_out(damaged: Log, tmp_path: Path) -> None:
    before = tmp_path / "before"
    shutil.copytree(damaged.partition, before)
    (undecided,) = kdump.repair(damaged.directory, now=NOW)
    assert not undecided.has_work
    (planned,) = kdump.repair(damaged.directory, request=Request(SALVAGE), now=NOW)
    assert planned.has_work
    assert planned.kept_cuts == []
    copy = tmp_path / "copy"
    (copied,) = kdump.repair(damaged.directory, request=Request(SALVAGE), output=copy, apply=True, now=NOW)
    (done,) = kdump.repair(damaged.directory, request=Request(SALVAGE), apply=True, now=NOW)
    for each, directory in ((copied, copy), (done, damaged.directory)):
        (kept,) = map(Path, each.kept_cuts)
        assert kept.parent == directory
        assert kept.is_file()
    lone, copy = tmp_path / "apart" / damaged.partition.name, tmp_path / "lone"
    shutil.copytree(before, lone)
    (copied,) = kdump.repair(lone, request=Request(SALVAGE), output=copy, apply=True, now=NOW)
    (kept,) = map(Path, copied.kept_cuts)
    assert kept.is_relative_to(copy / lone.name)
    assert kept.is_file()
    (sound,) = kdump.repair(damaged.directory, now=NOW)
    assert not sound.has_work


def two_damaged(tmp_path: Path) -> tuple[Path, str]:
    """A log directory with two partitions that one change repaired, and the id of that change."""
    for number in (0, 1):
        built = build(tmp_path / "data", name=f"orders-{number}")
        built.edit(file(0, "log"), flip(70))
    done = list(kdump.repair(built.directory, request=Request(SALVAGE), apply=True, now=NOW))
    assert done[0].change is not None
    return built.directory, done[0].change.id


def test_an_undo_of_several_partitions_is_one_change(tmp_path: Path) -> None:
    data, id_ = two_damaged(tmp_path)
    undone = kdump.undo(data, id_, apply=True)
    ids = {each.by.id for each in undone if isinstance(each, Undone) and each.by is not None}
    assert (len(undone), len(ids)) == (2, 1)


def test_undo_says_what_it_cannot_read(tmp_path: Path) -> None:
    data, id_ = two_damaged(tmp_path)
    (data / f".kdump-{id_}+orders-0+journal").write_text("{}")
    before = content(data)
    assert len(kdump.changes(data).unreadable) == 1
    with pytest.raises(KdumpError, match="not a journal of a change"):
        kdump.undo(data, id_, apply=True)
    assert content(data) == before
    failed, undone = kdump.undo(data, id_, apply=True, errors="yield")
    assert isinstance(failed, Failed)
    assert isinstance(undone, Undone)
    assert undone.is_done


def test_changes_of_nothing(tmp_path: Path) -> None:
    for path in (tmp_path / "absent", tmp_path / "absent" / "orders-0"):
        with pytest.raises(FileNotFoundError):
            kdump.changes(path)
        with pytest.raises(FileNotFoundError):
            kdump.undo(path, "20200101T000000")
    with pytest.raises(NameFormatError):
        kdump.changes(tmp_path)


def test_nothing_is_repaired_beside_kafkas_files(damaged: Log) -> None:
    with pytest.raises(RefusedError, match="Kafka's own"):
        kdump.repair(damaged.directory, apply=True, output=damaged.partition / "copy")


@pytest.mark.parametrize("kept", ["state", "resume"])
def test_verify_keeps_no_file_among_kafkas(damaged: Log, tmp_path: Path, kept: str) -> None:
    verify: Callable[..., object] = partial(kdump.verify, damaged.directory)
    before = sorted(path.name for path in damaged.directory.rglob("*"))
    for folder in (damaged.directory, damaged.partition):
        with pytest.raises(RefusedError, match="Kafka's own"):
            verify(**{kept: folder / "state.json"})
    with pytest.raises(KdumpError, match="cannot be written"):
        verify(**{kept: tmp_path / "absent" / "state.json"})
    assert sorted(path.name for path in damaged.directory.rglob("*")) == before


def test_append(tmp_path: Path) -> None:
    built = build(tmp_path / "data")
    with kdump.append(built.partition, config={"segment.bytes": "100000"}) as log:
        end = log.end_offset
        log.roll()
    assert kdump.open_log(built.partition).segments[-1].base_offset == end
    with pytest.raises(ConfigError, match=r"segment\.bytes"):
        kdump.append(built.partition, config={"segment.bytes": "many"})
    with pytest.raises(ConfigError, match=r"did you mean 'segment\.bytes'\?"):
        kdump.append(built.partition, config={"segment.byts": "1"})
    properties = tmp_path / "topic.properties"
    properties.write_text("segment.bytes=100\nlog.retention.ms=5\n")
    with kdump.append(built.partition, config=properties) as log:
        assert log.config.segment_bytes == 100
    with pytest.raises(TypeError, match=r"segment\.bytes in config is 100: expected str"):
        kdump.append(built.partition, config={"segment.bytes": 100})  # type: ignore[dict-item]


def test_problems_are_raised_skipped_or_yielded(tmp_path: Path) -> None:
    data = shutil.copytree(CORPUS / "s-src-txn", tmp_path / "data")
    path = data / names.LOG_START_CHECKPOINT
    path.write_bytes(b"0\n1\nno checkpoint\n")
    with pytest.raises(ProblemError) as raised:
        next(kdump.transactions(data, now=NOW))
    assert raised.value.problem.path == str(path)
    (skipped,) = kdump.transactions(data, now=NOW, errors="skip")
    problem, found = kdump.transactions(data, now=NOW, errors="yield")
    assert isinstance(problem, kdump.Problem)
    assert not isinstance(skipped, kdump.Problem)
    assert not isinstance(found, kdump.Problem)
    assert found.found.last_stable_offset == skipped.found.last_stable_offset


def test_retain(tmp_path: Path) -> None:
    built = build(tmp_path / "data")
    before = content(built.directory)
    (found,) = kdump.retain(built.directory, settings={"retention.ms": "0"}, now=NOW)
    assert isinstance(found, PartitionRetention)
    assert found.has_work
    assert content(built.directory) == before
    with pytest.raises(ConfigError, match=r"retention\.ms is '-2'"):
        kdump.retain(built.directory, settings={"retention.ms": "-2"})
    _, deleted = kdump.retain(built.directory, settings={"retention.ms": "0"}, now=NOW, apply=True)
    assert isinstance(deleted, Deleted)
    assert deleted.change is not None
    assert content(built.directory) != before
    kdump.undo(built.directory, deleted.change, apply=True)
    assert content(built.directory) == before
    with pytest.raises(RefusedError, match="kdump does not know this topic's retention"):
        list(kdump.retain(built.directory, now=NOW, apply=True))
    (found, failed, _) = kdump.retain(built.directory, now=NOW, apply=True, errors="yield")
    assert isinstance(failed, Failed)


def test_compact(tmp_path: Path) -> None:
    built = build(tmp_path / "data")
    before = content(built.directory)
    (skipped,) = kdump.compact(built.directory, now=NOW)
    assert isinstance(skipped, Skipped)
    (planned,) = kdump.compact(built.directory, config={"cleanup.policy": "compact"}, now=NOW)
    assert isinstance(planned, Compacted)
    assert not planned.is_done
    assert content(built.directory) == before
    with pytest.raises(ConfigError, match=r"cleanup\.policy is 'Compact'"):
        kdump.compact(built.directory, config={"cleanup.policy": "Compact"})
    with pytest.raises(RefusedError, match="Kafka's own"):
        kdump.compact(built.directory, output=built.partition / "copy")


def test_what_a_broker_will_do_is_planned_beside_it(tmp_path: Path) -> None:
    built = build(tmp_path / "data")
    with broker_on(built.directory):
        (retained,) = kdump.retain(built.directory, settings={"retention.ms": "0"}, now=NOW)
        assert isinstance(retained, PartitionRetention)
        (compacted,) = kdump.compact(built.directory, config={"cleanup.policy": "compact"}, now=NOW)
        assert isinstance(compacted, Compacted)
        for operation in (kdump.retain, kdump.compact):
            with pytest.raises(RefusedError, match="a broker is running"):
                list(operation(built.directory, apply=True, now=NOW))
        with pytest.raises(RefusedError, match="a broker is running"):
            list(kdump.repair(built.directory, now=NOW))


@pytest.mark.parametrize(
    "operation",
    [
        lambda path: kdump.retain(path, settings={"retention.ms": "0"}, now=NOW, apply=True),
        lambda path: kdump.compact(path, config={"cleanup.policy": "compact"}, now=NOW, apply=True),
        lambda path: kdump.repair(path, now=NOW, apply=True),
        lambda path: kdump.trim(path, apply=True),
        lambda path: kdump.rebuild_index(path, apply=True),
    ],
)
def test_results_that_are_closed_halfway_hold_no_lock(operation: Callable[[Path], Any], tmp_path: Path) -> None:
    built = build(tmp_path / "data")
    results = operation(built.directory)
    next(results)
    results.close()
    assert str(built.directory / names.LOCK) not in open_files()


def test_retain_and_compact_tell_what_was_interrupted_and_what_does_not_count(damaged: Log) -> None:
    (damaged.directory / names.LOG_START_CHECKPOINT).write_text("x\n")
    with killed_after(1):
        list(kdump.repair(damaged.directory, request=Request(SALVAGE), apply=True, now=NOW, errors="skip"))
    for operation in (kdump.retain, kdump.compact):
        found = list(operation(damaged.directory, config={"cleanup.policy": "compact"}, now=NOW, errors="skip"))
        (interrupted,) = [each for each in found if isinstance(each, Interrupted)]
        assert not interrupted.is_finished
        assert [each.text for each in found if isinstance(each, Note) and "treated as empty" in each.text]


def test_a_name_in_a_config_that_does_not_count_is_a_note(tmp_path: Path) -> None:
    built = build(tmp_path / "data")
    for operation in (kdump.retain, kdump.compact):
        note, _ = operation(built.directory, config={"cleanup.polcy": "compact"}, now=NOW)
        assert isinstance(note, Note)
        assert "Did you mean 'cleanup.policy'?" in note.text


def test_groups() -> None:
    with pytest.raises(KdumpError, match="no partition of __consumer_offsets"):
        kdump.groups(CORPUS / "s-src-txn")


def test_lookup(damaged: Log) -> None:
    (there,) = kdump.lookup(damaged.directory, offset=8)
    assert not isinstance(there, kdump.Problem)
    assert there.exists
    assert isinstance(there.found, OffsetPosition)
    assert there.found.segment == 6
    (latest,) = kdump.lookup(damaged.directory, timestamp=-1)
    assert not isinstance(latest, kdump.Problem)
    assert isinstance(latest.found, TimestampOffset)
    assert latest.found.offset == latest.log_end_offset
    (damaged.directory / names.REPLICATION_CHECKPOINT).write_text("0\n1\norders 0 99\n")
    (beyond,) = kdump.lookup(damaged.directory, offset=latest.log_end_offset + 1)
    assert not isinstance(beyond, kdump.Problem)
    assert (beyond.exists, beyond.high_watermark) == (False, 99)
    (damaged.directory / names.LOG_START_CHECKPOINT).write_text("x\n")
    with pytest.raises(ProblemError):
        list(kdump.lookup(damaged.directory, offset=8))
    problem, found = kdump.lookup(damaged.directory, offset=8, errors="yield")
    assert isinstance(problem, kdump.Problem)
    assert found == there
    with pytest.raises(ValueError, match="give one of offset and timestamp"):
        kdump.lookup(damaged.directory)


def test_the_steps_of_a_lookup(damaged: Log) -> None:
    steps: list[tuple[str, str]] = []
    list(kdump.lookup(damaged.partition, offset=8, trace=lambda path, step: steps.append((path, step))))
    assert {path for path, _ in steps} == {str(damaged.partition)}
    assert any("offset index entry" in step for _, step in steps)


def test_many_lookups(damaged: Log) -> None:
    asked: list[LookupRequest] = [OffsetRequest(8), TimestampRequest(-1)]
    asked += [AbortedRequest(0, 9), TimestampRequest(1 << 60)]
    answers = list(kdump.lookups(damaged.partition, asked))
    assert all(isinstance(each, Answer) for each in answers)
    assert [each.request for each in answers if isinstance(each, Answer)] == asked
    there, latest, aborted, late = (each for each in answers if isinstance(each, Answer))
    assert isinstance(there.found, OffsetPosition)
    assert isinstance(latest.found, TimestampOffset)
    assert (aborted.aborted, late.found, late.aborted, late.error) == ((), None, None, None)
    with pytest.raises(ValueError, match="one partition directory"):
        kdump.lookups(damaged.directory, asked)


def test_stats_say_what_is_dirty(damaged: Log) -> None:
    (damaged.directory / names.CLEANER_CHECKPOINT).write_text("0\n1\norders 0 6\n")
    (found,) = kdump.stats(damaged.directory)
    assert not isinstance(found, kdump.Problem)
    assert found.dirtiness is not None
    assert found.dirtiness.checkpoint == 6


def test_stats() -> None:
    (found,) = kdump.stats(CORPUS / "s-src-txn")
    assert not isinstance(found, kdump.Problem)
    assert (found.topic, found.partition, found.stats.segments[0].base_offset) == ("topic", 0, 0)


def test_export(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    summary = kdump.export(CORPUS / "s-src-txn", folder=tmp_path / "out")
    assert summary.is_whole
    assert summary.rows > 100
    with pytest.raises(RefusedError):
        kdump.export(CORPUS / "s-src-txn", folder=CORPUS / "s-src-txn" / "out")


def test_an_export_that_lacks_a_partition_is_not_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pyarrow")
    for name in ("orders-0", "orders-1"):
        shutil.copytree(CORPUS / "s-src-txn" / "topic-0", tmp_path / "logs" / name)
    real = live.opened

    def opened(path: str) -> PartitionLog | None:
        if path.endswith("orders-1"):
            raise PermissionError(13, "Permission denied", path)
        return real(path)

    monkeypatch.setattr(replica, "opened", opened)
    with pytest.raises(ProblemError, match="Permission denied"):
        kdump.export(tmp_path / "logs", folder=tmp_path / "out")
    assert not kdump.export(tmp_path / "logs", folder=tmp_path / "out", errors="skip").is_whole
    assert not (tmp_path / "out" / "_SUCCESS").exists()
    monkeypatch.undo()
    assert kdump.export(tmp_path / "logs", folder=tmp_path / "out").is_whole


def test_export_decodes_by_schemas(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    schemas = registries.partition(tmp_path, registries.schema_record("orders-value", 1, 1, '"long"'))
    ClusterLog(tmp_path / "orders-0").add((b"k", registries.framed(1, b"\x04"))).write()
    kdump.export(tmp_path / "orders-0", folder=tmp_path / "out", schemas=schemas)
    (exported,) = (tmp_path / "out").rglob("*.parquet")
    assert pq.read_table(exported, partitioning=None)["value"].to_pylist() == [2]
    for wrong in ({"decode": "json"}, {"schema_id": 1}, {"staging": tmp_path / "staging"}):
        with pytest.raises(ValueError, match=r"schemas|staging"):
            kdump.export(tmp_path / "orders-0", folder=tmp_path / "other", **wrong)


def test_an_export_says_of_which_segment_the_damage_is(tmp_path: Path) -> None:
    built = build(tmp_path / "data")
    built.edit(file(6, "log"), flip(70))
    with pytest.raises(ProblemError) as met:
        kdump.export(built.directory, folder=tmp_path / "out", options=ExportOptions(target_bytes=1 << 30))
    assert met.value.problem.path == str(built.partition / file(6, "log"))


def test_lost_records(tmp_path: Path) -> None:
    brokers = cluster(tmp_path, uncleaned(SHARED, mark=8), uncleaned((*SHARED, *puts(8, 1, "ab"))))
    (lost,) = kdump.lost_records(*(tmp_path / name for name in brokers), leader=1, folder=tmp_path / "out", now=NOW)
    assert not isinstance(lost, kdump.Problem)
    assert (lost.topic, lost.partition, lost.records) == ("orders", 0, 2)
    with pytest.raises(RefusedError, match="is not empty"):
        list(kdump.lost_records(tmp_path / brokers[0], leader=1, folder=tmp_path / "out", now=NOW))


def test_metadata_needs_a_metadata_log(damaged: Log, tmp_path: Path) -> None:
    with pytest.raises(KdumpError, match="there is no __cluster_metadata-0"):
        kdump.metadata(damaged.directory)
    with pytest.raises(FileNotFoundError):
        kdump.metadata(tmp_path / "nothing")


def test_a_cluster_that_has_never_run_is_as_its_bootstrap_checkpoint_has_it(tmp_path: Path) -> None:
    data = cluster_directory(tmp_path / "data")
    feature = {"name": "metadata.version", "featureLevel": 25}
    snapshot_file(data, 0, 0, metadata_pairs(("FeatureLevel", feature))).rename(data / names.BOOTSTRAP_CHECKPOINT)
    assert kdump.metadata(data).image.features == {"metadata.version": 25}


def test_secrets_are_hidden_unless_they_are_asked_for(tmp_path: Path) -> None:
    data = cluster_directory(tmp_path / "data")
    config = {"resourceType": 4, "resourceName": "1", "value": "hush-hush"}
    scram = {"name": "u", "salt": b"hush-hush", "storedKey": b"hush-hush", "serverKey": b"hush-hush"}
    ClusterLog(data / "__cluster_metadata-0", 0).add(
        *metadata_pairs(
            ("Config", config | {"name": "ssl.keystore.password"}),
            ("Config", config | {"name": "log.retention.ms", "value": "7"}),
            ("UserScramCredential", scram),
        )
    ).write()
    state = kdump.metadata(data)
    assert "hush" not in repr(state)
    assert state.image.configs[4, "1"] == {"ssl.keystore.password": "[hidden]", "log.retention.ms": "7"}
    assert "hush" in repr(kdump.metadata(data, secrets=True).image.scram)


def test_a_properties_file(damaged: Log, tmp_path: Path) -> None:
    config = tmp_path / "server.properties"
    config.write_text("log.index.interval.bytes=1\n")
    loaded = [each for each in kdump.startup(damaged.directory, config=config) if isinstance(each, Loaded)]
    assert loaded[0].startup.config.index_interval_bytes == 1
    config.write_text("log.index.interval.bytes=\\u00zz\n")
    with pytest.raises(CheckpointError):
        kdump.startup(damaged.directory, config=config)

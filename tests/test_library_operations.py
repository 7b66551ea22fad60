"""The functions of `import kdump` that do what the commands do, with the same safety."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import kdump
from kdump.errors import CheckpointError, ConfigError, KdumpError, NameFormatError, ProblemError, RefusedError
from kdump.export.options import ExportOptions
from kdump.formats import names
from kdump.operations.compact import Compacted, PassedOver
from kdump.operations.lookup import AbortedRequest, Answer, OffsetRequest, TimestampRequest
from kdump.operations.results import Failed
from kdump.operations.retain import Deleted
from kdump.operations.startup import Loaded
from kdump.query.lookup import OffsetPosition, TimestampOffset
from kdump.recovery.broker_start import DirectoryState
from kdump.repair.proposal import SALVAGE, TRUNCATE_LOG, Request
from kdump.retention.partition import PartitionRetention
from kdump.storage import replica
from kdump.storage.partition import PartitionLog
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


def test_packages_do_not_take_the_place_of_functions() -> None:
    program = (
        "import kdump, kdump.verify.log, kdump.repair.proposal, kdump.stats, kdump.export.run, kdump.transactions\n"
        "from kdump.repair import proposal\n"
        "print(*(type(getattr(kdump, name)).__name__ for name in"
        " ('verify', 'repair', 'stats', 'export', 'transactions')))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) == {"function"}


@pytest.mark.parametrize(
    "function", [kdump.startup, kdump.repair, kdump.groups, kdump.transactions, kdump.stats, kdump.verify]
)
def test_what_is_wrong_with_a_call_is_raised_by_the_call(function: object, tmp_path: Path) -> None:
    assert callable(function)
    with pytest.raises(FileNotFoundError):
        function(tmp_path / "nothing")
    with pytest.raises(NameFormatError):
        function(tmp_path)


def test_an_unknown_policy_is_refused(damaged: Log) -> None:
    with pytest.raises(ValueError, match="ignore"):
        kdump.stats(damaged.directory, errors="ignore")
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
    assert not undone.is_done
    (undone,) = kdump.undo(damaged.directory, done.change.id, apply=True)
    assert undone.is_done
    assert content(damaged.directory) == before
    with pytest.raises(KdumpError, match="there is no change"):
        kdump.undo(damaged.directory, "20200101T000000")


def test_nothing_is_repaired_beside_kafkas_files(damaged: Log) -> None:
    with pytest.raises(RefusedError, match="Kafka's own"):
        kdump.repair(damaged.directory, apply=True, output=damaged.partition / "copy")


def test_append(tmp_path: Path) -> None:
    built = build(tmp_path / "data")
    with kdump.append(built.partition, config={"segment.bytes": "100000"}) as log:
        end = log.end_offset
        log.roll()
    assert kdump.open_log(built.partition).segments[-1].base_offset == end
    with pytest.raises(ConfigError, match=r"segment\.bytes"):
        kdump.append(built.partition, config={"segment.bytes": "many"})


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
    (passed_over,) = kdump.compact(built.directory, now=NOW)
    assert isinstance(passed_over, PassedOver)
    (planned,) = kdump.compact(built.directory, config={"cleanup.policy": "compact"}, now=NOW)
    assert isinstance(planned, Compacted)
    assert not planned.is_done
    assert content(built.directory) == before
    with pytest.raises(ConfigError, match=r"cleanup\.policy is 'Compact'"):
        kdump.compact(built.directory, config={"cleanup.policy": "Compact"})
    with pytest.raises(RefusedError, match="Kafka's own"):
        kdump.compact(built.directory, output=built.partition / "copy")


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
    asked = [OffsetRequest(8), TimestampRequest(-1), AbortedRequest(0, 9), TimestampRequest(1 << 60)]
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
    real = replica.opened

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
            kdump.export(tmp_path / "orders-0", folder=tmp_path / "other", **wrong)  # type: ignore[arg-type]


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


def test_a_properties_file(damaged: Log, tmp_path: Path) -> None:
    config = tmp_path / "server.properties"
    config.write_text("log.index.interval.bytes=1\n")
    loaded = [each for each in kdump.startup(damaged.directory, config=config) if isinstance(each, Loaded)]
    assert loaded[0].startup.config.index_interval_bytes == 1
    config.write_text("log.index.interval.bytes=\\u00zz\n")
    with pytest.raises(CheckpointError):
        kdump.startup(damaged.directory, config=config)

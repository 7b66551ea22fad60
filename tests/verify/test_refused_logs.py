"""A log with which a broker does not start, although it stopped in order: verification and a start say the same."""

from __future__ import annotations

import zlib
from pathlib import Path
from struct import pack_into

import pytest

from kdump.findings.kind import BrokerEffect
from kdump.formats import names
from kdump.formats.codecs import GZIP
from kdump.formats.encode import NewRecord, encode_wrapper
from kdump.library.reading import startup
from kdump.library.verifying import verify
from kdump.operations.startup import Loaded
from kdump.recovery.loader import load_log
from kdump.releases import KafkaRelease, newest_metadata_version
from kdump.settings.loading import LoadingSettings
from kdump.settings.sources import Settings
from kdump.storage.facts import log_end_offset
from kdump.storage.partition import PartitionLog
from tests.repair.damaged import STARTUP, build, edit, name
from tests.topics.building import Log as MetadataLog
from tests.topics.building import metadata_pairs
from tests.verify.building import batch, marker, produced
from tests.verify.building import build as build_log

CLOSED = STARTUP._replace(clean=True)


@pytest.fixture
def partition(tmp_path: Path) -> Path:
    partition = build(tmp_path)
    (partition.parent / names.CLEAN_SHUTDOWN).write_text("")
    return partition


def is_refused(partition: Path) -> bool:
    refusals = (BrokerEffect.REFUSES, BrokerEffect.GOES_OFFLINE)
    return any(finding.broker in refusals for finding in verify(str(partition)))


@pytest.mark.parametrize("has_entries", [True, False])
def test_zeros_from_any_byte_on(partition: Path, has_entries: bool) -> None:
    """Without index entries a broker reads the whole segment to find its end, else from the last entry on."""
    log = partition / name(40, "log")
    whole = log.read_bytes()
    if not has_entries:
        (partition / name(40, "index")).write_bytes(b"")
    seen = set()
    for start in range(0, len(whole), 7):
        log.write_bytes(whole[:start] + bytes(len(whole) - start))
        is_loaded = load_log(PartitionLog(str(partition)), CLOSED).ok
        assert is_refused(partition) != is_loaded, start
        seen.add(is_loaded)
    assert seen == {True, False}


def test_zeros_that_an_index_leads_past(partition: Path) -> None:
    """A broker looks for the end behind the last entry: it meets no zeros there, and opens an empty segment."""
    log = partition / name(40, "log")
    log.write_bytes(bytes(200))
    assert load_log(PartitionLog(str(partition)), CLOSED).ok
    assert not is_refused(partition)


@pytest.mark.parametrize("was_closed", [True, False])
def test_what_stands_behind_damage_is_not_met(partition: Path, was_closed: bool) -> None:
    """Recovery cuts the log at the damage, and never reads the batch that it could not take."""
    if not was_closed:
        (partition.parent / names.CLEAN_SHUTDOWN).unlink()
    far = batch((1 << 35) + 60)
    edit(name(40, "log"), lambda held: held[:100] + bytes((held[100] ^ 1,)) + held[101:] + far + batch(70))(partition)
    is_found = {finding.code: finding.broker for finding in verify(str(partition))}
    assert "KD-LOG-CRC" in is_found
    assert is_found["KD-LOG-OFFSET"] == (BrokerEffect.REFUSES if was_closed else BrokerEffect.TRUNCATES)


def test_a_damaged_batch_before_zeros(partition: Path) -> None:
    """Its size leads to the zeros: no CRC is looked at."""
    edit(name(40, "log"), lambda held: held[:100] + b"\1" + held[101:600] + bytes(len(held) - 600))(partition)
    (partition / name(40, "index")).write_bytes(b"")
    assert not load_log(PartitionLog(str(partition)), CLOSED).ok
    assert is_refused(partition)


@pytest.mark.parametrize("was_closed", [True, False])
@pytest.mark.parametrize("again", [slice(1, 3), slice(0, 3), slice(2, 3)])
def test_batches_of_a_transaction_that_stand_twice(tmp_path: Path, was_closed: bool, again: slice) -> None:
    """A broker aborts it a second time, at an offset that is taken; of a marker alone it aborts nothing."""
    batches = [batch(0), produced(2, 9, 0), marker(4, 9)]
    log = build_log(tmp_path / "data", {0: [*batches, *batches[again]]})
    if was_closed:
        (log.directory / names.CLEAN_SHUTDOWN).write_text("")
        (log.directory / names.RECOVERY_POINT_CHECKPOINT).write_text("0\n1\norders 0 5\n")
    else:
        (log.directory / names.CLEAN_SHUTDOWN).unlink(missing_ok=True)
    parsed = STARTUP._replace(clean=was_closed, recovery_point=5 if was_closed else 0)
    is_loaded = load_log(PartitionLog(str(log.partition)), parsed).ok
    assert was_closed or is_loaded == (again == slice(2, 3))
    assert is_refused(log.partition) != is_loaded


@pytest.mark.parametrize("release", [KafkaRelease.V3_9, KafkaRelease.V4_1, KafkaRelease.V4_3])
def test_a_wrapper_whose_first_offset_cannot_be_read(tmp_path: Path, release: KafkaRelease) -> None:
    """Its checksum is right: a broker meets it in the search for the end of the log, from 4.1 on.

    Which release the broker runs is in the cluster's metadata.
    """
    wrapper = bytearray(encode_wrapper([NewRecord(0, 1000, None, b"value")], 1, GZIP))
    wrapper[34:36] = b"no"
    pack_into(">I", wrapper, 12, zlib.crc32(wrapper[16:]))
    log = build_log(tmp_path / "data", {0: [bytes(wrapper)]}, closed=False)
    level = newest_metadata_version(release)
    feature = {"name": "metadata.version", "minSupportedVersion": 7, "maxSupportedVersion": level}
    broker = {"brokerId": 1, "brokerEpoch": 1, "rack": None, "features": [feature]}
    metadata_log = MetadataLog(log.directory / names.CLUSTER_METADATA_DIR)
    metadata_log.add(*metadata_pairs(("RegisterBroker", broker))).write()
    of_release = STARTUP._replace(clean=False, config=LoadingSettings.of(Settings({}).of("orders"), release))
    is_loaded = load_log(PartitionLog(str(log.partition)), of_release).ok
    assert is_loaded == (release < KafkaRelease.V4_1)
    (finding,) = [each for each in verify(str(log.directory), deep=True) if each.code == "KD-BATCH-CODEC"]
    assert (finding.broker == BrokerEffect.REFUSES) != is_loaded
    told = {each.path: each for each in startup(str(log.directory)) if isinstance(each, Loaded)}
    assert told[str(log.partition)].outcome.ok == is_loaded


@pytest.mark.parametrize(("entries", "is_served"), [("1 20\n0 0\n", True), ("0 -5\n2 40\n", False)])
def test_leader_epochs_out_of_order_are_forgotten_and_negative_ones_refused(
    partition: Path, entries: str, is_served: bool
) -> None:
    (partition / names.LEADER_EPOCH_CHECKPOINT).write_text(f"0\n2\n{entries}")
    assert load_log(PartitionLog(str(partition)), CLOSED).ok == is_served
    assert "KD-EPOCH-FORMAT" in {finding.code for finding in verify(str(partition))}
    assert is_refused(partition) != is_served


def test_leader_epochs_count_where_the_log_start_offset_is_above_the_end_of_the_log(partition: Path) -> None:
    """Nobody can go by such a log start offset: `repair` takes it away, and the epochs with it in one run."""
    (partition / names.LEADER_EPOCH_CHECKPOINT).write_text("")
    for start, is_told in ((0, True), (59, False), (60, True)):
        (partition.parent / names.LOG_START_CHECKPOINT).write_text(f"0\n1\norders 0 {start}\n")
        assert ("KD-EPOCH-CHECKPOINT" in {finding.code for finding in verify(str(partition))}) == is_told, start


def test_what_ends_a_log_in_the_middle_needs_a_decision(partition: Path) -> None:
    """`repair` cuts an incomplete batch only where nothing follows."""
    for base, commands in ((20, {"--strategy", "--from", "--fix-bit"}), (40, set())):
        whole = (partition / name(base, "log")).read_bytes()
        (partition / name(base, "log")).write_bytes(whole[:-5])
        (finding,) = [each for each in verify(str(partition)) if each.code == "KD-LOG-TORN"]
        assert {each.arguments[0] for each in finding.remedies if each.arguments} == commands
        (partition / name(base, "log")).write_bytes(whole)


def test_checkpoints_are_held_against_the_end_that_a_broker_finds(partition: Path) -> None:
    """It looks at no CRC there: the last batch counts, damaged as it is."""
    end = log_end_offset(PartitionLog(str(partition)))
    (partition.parent / names.REPLICATION_CHECKPOINT).write_text(f"0\n1\norders 0 {end}\n")
    edit(name(40, "log"), lambda held: held[:-3] + b"\1\1\1")(partition)
    assert log_end_offset(PartitionLog(str(partition))) == end
    codes = {finding.code for finding in verify(str(partition))}
    assert "KD-LOG-CRC" in codes
    assert "KD-CKPT-HIGH-WATERMARK" not in codes

"""A log with which a broker does not start, although it stopped in order: verification and a start say the same."""

from __future__ import annotations

import zlib
from dataclasses import replace
from pathlib import Path
from struct import pack_into

import pytest

from kdump.findings.finding import BrokerEffect
from kdump.formats import names
from kdump.formats.codecs import GZIP
from kdump.formats.encode import NewRecord, encode_wrapper
from kdump.library.reading import startup
from kdump.library.verifying import verify
from kdump.operations.startup import Loaded
from kdump.recovery.loader import load_log
from kdump.releases import KafkaRelease, newest_metadata_version
from kdump.settings.sources import Settings
from kdump.settings.views import LoadingSettings
from kdump.storage.partition import PartitionLog
from tests.repair.damaged import STARTUP, build, edit, name
from tests.topics.building import Log as MetadataLog
from tests.topics.building import metadata_pairs
from tests.verify.building import batch, marker, produced
from tests.verify.building import build as build_log

CLOSED = replace(STARTUP, clean=True)


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
    says = replace(STARTUP, clean=was_closed, recovery_point=5 if was_closed else 0)
    is_loaded = load_log(PartitionLog(str(log.partition)), says).ok
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
    of_release = replace(STARTUP, clean=False, config=LoadingSettings.of(Settings({}).of("orders"), release))
    is_loaded = load_log(PartitionLog(str(log.partition)), of_release).ok
    assert is_loaded == (release < KafkaRelease.V4_1)
    (finding,) = [each for each in verify(str(log.directory), deep=True) if each.code == "KD-BATCH-CODEC"]
    assert (finding.broker == BrokerEffect.REFUSES) != is_loaded
    told = {each.path: each for each in startup(str(log.directory)) if isinstance(each, Loaded)}
    assert told[str(log.partition)].outcome.ok == is_loaded

"""Directories of real brokers before Kafka 2.1 (fixtures/brokers): sound, whatever command looks at them."""

from __future__ import annotations

from pathlib import Path

import pytest

from kdump.query.inventory import partition_info
from kdump.query.lookup import LogLookup
from kdump.storage.directory import LogDirectory
from kdump.storage.replica import Replica
from kdump.txns.partition import transactions_of
from tests.topics.building import unexpected
from tests.unpacking import unpack
from tests.verify.building import codes, found, unsound_indexes

ARCHIVE = Path(__file__).resolve().parent.parent.parent / "fixtures" / "brokers" / "old-releases.tar.xz"
BROKERS = ["0.10.2.2-stop", "1.0.2-kill", "1.1.1-stop", "2.0.1-kill"]


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("brokers")
    unpack(ARCHIVE, folder)
    return folder


@pytest.fixture(params=BROKERS)
def directory(request: pytest.FixtureRequest, brokers: Path) -> LogDirectory:
    return LogDirectory(str(brokers / request.param))


@pytest.mark.parametrize("deep", [True, False])
def test_nothing_is_wrong(directory: LogDirectory, deep: bool) -> None:
    newest = max(partition_info(log).largest_timestamp or 0 for log in directory.partitions())
    findings = found(Path(directory.path), deep=deep, now=newest + 60_000)
    assert codes(findings) == set()
    assert codes(findings, "note") != set()


def test_no_index_is_to_be_replaced(directory: LogDirectory) -> None:
    for log in directory.partitions():
        assert unsound_indexes(log) == set()


def test_emptied_batches_of_a_compacted_topic_open_no_transaction(brokers: Path) -> None:
    """The restarted broker's last stable offset of this log was its end."""
    log = next(log for log in LogDirectory(str(brokers / "2.0.1-kill")).partitions() if "cmp-txn" in log.path)
    found = transactions_of(Replica(log, 0, None), unexpected)
    assert found.open == []
    assert found.last_stable_offset == found.end_offset > 600


def test_the_newest_record_of_a_killed_broker_is_found_by_time(brokers: Path) -> None:
    """What the broker answered after it had recovered the log, whose time index lacks the record."""
    log = next(LogDirectory(str(brokers / "1.0.2-kill")).partitions())
    with LogLookup(log, clean=log.closed_cleanly) as lookup:
        answer = lookup.find_timestamp(1795326100508)
    assert answer is not None
    assert answer.offset == 31

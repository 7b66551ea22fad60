"""What is sound, and was stopped in order, gives no command anything to repair."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.commands.running import Run
from tests.unpacking import unpack
from tests.verify.test_old_brokers import ARCHIVE

STOPPED = ["0.10.2.2-stop", "1.1.1-stop"]
"""Their indexes hold first offsets, which a rebuild would not write."""

REPAIRING = {
    "repair": ("repair",),
    "salvage": ("repair", "--strategy", "salvage"),
    "truncate": ("repair", "--strategy", "truncate"),
    "rebuild-index": ("rebuild-index",),
    "trim": ("trim",),
}


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("brokers")
    unpack(ARCHIVE, folder)
    return folder


@pytest.mark.parametrize("name", STOPPED)
class TestOldBrokers:
    def test_verify_and_startup_find_nothing(self, run: Run, brokers: Path, name: str) -> None:
        assert run("verify", brokers / name) == 0
        assert run("startup", brokers / name) == 0

    @pytest.mark.parametrize("command", REPAIRING)
    def test_nothing_to_do(self, run: Run, brokers: Path, name: str, command: str) -> None:
        assert run(*REPAIRING[command], brokers / name) == 0
        assert run.out == "Nothing to do.\n"

    def test_a_rebuild_of_all_indexes_would_write_others(self, run: Run, brokers: Path, name: str) -> None:
        assert run("rebuild-index", brokers / name, "--all") == 1


@pytest.mark.parametrize("strategy", ["safe", "truncate", "salvage"])
def test_a_log_of_cluster_metadata_with_other_index_entries(run: Run, tmp_path: Path, strategy: str) -> None:
    """A controller recovers its log at every start; that is its routine, and no repair."""
    unpack(ARCHIVE.with_name("release-4.3.1.tar.xz"), tmp_path)
    settings = tmp_path / "server.properties"
    settings.write_text("index.interval.bytes=100\n")
    assert run("rebuild-index", tmp_path / "disk1" / "__cluster_metadata-0", "--config", settings, "--all") == 1
    assert run("repair", tmp_path / "disk1", "--config", settings, "--strategy", strategy) == 0

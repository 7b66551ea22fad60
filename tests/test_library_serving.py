"""`kdump.serve`: log directories for Kafka clients, from Python."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

import kdump
from kdump.errors import BrokerRunsError, KdumpError, NameFormatError
from tests.locked import broker_on
from tests.serve.data import build
from tests.test_library_operations import content


@pytest.fixture(scope="module")
def log_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("served") / "data")


def is_reached(address: str) -> bool:
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=5).close()
    except ConnectionRefusedError:
        return False
    return True


def test_clients_read_while_it_lasts(log_dir: Path) -> None:
    admin = pytest.importorskip("confluent_kafka.admin")
    before = content(log_dir)
    with kdump.serve(log_dir) as address:
        client = admin.AdminClient({"bootstrap.servers": address})
        assert "payments" in client.list_topics(timeout=10).topics
    assert not is_reached(address)
    assert content(log_dir) == before


def test_only_users_with_passwords_may_connect(log_dir: Path) -> None:
    said: list[str] = []
    with kdump.serve(log_dir, passwords={"ada": "secret"}, say=said.append) as address:
        assert is_reached(address)
    with pytest.raises(KdumpError, match="no SCRAM credentials"):
        kdump.serve(log_dir, has_metadata_users=True)


def test_a_directory_that_a_broker_uses_is_not_served(log_dir: Path) -> None:
    with broker_on(log_dir):
        for path in (log_dir, next(log_dir.glob("payments-*"))):
            with pytest.raises(BrokerRunsError):
                kdump.serve(path)
        with kdump.serve(log_dir, ignores_lock=True) as address:
            assert is_reached(address)


def test_wrong_calls(log_dir: Path, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        kdump.serve(tmp_path / "nothing")
    with pytest.raises(ValueError, match="is empty: expected one path or more"):
        kdump.serve()
    with pytest.raises(ValueError, match="ignore"):
        kdump.serve(log_dir, on_damage="ignore")
    moved = tmp_path / f"orders-0.{'a' * 32}-future"
    moved.mkdir()
    (moved / f"{0:020d}.log").write_bytes(b"")
    with pytest.raises(NameFormatError, match="as clients know it"):
        kdump.serve(moved)

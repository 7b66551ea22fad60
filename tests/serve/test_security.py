"""Who may connect, and how: TLS, SASL PLAIN and SCRAM, by real clients."""

from __future__ import annotations

import ssl
import subprocess
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient

from kdump.serve.background import serve
from kdump.serve.sasl import AuthenticationError, Exchange, Mechanism, Users
from kdump.serve.server import ServeOptions
from tests.serve.data import build

PASSWORDS = {"ada": "secret", "grace": "other, with = and ,"}


@pytest.fixture(scope="module")
def log_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("served") / "data")


def topics(server: str, **settings: str) -> set[str]:
    found: list[confluent_kafka.KafkaError] = []
    config: dict[str, Any] = {"bootstrap.servers": server, "error_cb": found.append, **settings}
    admin = AdminClient(config)
    try:
        return set(admin.list_topics(timeout=4).topics)
    except confluent_kafka.KafkaException:
        admin.poll(1)
        raise PermissionError([str(error) for error in found]) from None


@pytest.mark.parametrize("mechanism", Mechanism)
def test_users_say_who_they_are(mechanism: str, log_dir: Path) -> None:
    sasl = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": mechanism}
    with serve(str(log_dir), passwords=PASSWORDS) as server:
        for name, password in PASSWORDS.items():
            known = {"sasl.username": name, "sasl.password": password}
            assert "payments" in topics(server, **sasl, **known)
        with pytest.raises(PermissionError, match=r"(?i)authentication failed"):
            topics(server, **sasl, **{"sasl.username": "ada", "sasl.password": "wrong"})
        with pytest.raises(PermissionError, match=r"(?i)authentication failed"):
            topics(server, **sasl, **{"sasl.username": "nobody", "sasl.password": "secret"})


def test_nobody_is_let_in_without_a_name(log_dir: Path) -> None:
    said: list[str] = []
    with serve(str(log_dir), passwords=PASSWORDS, say=said.append) as server, pytest.raises(PermissionError):
        topics(server)
    assert any("before the client has said who it is" in line for line in said), said


def test_the_credentials_of_the_metadata_count() -> None:
    from kdump.serve.sasl import make_credential

    salt, iterations, stored_key, server_key = make_credential("SCRAM-SHA-256", "pencil")
    fields = {"salt": salt, "iterations": iterations, "storedKey": stored_key, "serverKey": server_key}
    users = Users({}, {("alice", 1): fields, ("odd", 9): fields})
    assert users.mechanisms == [Mechanism.PLAIN, Mechanism.SCRAM_SHA_256]
    exchange = Exchange(users, Mechanism.PLAIN)
    assert exchange.answer(b"\0alice\0pencil") == b""
    assert exchange.user == "alice"
    with pytest.raises(AuthenticationError, match="unknown user or wrong password"):
        Exchange(users, Mechanism.PLAIN).answer(b"\0alice\0pen")


@pytest.mark.parametrize("token", [b"", b"\0", b"\xff\0a\0b", b"n,,n=ada", b"p=x,,n=ada,r=1", b"n,,r=1", b"x" * 5000])
@pytest.mark.parametrize("mechanism", Mechanism)
def test_nonsense_is_refused(mechanism: Mechanism, token: bytes) -> None:
    with pytest.raises(AuthenticationError):
        Exchange(Users(PASSWORDS, {}), mechanism).answer(token)


def test_tls(log_dir: Path, tmp_path: Path) -> None:
    pem = tmp_path / "server.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost", "-days", "2"]
    command += ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(pem), "-out", str(tmp_path / "cert.pem")]
    subprocess.run(command, check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "cert.pem", pem)
    tls = {"security.protocol": "SSL", "ssl.ca.location": str(tmp_path / "cert.pem")}
    said: list[str] = []
    with serve(str(log_dir), options=ServeOptions(port=0, tls=context), say=said.append) as server:
        assert "payments" in topics(server, **tls)
        consumer = confluent_kafka.Consumer(
            {"bootstrap.servers": server, "group.id": "g", "auto.offset.reset": "earliest", **tls}
        )
        consumer.subscribe(["codec-none"])
        assert len(consumer.consume(160, timeout=30)) == 160
        consumer.close()
        with pytest.raises(PermissionError):
            topics(server)
    assert any("no TLS connection" in line or "closed" in line for line in said), said

"""Who may connect, and how: TLS, SASL PLAIN and SCRAM, by real clients."""

from __future__ import annotations

import socket
import ssl
import struct
import subprocess
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient

from kdump.server import sasl
from kdump.server import server as server_module
from kdump.server.background import serve
from kdump.server.logins import MAX_PENDING, Logins, origin_of
from kdump.server.sasl import AuthenticationError, Exchange, Mechanism, Users
from kdump.server.server import ServeOptions
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
    from kdump.server.sasl import make_credential

    salt, iterations, stored_key, server_key = make_credential("SCRAM-SHA-256", "pencil")
    fields = {"salt": salt, "iterations": iterations, "storedKey": stored_key, "serverKey": server_key}
    users = Users({}, {("alice", 1): fields, ("odd", 9): fields})
    assert users.mechanisms == [Mechanism.PLAIN, Mechanism.SCRAM_SHA_256]
    exchange = Exchange(users, Mechanism.PLAIN)
    assert exchange.answer(b"\0alice\0pencil") == b""
    assert exchange.user == "alice"
    with pytest.raises(AuthenticationError, match="unknown user or wrong password"):
        Exchange(users, Mechanism.PLAIN).answer(b"\0alice\0pen")


def test_an_unknown_user_is_answered_as_late_and_as_much_as_a_known_one(monkeypatch: pytest.MonkeyPatch) -> None:
    derived: list[tuple[str, int]] = []
    derive = sasl._derive

    def counted(name: str, password: str, salt: bytes, iterations: int) -> sasl.Credential:
        derived.append((name, iterations))
        return derive(name, password, salt, iterations)

    users = Users(PASSWORDS, {})
    monkeypatch.setattr(sasl, "_derive", counted)
    for name in (b"ada", b"nobody"):
        with pytest.raises(AuthenticationError):
            Exchange(users, Mechanism.PLAIN).answer(b"\0" + name + b"\0wrong")
    assert len(derived) == 2
    assert derived[0] == derived[1]
    first = [Exchange(users, Mechanism.SCRAM_SHA_256).answer(b"n,,n=nobody,r=x").split(b",") for _ in range(2)]
    assert first[0][1:] == first[1][1:]
    assert len(first[0][1]) == len(Exchange(users, Mechanism.SCRAM_SHA_256).answer(b"n,,n=ada,r=x").split(b",")[1])


def test_the_pause_grows_with_each_wrong_login_of_an_address() -> None:
    logins = Logins()
    assert [logins.failed("10.0.0.1") for _ in range(4)] == [0.5, 1, 2, 2]
    assert logins.failed("10.0.0.2") == 0.5
    logins.succeeded("10.0.0.1")
    assert logins.failed("::ffff:10.0.0.1") == 0.5
    assert origin_of("2001:db8::1") == origin_of("2001:db8::2") != origin_of("2001:db8:0:1::1")
    logins.close()


class _Client:
    """A connection that speaks a little of Kafka's protocol."""

    def __init__(self, server: str) -> None:
        host, _, port = server.rpartition(":")
        self.socket = socket.create_connection((host, int(port)))
        self.socket.settimeout(30)

    def ask(self, key: int, version: int, body: bytes) -> bytes:
        request = struct.pack(">hhih1s", key, version, 7, 1, b"x") + body
        self.socket.sendall(struct.pack(">i", len(request)) + request)
        return self._exactly(struct.unpack(">i", self._exactly(4))[0])

    def login(self, name: str, password: str) -> int:
        """The error code of the answer."""
        self.ask(17, 1, struct.pack(">h5s", 5, b"PLAIN"))
        token = f"\0{name}\0{password}".encode()
        return int(struct.unpack_from(">h", self.ask(36, 0, struct.pack(">i", len(token)) + token), 4)[0])

    def _exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            more = self.socket.recv(size - len(data))
            if not more:
                raise EOFError
            data += more
        return data


def test_silent_and_wrong_clients_keep_nobody_out(log_dir: Path) -> None:
    with serve(str(log_dir), passwords=PASSWORDS, options=ServeOptions(port=0, max_connections=2)) as address:
        known = _Client(address)
        assert known.login("ada", "secret") == 0
        silent = [_Client(address) for _ in range(MAX_PENDING + 5)]
        other = _Client(address)
        assert other.login("grace", PASSWORDS["grace"]) == 0
        wrong = [threading.Thread(target=_fails, args=(address,), daemon=True) for _ in range(20)]
        for thread in wrong:
            thread.start()
        started = time.monotonic()
        for _ in range(20):
            known.ask(3, 1, struct.pack(">i", 0))
        assert time.monotonic() - started < 10
        with pytest.raises((EOFError, ConnectionError)):
            _Client(address).login("ada", "secret")  # there are as many with a login as may be
        assert other.ask(3, 1, struct.pack(">i", 0))
        assert silent


def _fails(address: str) -> None:
    with suppress(EOFError, OSError):
        _Client(address).login("ada", "x" * 3000)


def test_a_connection_without_a_login_ends(log_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "LOGIN_SECONDS", 0.2)
    said: list[str] = []
    with serve(str(log_dir), passwords=PASSWORDS, say=said.append) as address:
        client = _Client(address)
        assert client.socket.recv(1) == b""
        known = _Client(address)
        assert known.login("ada", "secret") == 0
        time.sleep(0.4)
        assert known.ask(3, 1, struct.pack(">i", 0))
    assert any("no login within" in line for line in said), said


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

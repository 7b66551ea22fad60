"""`kdump serve`: what it prints, when it refuses, and how it ends."""

from __future__ import annotations

import fcntl
import json
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.serve.data import build

KDUMP = Path(sys.executable).parent / "kdump"
METADATA = struct.pack(">ihhihi", 4 + 4 + 2 + 4, 3, 1, 5, -1, -1)
"""A request for the metadata of all topics, in version 1."""


@pytest.fixture(scope="module")
def log_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("served") / "data")


@contextmanager
def serving(*arguments: object) -> Iterator[subprocess.Popen[str]]:
    command = [str(KDUMP), "serve", *map(str, arguments), "--listen", "127.0.0.1:0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def line_of(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline()


def ask(address: str, request: bytes) -> bytes:
    host, _, port = address.partition(":")
    with socket.create_connection((host, int(port))) as line:
        line.sendall(request)
        size = struct.unpack(">i", line.recv(4, socket.MSG_WAITALL))[0]
        return line.recv(size, socket.MSG_WAITALL)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_first_line_names_the_address_and_a_signal_ends_it(number: signal.Signals, log_dir: Path) -> None:
    with serving(log_dir) as process:
        words = line_of(process).split()
        assert words[:2] == ["Listening", "on"]
        assert words[4] == "topics,"
        assert words[-1] == "read-only."
        assert b"payments" in ask(words[2].rstrip(":"), METADATA)
        process.send_signal(number)
        out, err = process.communicate()
        assert (process.returncode, out, err) == (0, "", "")


def test_json_rows(log_dir: Path) -> None:
    with serving(log_dir, "--format", "jsonl", "-v") as process:
        assert json.loads(line_of(process))["schema"] == "kdump.serve/1"
        listening = json.loads(line_of(process))
        assert listening["type"] == "listening"
        assert listening["nodes"] == [{"nodeId": 1, "address": listening["bootstrapServers"]}]
        ask(listening["bootstrapServers"], METADATA)
        request = json.loads(line_of(process))
        assert (request["type"], request["api"], request["version"]) == ("request", "Metadata", 1)
        assert (request["correlationId"], request["clientId"], request["errors"]) == (5, None, [])
        process.send_signal(signal.SIGTERM)
        rows = [json.loads(line) for line in process.communicate()[0].splitlines()]
        assert rows[-1]["type"] == "summary"
        assert rows[-1]["exitCode"] == 0


def test_requests_are_lines_with_v(log_dir: Path) -> None:
    with serving(log_dir, "-v") as process:
        ask(line_of(process).split()[2].rstrip(":"), METADATA)
        process.send_signal(signal.SIGTERM)
        err = process.communicate()[1]
        assert " - Metadata v1 in=18 out=" in err


def test_a_running_broker_s_directory_is_refused(tmp_path: Path) -> None:
    log_dir = build(tmp_path / "data")
    with (log_dir / ".lock").open("w") as lock:
        fcntl.lockf(lock, fcntl.LOCK_EX)
        with serving(log_dir) as process:
            out, err = process.communicate()
            assert process.returncode == 4
            assert out == ""
            assert err.startswith("Refused: a broker is running on ")
            assert "--ignore-lock" in err
        with serving(log_dir / "payments-0") as process:
            process.communicate()
            assert process.returncode == 4
        with serving(log_dir, "--ignore-lock") as process:
            assert line_of(process).startswith("Listening on ")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [("", "there is no user in it"), ("# a comment\n", "there is no user in it"), ("ada\n", "line 1: expected NAME:"),
     ("[2026-11-22 03:50:08,385] INFO Loading logs\n", "line 1: expected NAME:")],
)
def test_a_file_without_users_is_no_invitation(text: str, complaint: str, log_dir: Path, tmp_path: Path) -> None:
    users = tmp_path / "users.txt"
    users.write_text(text)
    with serving(log_dir, "--users", users) as process:
        err = process.communicate()[1]
        assert process.returncode == 2
        assert complaint in err


def test_a_port_in_use(log_dir: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = subprocess.run(
            [KDUMP, "serve", log_dir, "--listen", f":{port}"], capture_output=True, text=True, check=False
        )
    assert done.returncode == 3
    assert done.stderr == f"kdump: cannot listen on 127.0.0.1:{port}: Address already in use\n"


def test_a_file_is_not_served(log_dir: Path) -> None:
    file = next((log_dir / "payments-0").glob("*.log"))
    with serving(file) as process:
        assert "give the partition directory that it is in" in process.communicate()[1]
        assert process.returncode == 2

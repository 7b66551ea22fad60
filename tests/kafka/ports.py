"""Loopback ports for brokers: each is given to one process of this machine at a time, whatever job that belongs to."""

from __future__ import annotations

import fcntl
import os
import random
import socket
import tempfile
from functools import cache
from pathlib import Path

PORTS = "KDUMP_KAFKA_PORTS"
"""The environment variable with the first and the last port that brokers may have, as 20000-31999."""

_DEFAULT_PORTS = "20000-31999"
"""Below the ports that Linux gives to clients, so that none of ours is taken by one."""


class NoPortError(Exception):
    """All ports are taken."""


def free_ports(number: int) -> list[int]:
    """Ports that nobody listens at, and that no other process gets before this one ends. Raises NoPortError.

    To look whether a port is free is not enough: a broker takes seconds until it listens.
    """
    first, last = map(int, os.environ.get(PORTS, _DEFAULT_PORTS).split("-"))
    ports: list[int] = []
    for port in random.Random().sample(range(first, last + 1), last + 1 - first):
        if len(ports) == number:
            break
        if _is_ours_now(port) and _is_unused(port):
            ports.append(port)
    if len(ports) < number:
        raise NoPortError(f"no free ports from {first} to {last}")
    return ports


def _is_ours_now(port: int) -> bool:
    """Take the lock of a port, a byte of a file that all jobs share; false where it is taken, by ourselves too."""
    if port in _given():
        return False
    try:
        fcntl.lockf(_locks(), fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
    except OSError:
        return False
    _given().add(port)
    return True


@cache
def _given() -> set[int]:
    """The ports that this process has locked; whether it has, the lock itself does not tell it."""
    return set()


@cache
def _locks() -> int:
    """The file, open until the process ends: closing it once would give all locks back."""
    path = Path(tempfile.gettempdir(), f"kdump-kafka-ports-{os.getuid()}")
    return os.open(path, os.O_RDWR | os.O_CREAT, 0o600)


def _is_unused(port: int) -> bool:
    with socket.socket() as trial:
        try:
            trial.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True

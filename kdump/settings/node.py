"""What a server.properties says of the node itself: who it is, where its logs are, whose votes count."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kdump.errors import ConfigError
from kdump.formats.java_text import parse_int

SERVER_PROPERTIES = "server.properties"

NODE_ID, LOG_DIRECTORIES, ROLES = "node.id", "log.dirs", "process.roles"
METADATA_DIRECTORY = "metadata.log.dir"
VOTERS, BOOTSTRAP_SERVERS = "controller.quorum.voters", "controller.quorum.bootstrap.servers"
NODE_IDS = (NODE_ID, "broker.id")
LOG_DIRS = (LOG_DIRECTORIES, "log.dir")
"""The names in the order in which they count."""


def node_id(properties: Mapping[str, str]) -> int | None:
    """Return the node's id; None where it is not given, or one is to be made up. Raises ConfigError."""
    text = _first(properties, NODE_IDS)
    number = parse_int(text) if text else -1
    if number is None:
        raise ConfigError(f"{text!r} is not a node id")
    return None if number < 0 else number


def log_directories(properties: Mapping[str, str]) -> tuple[str, ...]:
    """Return the paths of the log directories, as written; none where they are not given."""
    return _words(_first(properties, LOG_DIRS))


def roles(properties: Mapping[str, str]) -> frozenset[str] | None:
    """Return what the node is: `broker`, `controller`; None where that is not given."""
    found = properties.get(ROLES)
    return None if found is None else frozenset(_words(found))


def voters(properties: Mapping[str, str]) -> frozenset[int]:
    """Return the node ids in controller.quorum.voters, as `voters_text` has them."""
    ids = (voter.partition("@")[0].strip() for voter in _words(properties.get(VOTERS, "")))
    return frozenset(int(id_) for id_ in ids if id_.isascii() and id_.isdigit())


def voters_text(voters: Iterable[tuple[int, str, int]]) -> str:
    """Return nodes, given as id, host and port, as controller.quorum.voters has them: 1@host:port,2@host:port."""
    return ",".join(f"{id_}@{address_text(host, port)}" for id_, host, port in voters)


def address_text(host: str, port: int) -> str:
    """Return HOST:PORT, with an IPv6 address in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _first(properties: Mapping[str, str], names: tuple[str, ...]) -> str:
    return next((text for name in names if (text := properties.get(name, "").strip())), "")


def _words(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(",") if word.strip())

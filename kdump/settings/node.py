"""What a server.properties says of the node itself: who it is, where its logs are, whose votes count."""

from __future__ import annotations

from collections.abc import Mapping

from kdump.errors import ConfigError
from kdump.formats.java_text import parse_int

NODE_IDS = ("node.id", "broker.id")
LOG_DIRS = ("log.dirs", "log.dir")
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
    found = properties.get("process.roles")
    return None if found is None else frozenset(_words(found))


def voters(properties: Mapping[str, str]) -> frozenset[int]:
    """Return the node ids in controller.quorum.voters, as `1@host:port,2@host:port`."""
    ids = (voter.partition("@")[0].strip() for voter in _words(properties.get("controller.quorum.voters", "")))
    return frozenset(int(id_) for id_ in ids if id_.isascii() and id_.isdigit())


def _first(properties: Mapping[str, str], names: tuple[str, ...]) -> str:
    return next((text for name in names if (text := properties.get(name, "").strip())), "")


def _words(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(",") if word.strip())

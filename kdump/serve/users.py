"""The file of the users who may connect, as `kdump serve --users` takes it."""

from __future__ import annotations

from kdump.disk.reading import read_small
from kdump.errors import ConfigError


def read_users(path: str) -> dict[str, str]:
    """Return passwords by name: a line NAME:PASSWORD each; empty lines and those that begin with # do not count.

    Raises ConfigError, OSError.
    """
    users: dict[str, str] = {}
    try:
        lines = read_small(path).decode().splitlines()
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: not UTF-8") from None
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.startswith("#"):
            continue
        name, colon, password = line.partition(":")
        if not name or not colon or not password:
            raise ConfigError(f"{path}: line {number}: expected NAME:PASSWORD")
        users[name] = password
    if not users:
        raise ConfigError(f"{path}: there is no user in it")
    return users

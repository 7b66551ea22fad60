"""The file of the users who may connect, as `kdump serve --users` takes it."""

from __future__ import annotations

from kdump.disk.reading import read_small
from kdump.errors import ConfigError


def read_users(path: str) -> dict[str, str]:
    """Return passwords by name: a line NAME:PASSWORD each; empty lines and those that begin with # do not count.

    A name has no white space, so that a log, whose lines have colons too, is not taken for such a file. Raises
    ConfigError, OSError.
    """
    users: dict[str, str] = {}
    try:
        lines = read_small(path).decode().splitlines()
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: not UTF-8") from None
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.startswith("#"):
            continue
        name, _, password = line.partition(":")
        if name.split() != [name] or not password:
            raise ConfigError(f"{path}: line {number}: expected NAME:PASSWORD, the name without spaces")
        users[name] = password
    if not users:
        raise ConfigError(f"{path}: there is no user in it")
    return users

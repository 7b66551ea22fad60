"""Act as another user for a moment: one thread alone, and towards the file system only, as a file server does.

The permissions of a user are the kernel's to check: whatever a name in the directory of that user leads to, root can do
no more there than the user could. Other threads keep the rights that they have (setfsuid(2), setfsgid(2); setgroups is
called past the C library, whose own function would change all threads).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import NamedTuple

from kdump.errors import RefusedError

_SETGROUPS = {"x86_64": 116, "aarch64": 159, "riscv64": 159}
_NOBODYS_GROUP = 65534
_UNCHANGED = 0xFFFFFFFF


class User(NamedTuple):
    """A user of the system: the ids that files are made with, and of the groups whose rights it has; what it is called.

    A user without an account, as that of a container, has no groups.
    """

    uid: int
    gid: int
    groups: tuple[int, ...]
    name: str


@cache
def user_of(uid: int) -> User:
    """Return the user with an id."""
    import pwd

    try:
        account = pwd.getpwuid(uid)
    except KeyError:
        return User(uid, _NOBODYS_GROUP, (), f"user {uid}")
    groups = os.getgrouplist(account.pw_name, account.pw_gid)
    return User(uid, account.pw_gid, tuple(groups), account.pw_name)


def owner_to_act_as(uid: int) -> User | None:
    """Return the user that changes files in a directory of the user `uid`, None: whoever runs this."""
    return user_of(uid) if uid != 0 and os.geteuid() == 0 else None


@contextmanager
def acting_as(user: User | None) -> Iterator[None]:
    """Have this thread's calls of the file system made as a user (None: as they are).

    Raises RefusedError where the system does not let it.
    """
    if user is None:
        yield
        return
    calls = _calls()
    if calls is None:
        raise _cannot_act_as(user)
    own_groups = tuple(os.getgroups())
    own_gid = own_uid = None
    try:
        if calls.set_groups(user.groups):
            own_gid, own_uid = calls.setfsgid(user.gid), calls.setfsuid(user.uid)
        # they fail without a word
        if (calls.setfsgid(_UNCHANGED), calls.setfsuid(_UNCHANGED)) != (user.gid, user.uid):
            raise _cannot_act_as(user)
        yield
    finally:
        if own_uid is not None:
            calls.setfsuid(own_uid)
            calls.setfsgid(own_gid)
            calls.set_groups(own_groups)


def _cannot_act_as(user: User) -> RefusedError:
    return RefusedError(
        f"the directory belongs to {user.name}, and this system does not let root act as another user there: run kdump"
        f" as {user.name}"
    )


class _Calls:
    """The calls of the system that change the rights of one thread."""

    def __init__(self, number: int) -> None:
        """Take the number of setgroups."""
        import ctypes

        libc = ctypes.CDLL(None, use_errno=True)
        libc.setfsuid.argtypes = libc.setfsgid.argtypes = [ctypes.c_uint]
        libc.syscall.argtypes = [ctypes.c_long, ctypes.c_size_t, ctypes.c_void_p]
        self.setfsuid, self.setfsgid, self._syscall = libc.setfsuid, libc.setfsgid, libc.syscall
        self._number = number
        self._array = cache(lambda groups: (ctypes.c_uint * len(groups))(*groups))

    def set_groups(self, groups: tuple[int, ...]) -> bool:
        """Let the thread have the rights of these groups; whether it may."""
        return bool(self._syscall(self._number, len(groups), self._array(groups)) == 0)


@cache
def _calls() -> _Calls | None:
    """Return the calls; None where the system has none for one thread."""
    number = _SETGROUPS.get(os.uname().machine)
    return _Calls(number) if number is not None and sys.platform == "linux" else None

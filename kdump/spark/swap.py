"""Put a finished partition directory in the place of another one, all at once."""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
from contextlib import suppress

from kdump.disk.durable import sync_directory
from kdump.formats import names

_EXCHANGE = 2
_AT_FDCWD = -100


def put_in_place(new: str, final: str, aside: str) -> None:
    """Make the directory `new` the one at `final`; what was there before is at `aside` then. Raises OSError.

    Where the file system can exchange two names there is no moment without the directory; else a very short one.
    """
    if not os.path.isdir(final):
        os.rename(new, final)
    elif exchange(new, final):
        os.rename(new, aside)
    else:
        os.rename(final, aside)
        os.rename(new, final)
    sync_directory(os.path.dirname(final))


def exchange(first: str, second: str) -> bool:
    """Let two paths change places; False where the system cannot do it. Raises OSError."""
    try:
        rename = ctypes.CDLL(None, use_errno=True).renameat2
    except (AttributeError, OSError):
        return False
    if rename(_AT_FDCWD, os.fsencode(first), _AT_FDCWD, os.fsencode(second), _EXCHANGE) == 0:
        return True
    code = ctypes.get_errno()
    if code in (errno.ENOSYS, errno.EINVAL, errno.EPERM, errno.ENOTSUP):
        return False
    raise OSError(code, os.strerror(code), first)


def copy_log(path: str, to: str) -> None:
    """Copy a partition directory so that the copy can be appended to without changing the first. Raises OSError.

    Segments that are not the last one are never written to again, so they share their bytes with the copy.
    """
    os.mkdir(to)
    files = {entry.name: names.parse_file_name(entry.name) for entry in os.scandir(path) if entry.is_file()}
    last = max((base for base, _ in names.live_logs(files)), default=-1)
    for name, parsed in files.items():
        source, target = os.path.join(path, name), os.path.join(to, name)
        if parsed.kind in names.SEGMENT_KINDS and parsed.offset is not None and parsed.offset < last:
            with suppress(OSError):
                os.link(source, target)
                continue
        shutil.copy2(source, target)
    shutil.copystat(path, to)

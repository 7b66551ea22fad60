"""Copy files and directories, so that a copy can be changed while the source stays as it is; or pack them up."""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from typing import TYPE_CHECKING, BinaryIO

from kdump.disk.durable import named, new_file, sync_file
from kdump.disk.entered import reached
from kdump.disk.rights import OWNER_ONLY

if TYPE_CHECKING:
    from tarfile import TarFile

_FICLONE = 0x40049409
_PIECE_BYTES = 1 << 20


def open_source(path: str) -> BinaryIO:
    """Open a file to be copied: of a directory that was entered, no more than its owner may see.

    All that a copy gets is taken from the open file, as the name may lead to another one at any time. Raises OSError,
    RefusedError.
    """
    with reached(path) as at:
        descriptor = os.open(at.name, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=at.folder)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "not a regular file", path)
    return os.fdopen(descriptor, "rb")


def reflink(source: BinaryIO, target: str) -> bool:
    """Make a copy that shares the source's bytes; whether the file system can. Raises OSError."""
    import fcntl

    with new_file(target, rights=OWNER_ONLY) as new:
        try:
            fcntl.ioctl(new.fileno(), _FICLONE, source.fileno())
        except OSError:
            os.remove(target)
            return False
    return True


def copy_file(source: str, target: str) -> None:
    """Make a copy, with what `copy_status` gives it, on the disk; it shares the source's bytes where that is possible.

    Raises OSError, RefusedError.
    """
    with open_source(source) as old:
        if not reflink(old, target):
            import shutil  # which loads all compressors that Python has

            # until it has the mode of the original it is its owner's alone
            with named(target), new_file(target, rights=OWNER_ONLY) as new:
                shutil.copyfileobj(old, new, _PIECE_BYTES)
        copy_status(old.fileno(), target)
    sync_file(target)


def copy_status(source: str | int, target: str) -> None:
    """Give a copy the times, the mode and, where that is allowed, the owner of the original (a path or open file).

    The owner may write to it, whatever the original allowed: it is copied to be changed. Raises OSError.
    """
    import shutil

    info = os.stat(source)
    with suppress(PermissionError):
        os.chown(target, info.st_uid, info.st_gid)
    shutil.copystat(source, target)  # type: ignore[arg-type]
    os.chmod(target, stat.S_IMODE(info.st_mode) | stat.S_IRUSR | stat.S_IWUSR)


def copy_tree(source: str, target: str) -> None:
    """Copy a directory and all that is in it; `target` may be there. Not yet on the disk. Raises OSError."""
    import shutil

    shutil.copytree(source, target, dirs_exist_ok=True)


def new_archive(path: str) -> TarFile:
    """Open a .tar.gz to add files to. Raises OSError."""
    import tarfile

    return tarfile.open(path, "w:gz")

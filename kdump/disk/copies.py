"""Copy files and directories, so that a copy can be changed while the source stays as it is; or pack them up."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from typing import TYPE_CHECKING

from kdump.disk.durable import new_file, sync_file
from kdump.disk.rights import OWNER_ONLY

if TYPE_CHECKING:
    from tarfile import TarFile

_FICLONE = 0x40049409


def reflink(source: str, target: str) -> bool:
    """Make a copy that shares the source's bytes; whether the file system can. Raises OSError."""
    import fcntl

    with open(source, "rb") as old, new_file(target, rights=OWNER_ONLY) as new:
        try:
            fcntl.ioctl(new.fileno(), _FICLONE, old.fileno())
        except OSError:
            os.remove(target)
            return False
    return True


def copy_file(source: str, target: str) -> None:
    """Make a copy, with what `copy_status` gives it, on the disk; it shares the source's bytes where that is possible.

    Raises OSError.
    """
    if not reflink(source, target):
        import shutil  # which loads all compressors that Python has

        new_file(target, rights=OWNER_ONLY).close()  # until it has the mode of the original
        shutil.copyfile(source, target)
    copy_status(source, target)
    sync_file(target)


def copy_status(source: str, target: str) -> None:
    """Give a copy the times, the mode and, where that is allowed, the owner of the original. Raises OSError.

    The owner may write to it, whatever the original allowed: it is copied to be changed.
    """
    import shutil

    info = os.stat(source)
    with suppress(PermissionError):
        os.chown(target, info.st_uid, info.st_gid)
    shutil.copystat(source, target)
    os.chmod(target, stat.S_IMODE(info.st_mode) | stat.S_IRUSR | stat.S_IWUSR)


def copy_tree(source: str, target: str) -> None:
    """Copy a directory and all that is in it; `target` may be there. Not yet on the disk. Raises OSError."""
    import shutil

    shutil.copytree(source, target, dirs_exist_ok=True)


def new_archive(path: str) -> TarFile:
    """Open a .tar.gz to add files to. Raises OSError."""
    import tarfile

    return tarfile.open(path, "w:gz")

"""Files that stay open under their paths: whoever reads such a path gets what was there when it was taken.

A broker beside us renames and deletes files, and swaps others in under the same names. What is held can be read to its
end whatever becomes of the name, and is as long as it was then, however much is appended.
"""

from __future__ import annotations

import os
from typing import Self

SPARE_DESCRIPTORS = 256
"""How many open files are left for everything else."""
MAX_DESCRIPTORS = 1 << 16


class HeldFile:
    """An open file; `size` is how many bytes of it count."""

    __slots__ = ("descriptor", "device", "inode", "modified_ns", "size")

    def __init__(self, descriptor: int) -> None:
        """Take an open file with the size that it has now. Raises OSError."""
        status = os.fstat(descriptor)
        self.descriptor, self.size, self.modified_ns = descriptor, status.st_size, status.st_mtime_ns
        self.inode, self.device = status.st_ino, status.st_dev


_files: dict[str, HeldFile] = {}  # by absolute path, as are the listings
_listings: dict[str, tuple[list[str], list[str]]] = {}


def held_file(path: str) -> HeldFile | None:
    """Return the file that is held under a path, if one is."""
    return _files.get(os.path.abspath(path)) if _files else None


def held_listing(path: str) -> tuple[list[str], list[str]] | None:
    """Return the names of directories and files in a held directory, as they were; None where it is not held."""
    return _listings.get(os.path.abspath(path)) if _listings else None


def is_held(path: str) -> bool:
    """Return whether a directory is held."""
    return os.path.abspath(path) in _listings


class Hold:
    """What is held of one directory; nothing is seen of it by others before `publish`."""

    def __init__(self, path: str) -> None:
        self.path = os.path.abspath(path)
        self.files: dict[str, HeldFile] = {}
        self._is_published = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.release()

    def take(self, name: str, descriptor: int) -> None:
        """Hold an open file under a name, with the size that it has now. Raises OSError."""
        self.files[name] = HeldFile(descriptor)

    def limit(self, name: str, size: int) -> None:
        """Let only the first `size` bytes of a file count."""
        self.files[name].size = size

    def is_still_there(self, name: str) -> bool:
        """Return whether the name leads to the file that is held, or to none at all."""
        file = self.files[name]
        try:
            status = os.stat(os.path.join(self.path, name))
        except FileNotFoundError:
            return True
        return (status.st_ino, status.st_dev) == (file.inode, file.device)

    def publish(self, directories: list[str], files: list[str]) -> None:
        """Give readers, from now on, what is held, and this list of names."""
        self._is_published = True
        _files.update({os.path.join(self.path, name): file for name, file in self.files.items()})
        _listings[self.path] = directories, files

    def release(self) -> None:
        """Close everything."""
        if self._is_published:
            del _listings[self.path]
        for name, file in self.files.items():
            if self._is_published:
                del _files[os.path.join(self.path, name)]
            os.close(file.descriptor)
        self.files.clear()
        self._is_published = False


def room_for_files() -> int:
    """Return how many more files may be open at a time; the process's own limit is raised as far as it may be."""
    try:
        import resource
    except ImportError:
        return SPARE_DESCRIPTORS
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MAX_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, MAX_DESCRIPTORS)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        soft = wanted
    most = MAX_DESCRIPTORS if soft == resource.RLIM_INFINITY else soft
    return max(0, most - SPARE_DESCRIPTORS - len(_files))

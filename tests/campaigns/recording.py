"""What a change asks of the file system, in order: every write, cut, time, name and fsync below one directory."""

from __future__ import annotations

import builtins
import io
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock


@dataclass(frozen=True, slots=True)
class Write:
    """Bytes that were put into a file, which has this modification time (ns) from then on."""

    inode: int
    position: int
    data: bytes
    modified: int


@dataclass(frozen=True, slots=True)
class Resize:
    """A file was cut, or made longer by a hole."""

    inode: int
    size: int
    modified: int


@dataclass(frozen=True, slots=True)
class Touch:
    """A file was given a modification time (ns)."""

    inode: int
    modified: int


@dataclass(frozen=True, slots=True)
class Names:
    """Entries of directories that change together: (directory, name, the inode that it leads to or None)."""

    entries: tuple[tuple[int, str, int | None], ...]
    is_directory: bool = False


@dataclass(frozen=True, slots=True)
class Sync:
    """A file's content, or a directory's entries, are on the disk."""

    inode: int


UNNAMING = ("replace", "rename", "remove", "unlink")
"""Calls after which the file that their last argument named may have no name."""

Event = Write | Resize | Touch | Names | Sync


WRITTEN = 1_795_000_000_000_000_000
"""The modification time (ns) of every file that is written while it is recorded: runs that do the same are the same."""


class _Written(io.FileIO):
    """A file opened for writing by `open`."""

    recorder: Recorder

    def write(self, data: Any) -> int:
        position = self.tell()
        done = super().write(data)
        self.recorder.wrote(self.fileno(), position, bytes(data[:done]))
        return done

    def truncate(self, size: int | None = None) -> int:
        size = super().truncate(size)
        self.recorder.resized(self.fileno())
        return size


class Recorder:
    """The events below `root`."""

    def __init__(self, root: Path) -> None:
        self.root = os.path.realpath(root)
        self.events: list[Event] = []
        self._utime = os.utime
        self._open = os.open
        self._held: list[int] = []

    def hold(self, path: Any) -> None:
        """Keep a file that loses its name, so that no new one gets its inode."""
        if os.path.lexists(path):
            self._held.append(self._open(path, os.O_PATH | os.O_NOFOLLOW))

    def close(self) -> None:
        """Let go of files that have no name any more."""
        for descriptor in self._held:
            os.close(descriptor)

    def is_below(self, path: object) -> bool:
        """Whether a path is one that is recorded."""
        return isinstance(path, (str, os.PathLike)) and os.path.realpath(
            os.path.dirname(os.path.abspath(path)) or "."
        ).startswith(self.root)

    def has(self, descriptor: int) -> bool:
        """Whether an open file or directory is one that is recorded."""
        return os.readlink(f"/proc/self/fd/{descriptor}").startswith(self.root)

    def wrote(self, descriptor: int, position: int, data: bytes) -> None:
        """Some bytes were written."""
        if self.has(descriptor):
            self.events.append(Write(self._at_the_time(descriptor).st_ino, position, data, WRITTEN))

    def resized(self, descriptor: int) -> None:
        """A file has another size now."""
        if self.has(descriptor):
            info = self._at_the_time(descriptor)
            self.events.append(Resize(info.st_ino, info.st_size, WRITTEN))

    def _at_the_time(self, descriptor: int) -> os.stat_result:
        """Give a file that was written the time at which all are; its status."""
        self._utime(descriptor, ns=(WRITTEN, WRITTEN))
        return os.fstat(descriptor)

    def synced(self, descriptor: int) -> None:
        """A file or directory was put on the disk."""
        if self.has(descriptor):
            self.events.append(Sync(os.fstat(descriptor).st_ino))

    def entry(self, path: str | os.PathLike[str]) -> tuple[int, str, int | None]:
        """What a name leads to now."""
        folder, name = os.path.split(os.path.abspath(os.fspath(path)))
        found = os.stat(path, follow_symlinks=False).st_ino if os.path.lexists(path) else None
        return os.stat(folder).st_ino, name, found

    def named(self, *paths: Any) -> None:
        """These names lead elsewhere now."""
        is_directory = any(map(os.path.isdir, paths))
        self.events.append(Names(tuple(self.entry(path) for path in paths), is_directory))

    def renamed(self, source: Any, target: Any, **_: Any) -> None:
        """A name leads to what another one led to."""
        if self.is_below(target):
            self.named(source, target)

    def changed(self, path: Any, *_: Any, **__: Any) -> None:
        """A name leads to something else now, or nowhere."""
        if self.is_below(path):
            self.named(path)


def full_paths(arguments: tuple[Any, ...], named: dict[str, Any]) -> tuple[Any, ...]:
    """The paths of a call that names files in directories which are open."""
    folders = [named.get(key) for key in ("dir_fd", "src_dir_fd", "dst_dir_fd") if key in named]
    found = [
        path if folder is None else os.path.join(os.readlink(f"/proc/self/fd/{folder}"), path)
        for path, folder in zip(arguments, folders, strict=False)
    ]
    return (*found, *arguments[len(found) :])


def _opened(recorder: Recorder, real: Callable[..., Any]) -> Callable[..., Any]:
    def opened(file: Any, mode: str = "r", *arguments: Any, **named: Any) -> Any:
        if not recorder.is_below(file) or not set(mode) & set("wax+"):
            return real(file, mode, *arguments, **named)
        was = os.path.exists(file)
        raw = _Written(file, mode.replace("b", "").replace("t", ""))
        raw.recorder = recorder
        if not was:
            recorder.named(file)
        elif "w" in mode:
            recorder.resized(raw.fileno())
        buffered = io.BufferedRandom(raw) if "+" in mode else io.BufferedWriter(raw)
        return buffered if "b" in mode else io.TextIOWrapper(buffered, *arguments[1:], **named)

    return opened


def _descriptor_opened(recorder: Recorder, real: Callable[..., int]) -> Callable[..., int]:
    def opened(path: Any, flags: int, *arguments: Any, **named: Any) -> int:
        (at,) = full_paths((path,), named)
        if not recorder.is_below(at) or not flags & (os.O_CREAT | os.O_TRUNC):
            return real(path, flags, *arguments, **named)
        was = os.path.lexists(at)
        descriptor = real(path, flags, *arguments, **named)
        if not was:
            recorder.named(at)
        elif flags & os.O_TRUNC:
            recorder.resized(descriptor)
        return descriptor

    return opened


@contextmanager
def recording(root: Path) -> Iterator[list[Event]]:
    """The events below `root` while this is open, as they come. Not for several threads that write."""
    recorder = Recorder(root)
    real = {name: getattr(os, name) for name in dir(os) if callable(getattr(os, name))}

    def after(name: str, tell: Callable[..., None]) -> Callable[..., Any]:
        def called(*arguments: Any, **named: Any) -> Any:
            paths = full_paths(arguments, named)
            if name in UNNAMING and recorder.is_below(paths[-1]):
                recorder.hold(paths[-1])
            result = real[name](*arguments, **named)
            tell(*paths, **named)
            return result

        return called

    def written(descriptor: int, data: Any) -> int:
        position = os.lseek(descriptor, 0, os.SEEK_CUR) if recorder.has(descriptor) else 0
        done: int = real["write"](descriptor, data)
        recorder.wrote(descriptor, position, bytes(data[:done]))
        return done

    def written_at(descriptor: int, data: Any, position: int) -> int:
        done: int = real["pwrite"](descriptor, data, position)
        recorder.wrote(descriptor, position, bytes(data[:done]))
        return done

    def touched(path: Any, *_: Any, **__: Any) -> None:
        if isinstance(path, int) or (recorder.is_below(path) and not os.path.isdir(path)):
            info = os.stat(path)
            recorder.events.append(Touch(info.st_ino, info.st_mtime_ns))

    def truncated(path: Any, _: int) -> None:
        descriptor = path if isinstance(path, int) else real["open"](path, os.O_RDONLY)
        recorder.resized(descriptor)
        if descriptor is not path:
            os.close(descriptor)

    replaced: dict[str, Any] = {
        "open": _descriptor_opened(recorder, real["open"]),
        "pwrite": written_at,
        "write": written,
        "ftruncate": after("ftruncate", lambda descriptor, _: recorder.resized(descriptor)),
        "truncate": after("truncate", truncated),
        "fsync": after("fsync", recorder.synced),
        "replace": after("replace", recorder.renamed),
        "rename": after("rename", recorder.renamed),
        "remove": after("remove", recorder.changed),
        "unlink": after("unlink", recorder.changed),
        "rmdir": after("rmdir", recorder.changed),
        "link": after("link", lambda source, target, **_: recorder.named(target)),
        "mkdir": after("mkdir", recorder.changed),
        "utime": after("utime", touched),
    }
    with (
        mock.patch.multiple(os, **replaced),
        mock.patch.object(builtins, "open", _opened(recorder, builtins.open)),
        mock.patch.object(shutil, "_USE_CP_SENDFILE", False),
    ):
        try:
            yield recorder.events
        finally:
            recorder.close()

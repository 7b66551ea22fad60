"""A planned partition directory: files can be renamed, cut, written and deleted without touching the real ones."""

from __future__ import annotations

import os
from collections.abc import Iterator
from copy import copy

from kdump.disk.reading import ReadOnlyFile, status_of
from kdump.errors import FILE_NOT_FOUND, KdumpError, LoadError
from kdump.storage.log_reader import BUFFER_SIZE
from kdump.storage.partition import PartitionLog
from kdump.storage.recipe import Joined, NewContent, Recipe, SourceBytes, piece_of
from kdump.storage.walked import WalkedLogs

MAX_AT_ONCE = 1 << 28
"""Bytes of the largest file that is read into memory: checkpoints and snapshots have far less."""


class PlannedFiles:
    """Files of the directory `path`, each as the recipe by which it could be made.

    `walked` is what is known of the real .log files, None if nothing is.
    """

    def __init__(self, path: str, files: dict[str, Recipe], walked: WalkedLogs | None = None) -> None:
        """Begin with these files, by name."""
        self.path = path
        self.files = files
        self.walked = walked
        self._prefix = os.path.join(path, "")

    def full(self, name: str) -> str:
        """Return the path of a file; the name of one that is in another directory is its path."""
        return name if os.path.isabs(name) else self._prefix + name


class PlannedPartition(PlannedFiles):
    """The files of a partition directory, each as the recipe by which it could be made.

    `present` is what the system says of the real files, `source` their sizes; `reasons` why a file was deleted last.
    `walked` is what is known of the real .log files, `contents` that of small files which were read before.
    """

    def __init__(self, log: PartitionLog) -> None:
        """Start with the files as they are. Raises OSError."""
        super().__init__(log.path, {}, log.walked)
        self.directories = log.directories
        self.contents = log.contents
        self.present = {name: status_of(self._prefix + name) for name in log.files}
        self.source = {name: status.size for name, status in self.present.items()}
        self.files = {name: SourceBytes(name, 0, size) for name, size in self.source.items()}
        self.reasons: dict[str, str] = {}

    def copy(self) -> PlannedPartition:
        """Return the same files, to be changed apart from these."""
        other = copy(self)
        other.files, other.reasons = dict(self.files), dict(self.reasons)
        return other

    def names(self) -> list[str]:
        """Return the names of the files, sorted."""
        return sorted(self.files)

    def exists(self, name: str) -> bool:
        """Return whether something has this name: a file, or a directory that nobody can open as one."""
        return name in self.files or name in self.directories

    def _check_is_file(self, name: str) -> None:
        if name in self.directories:
            raise LoadError(FILE_NOT_FOUND, f"{self.full(name)} (Is a directory)", name)

    def size(self, name: str) -> int:
        """Return the size of a file in bytes; 0 where there is none. Raises LoadError for a directory."""
        self._check_is_file(name)
        recipe = self.files.get(name)
        return recipe.size if recipe else 0

    def delete(self, name: str, why: str) -> None:
        """Remove a file if it is there."""
        if self.files.pop(name, None):
            self.reasons[name] = why

    def rename(self, name: str, new_name: str) -> None:
        """Give a file another name; a file of that name goes."""
        self.files[new_name] = self.files.pop(name)

    def write(self, name: str, data: bytes, size: int | None = None) -> None:
        """Make a file of this content, filled up with zeros to `size` bytes. Raises LoadError for a directory."""
        self._check_is_file(name)
        self.files[name] = NewContent(data, len(data) if size is None else size)

    def put(self, name: str, recipe: Recipe) -> None:
        """Make a file by a recipe."""
        self.files[name] = recipe

    def cut(self, name: str, size: int) -> None:
        """Shorten a file to `size` bytes."""
        recipe = self.files[name]
        if size >= recipe.size:
            return
        self.files[name] = piece_of(recipe, 0, size)

    def read(self, name: str, position: int = 0, size: int | None = None) -> bytes:
        """Return bytes of a file: from `position` on, all of them unless `size` is given.

        Raises OSError, LoadError for a directory, and KdumpError where all of them are more than any file that is read
        at once has.
        """
        self._check_is_file(name)
        recipe = self.files[name]
        left = max(0, recipe.size - position)
        if size is None and left > MAX_AT_ONCE:
            raise KdumpError(f"{self.full(name)}: {left} bytes are too many for a file of this kind")
        wanted = left if size is None else min(size, left)
        return b"".join(content_of(self.path, piece_of(recipe, min(position, recipe.size), wanted)))

    def settle(self) -> None:
        """Let the recipe say so where new content is what the real file of that name holds already. Raises OSError."""
        for name, recipe in self.files.items():
            if isinstance(recipe, NewContent) and self.source.get(name) == recipe.size and self._is_same(name, recipe):
                self.files[name] = SourceBytes(name, 0, recipe.size)

    def is_changed(self, name: str) -> bool:
        """Return whether a file is not the real one of that name; `settle` must have been called."""
        recipe = self.files[name]
        return recipe[:2] != (name, 0) or recipe.size != self.source.get(name, -1)

    def _is_same(self, name: str, recipe: NewContent) -> bool:
        known = self.contents.get(name) if recipe.size else b""
        if known is not None and len(known) == len(recipe.data) == recipe.size:
            return known == recipe.data
        with ReadOnlyFile(self.full(name)) as file:
            position = 0
            for piece in content_of(self.path, recipe):
                if file.read(position, len(piece)) != piece:
                    return False
                position += len(piece)
        return True


def content_of(path: str, recipe: Recipe, opened: type[ReadOnlyFile] = ReadOnlyFile) -> Iterator[bytes]:
    """Yield the bytes of a file to be made in the partition directory `path`, in pieces. Raises OSError.

    `opened` is what its sources are read by.
    """
    if isinstance(recipe, NewContent):
        yield recipe.data
        for position in range(len(recipe.data), recipe.size, BUFFER_SIZE):
            yield bytes(min(BUFFER_SIZE, recipe.size - position))
        return
    if isinstance(recipe, Joined):
        for part in recipe.parts:
            yield from content_of(path, part, opened)
        return
    with opened(os.path.join(path, recipe.name)) as file:
        yield from file.pieces(recipe.start, recipe.start + recipe.size)

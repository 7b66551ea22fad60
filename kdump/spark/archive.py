"""Pack kdump with its compiled kernel and what it decodes with for a cluster: `python -m kdump.spark.archive FILE`.

The archive is for spark.archives, unpacked on every executor; these need the same Python and platform as this one, and
pyarrow. An environment packed as a whole (with venv-pack or conda-pack) holds all of it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from importlib import metadata
from importlib.util import find_spec
from tarfile import TarFile, TarInfo

import kdump
from kdump.disk.copies import new_archive

CODECS = ("fastcrc", "crcmod", "lz4", "python-snappy", "cramjam", "zstandard", "isal")
SCHEMAS = ("fastavro", "protobuf")
MODULES = (*CODECS, *SCHEMAS)
"""The distributions that tasks use; one that is not installed is left out, as kdump does without it."""


def make_archive(path: str) -> None:
    """Write the archive, a .tar.gz, of what is installed here. Raises OSError."""
    with new_archive(path) as archive:
        _add_tree(archive, os.path.dirname(os.path.abspath(kdump.__file__)), "kdump")
        _add_source(archive)
        for name in MODULES:
            try:
                files = metadata.files(name) or []
            except metadata.PackageNotFoundError:
                continue
            _add_files(archive, files)


def _add_tree(archive: TarFile, folder: str, name: str) -> None:
    def kept(member: TarInfo) -> TarInfo | None:
        return None if "__pycache__" in member.name or member.name.endswith((".c", ".pyc")) else member

    archive.add(folder, name, filter=kept)


def _add_source(archive: TarFile) -> None:
    """Tell Spark where it finds the data source, for a driver that runs from the archive."""
    found = find_spec("pyspark_kdump")
    if found is not None and found.origin is not None:
        archive.add(found.origin, "pyspark_kdump.py")


def _add_files(archive: TarFile, files: Iterable[metadata.PackagePath]) -> None:
    for file in files:
        located = str(file.locate())
        if ".." not in file.parts and file.suffix != ".pyc" and os.path.isfile(located):
            archive.add(located, str(file))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m kdump.spark.archive FILE.tar.gz")
    try:
        make_archive(sys.argv[1])
    except OSError as error:
        sys.exit(f"{error.filename or sys.argv[1]}: {error.strerror}")

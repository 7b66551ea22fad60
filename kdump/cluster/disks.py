"""The log directories that a cluster is made from: whose they are, and what their checkpoint files say."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from kdump.disk.reading import is_directory
from kdump.errors import CheckpointError, KdumpError, Problem, Report
from kdump.formats import names
from kdump.storage.checkpoints import Checkpoints, Offsets
from kdump.storage.directory import LogDirectory
from kdump.storage.open import check_file, check_is_not_around


@dataclass(frozen=True, slots=True)
class Disk:
    """One log directory. None where its meta.properties does not say; `lines` are those of each checkpoint file.

    Disks are equal where they are the same directory.
    """

    path: str
    directory: LogDirectory = field(compare=False)
    cluster_id: str | None = field(default=None, compare=False)
    node_id: int | None = field(default=None, compare=False)
    directory_id: bytes | None = field(default=None, compare=False)
    lines: Mapping[str, Offsets] = field(default_factory=dict, compare=False)

    @property
    def metadata_path(self) -> str | None:
        """The directory of the metadata log in it; None without one."""
        if names.CLUSTER_METADATA_DIR not in self.directory.directories:
            return None
        return os.path.join(self.path, names.CLUSTER_METADATA_DIR)


def read_disks(paths: Iterable[str], report: Report) -> list[Disk]:
    """Read the log directories at these paths, each once. Raises OSError, KdumpError for what is none.

    What cannot be parsed is reported.
    """
    found: dict[str, Disk] = {}
    for path in paths:
        real = os.path.realpath(path)
        if real not in found:
            found[real] = _disk(path, report)
    return list(found.values())


def _disk(path: str, report: Report) -> Disk:
    if not is_directory(path):
        check_file(path)
        raise KdumpError(f"{path} is a file: give the log directory that it is in")
    directory = LogDirectory(path)
    check_is_not_around(directory)
    if not directory.partition_names and names.META_PROPERTIES not in directory.files:
        raise KdumpError(f"{path}: not a log directory: neither {names.META_PROPERTIES} nor a partition is in it")
    cluster_id = node_id = directory_id = None
    try:
        meta = directory.meta_properties()
        if meta is not None:
            cluster_id, node_id, directory_id = meta.cluster_id, meta.node_id, meta.directory_id
    except CheckpointError as error:
        report(Problem(os.path.join(path, names.META_PROPERTIES), None, str(error)))
    checkpoints = Checkpoints.read(path).readable()
    for problem in checkpoints.problems:
        report(problem)
    return Disk(path, directory, cluster_id, node_id, directory_id, checkpoints.lines)

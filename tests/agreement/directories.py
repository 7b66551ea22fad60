"""The directories that all commands are asked about: sound ones, each named fault in two states, and Kafka's own.

A directory with a fault keeps the partitions that the fault changed, at least one, and the cluster's metadata: the rest
is in the sound directory.
"""

from __future__ import annotations

import filecmp
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.agreement.running import kdump

FIXTURES = Path(__file__).resolve().parent.parent.parent / "fixtures"
EVERYTHING = FIXTURES / "specs" / "everything.yaml"
SOUND, KILLED = "sound", ", killed"
NOW = 1_700_086_400_000
"""The clock of all commands: a day after the logs were written."""
SEVERAL = {"replicas"}
"""Specifications of several log directories."""
OTHER_BROKERS = {"follower", "behind", "leader"}
"""Log directories that belong to a broker of their own; all others of a directory belong to one together."""
METADATA = "__cluster_metadata-0"
ONE = Path("disk-1", "orders-0")
FOLLOWER = "follower"
SMALL_METADATA = "metadata-times-lost"
"""The metadata log has batches, too few for an entry of the .index, and its .timeindex is empty."""
NOT_HERE = {"log-too-large"}
"""Reading 2 GiB takes long; tests/fixture/test_faults.py verifies a smaller one."""
MANY = {"many"}
"""A hundred partitions of one kind: nothing that the other specifications do not have."""


@dataclass(frozen=True)
class Directory:
    """Log directories of one broker: names of folders in `root`."""

    name: str
    root: Path
    log_dirs: tuple[str, ...]

    @property
    def was_closed(self) -> bool:
        """Whether this is not the state in which a killed broker leaves it."""
        return not self.name.endswith(KILLED)


def fault_names() -> list[str]:
    """The faults that `kdump fixture faults` lists."""
    lines = kdump(Path.cwd(), "fixture", "faults").out.splitlines()
    return [line.split()[0] for line in lines if line and not line.startswith(" ")]


def names() -> list[str]:
    """The names of all directories, without making them."""
    faults = [fault for fault in fault_names() if fault not in NOT_HERE]
    specs = sorted(path.stem for path in (FIXTURES / "specs").glob("*.yaml") if path.stem not in MANY)
    corpus = sorted(path.name for path in (FIXTURES / "corpus").iterdir())
    return [
        SOUND,
        SOUND + KILLED,
        SMALL_METADATA,
        SMALL_METADATA + KILLED,
        *(fault + state for fault in faults for state in ("", KILLED)),
        *(f"specs/{spec}" for spec in specs if spec != EVERYTHING.stem),
        *(f"corpus/{case}" for case in corpus),
    ]


class Maker:
    """Makes directories by their names, each in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "made"
        self._sound = folder / SOUND
        self._last = ""
        build(EVERYTHING, self._sound)

    def make(self, name: str) -> list[Directory]:
        """Make the directories of this name, one for each broker that it concerns; those made before are gone."""
        root = self.root
        fault = name.removesuffix(KILLED)
        if fault != self._last:
            shutil.rmtree(root, ignore_errors=True)
            self._build(fault, root)
        self._last = name  # killed, it cannot become again what it was
        if name.endswith(KILLED):
            kill(root)
        log_dirs = sorted(each.name for each in root.iterdir())
        disks = tuple(each for each in log_dirs if each not in OTHER_BROKERS)
        others = [(each,) for each in log_dirs if each in OTHER_BROKERS]
        return [Directory(name, root, each) for each in (disks, *others) if each]

    def _build(self, name: str, root: Path) -> None:
        kind, _, rest = name.partition("/")
        if kind == "corpus":
            shutil.copytree(FIXTURES / "corpus" / rest, root / "data", symlinks=True)
        elif kind == "specs":
            build(FIXTURES / "specs" / f"{rest}.yaml", root if rest in SEVERAL else root / "data")
        elif name == SOUND:
            shutil.copytree(self._sound, root)
        elif name == SMALL_METADATA:
            shutil.copytree(self._sound, root)
            (metadata,) = root.glob(f"*/{METADATA}/*.log")
            shutil.copy(next(root.glob("disk-1/payments-0/*.log")), metadata)
        else:
            build(EVERYTHING, root, name)
            self._narrow(root)

    def _narrow(self, root: Path) -> None:
        """Leave the partitions that a fault changed, or else one, and the cluster's metadata."""
        changed = set(_changed(self._sound, root))
        if any(METADATA in path.parts for path in changed):
            return  # they are about all partitions
        partitions = {path.relative_to(root) for path in root.glob("*/*/")}
        kept = {path for path in partitions if any(is_at(each, path) for each in changed)}
        if not any(is_at(path, ONE.parent) and path.name[-1].isdigit() for path in kept):
            kept.add(ONE)
        if any(path.name == "partition.metadata" for path in changed):
            kept |= {path for path in partitions if path.name.startswith("orders-")}  # the ids of a topic are compared
        for path in partitions - kept:
            if path.name != METADATA:
                shutil.rmtree(root / path)
        if not any(path.parts[0] == FOLLOWER for path in changed):
            shutil.rmtree(root / FOLLOWER)


def build(spec: Path, folder: Path, *faults: str) -> None:
    """Build a specification, with faults."""
    folder.parent.mkdir(exist_ok=True)
    options = [word for fault in faults for word in ("--fault", fault)]
    said = kdump(folder.parent, "fixture", "build", spec, folder, *options)
    assert said.code == 0, said.err


def kill(root: Path) -> None:
    """Leave log directories as a broker that was killed before anything was flushed."""
    for name in (".kafka_cleanshutdown", "recovery-point-offset-checkpoint"):
        for file in root.glob(f"*/{name}"):
            file.unlink()


def is_at(path: Path, folder: Path) -> bool:
    """Whether a path is a folder or below it."""
    return path == folder or folder in path.parents


def _changed(sound: Path, root: Path) -> Iterator[Path]:
    """What one of two trees has and the other has not, or not so; paths below the roots."""
    paths = {path.relative_to(tree) for tree in (sound, root) for path in tree.rglob("*")}
    for path in paths:
        one, other = sound / path, root / path
        is_like = one.is_dir() and other.is_dir()
        if one.is_file() and other.is_file():
            is_like = filecmp.cmp(one, other, shallow=False)
        if not is_like:
            yield path

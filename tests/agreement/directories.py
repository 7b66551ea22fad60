"""The directories that all commands are asked about: sound ones, each named fault in two states, and Kafka's own.

A directory with a fault keeps what the fault changed, one topic and the cluster's metadata: the rest is in the sound directory.
"""

from __future__ import annotations

import filecmp
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from .running import kdump

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
KEPT = {"orders-0", "orders-1", METADATA}
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
        *(fault + state for fault in faults for state in ("", KILLED)),
        *(f"specs/{spec}" for spec in specs if spec != EVERYTHING.stem),
        *(f"corpus/{case}" for case in corpus),
    ]


class Maker:
    """Makes directories by their names, each in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._sound = folder / SOUND
        self._last = ""
        build(EVERYTHING, self._sound)

    def make(self, name: str) -> list[Directory]:
        """Make the directories of this name, one for each broker that it concerns, in the place of those made before."""
        root = self._folder / "made"
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
        else:
            build(EVERYTHING, root, name)
            self._narrow(root)

    def _narrow(self, root: Path) -> None:
        """Remove what is as in the sound directory, unless the cluster's metadata are about it."""
        changed = set(_changed(self._sound, root))
        if any(METADATA in path.parts for path in changed):
            return
        for log_dir in list(root.iterdir()):
            for partition in [each for each in log_dir.iterdir() if each.is_dir() and each.name not in KEPT]:
                place = partition.relative_to(root)
                if not any(place == path or place in path.parents for path in changed):
                    shutil.rmtree(partition)
        follower = root / "follower"
        if follower.is_dir() and not any(path.parts[0] == "follower" for path in changed):
            shutil.rmtree(follower)


def build(spec: Path, folder: Path, *faults: str) -> None:
    """Build a specification, with faults."""
    folder.parent.mkdir(exist_ok=True)
    said = kdump(folder.parent, "fixture", "build", spec, folder, *(word for each in faults for word in ("--fault", each)))
    assert said.code == 0, said.err


def kill(root: Path) -> None:
    """Leave log directories as a broker that was killed before anything was flushed."""
    for name in (".kafka_cleanshutdown", "recovery-point-offset-checkpoint"):
        for file in root.glob(f"*/{name}"):
            file.unlink()


def _changed(sound: Path, root: Path) -> Iterator[Path]:
    """What one of two trees has and the other has not, or not so; paths below the roots."""
    paths = {path.relative_to(tree) for tree in (sound, root) for path in tree.rglob("*")}
    for path in paths:
        one, other = sound / path, root / path
        if one.is_symlink() or other.is_symlink() or one.is_dir() != other.is_dir() or not (one.exists() and other.exists()):
            yield path
        elif one.is_file() and not filecmp.cmp(one, other, shallow=False):
            yield path

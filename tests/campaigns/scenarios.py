"""The changing commands, each with what it is run on, for the campaigns that cut the power or let calls fail."""

from __future__ import annotations

import os
import random
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path
from unittest import mock

from click.testing import CliRunner

from kdump.change import place
from kdump.change.copy_out import PART_SUFFIX
from kdump.change.undo import Verdict
from kdump.commands.cli import cli
from kdump.formats import names
from kdump.operations.undo import list_changes
from kdump.storage.partition import PartitionLog
from kdump.storage.records import Record
from tests.cluster.building import NOW, Disk, directory_id, image_of, three_brokers
from tests.cluster.test_quorum import VOTERS
from tests.repair.damaged import DAMAGES, build
from tests.replicas.building import OnDisk, chain, flip, write_copy

PARTITION = "orders-0"
MEMORY = "/dev/shm"
ASIDE = (f"-{names.STRAY}", PART_SUFFIX)
"""How the names of directories end that nobody uses: those that were set aside, and copies that are begun."""
APPENDED = 12
"""How many records `append` is given."""


class End(Enum):
    """How a command has to end that runs again after it was interrupted."""

    DONE = auto()
    """As the undisturbed run; undo then brings back what was there."""
    DONE_OR_UNDONE = auto()
    """Or it does the same again, or refuses; undo then brings back what was there."""
    UNDONE = auto()
    """With what was there before the change that it takes back."""
    APPENDED = auto()
    """With all old records, then some of the new ones, then all of them."""
    COPIED = auto()
    """With the copy that the undisturbed run makes; the sources are as they were."""


@dataclass(frozen=True, slots=True)
class Command:
    """The arguments of a command, in which `{root}` is the directory that is recorded; and how it ends."""

    arguments: tuple[str, ...]
    end: End = End.DONE


HERE = "{root}/" + PARTITION
BROKERS = ("{root}/b1", "{root}/b2", "{root}/b3")
APPEND = ("append", HERE, "--input", "{root}.lines", "--format", "lines", "--batch-records", "2", "--now", "1900000")
COMMANDS: dict[str, Command] = {
    "salvage": Command(("repair", HERE, "--strategy", "salvage", "--only-copy", "--apply")),
    "repair": Command(("repair", HERE, "--apply")),
    "heal": Command(("repair", "{root}/b1/" + PARTITION, "--from", "{root}/b2", "--apply")),
    "trim": Command(("trim", HERE, "--apply")),
    "rebuild-index": Command(("rebuild-index", HERE, "--apply")),
    "retain": Command(("retain", HERE, "--apply", "--retention-bytes", "0", "--cleanup-policy", "delete")),
    "compact": Command(("compact", HERE, "--apply", "--min-cleanable-ratio", "0")),
    "undo": Command(("undo", HERE, "--apply"), End.UNDONE),
    "append": Command(APPEND, End.APPENDED),
    "append and roll": Command((*APPEND, "--topic-config", "segment.bytes=500"), End.APPENDED),
    "roll": Command(("roll", HERE, "--now", "1900000"), End.APPENDED),
    "resurrect": Command(("resurrect", *BROKERS, "--into", "{root}/new", "--apply"), End.COPIED),
    "resurrect in place": Command(("resurrect", *BROKERS, "--in-place", "--apply"), End.DONE_OR_UNDONE),
    "set-voters": Command(
        ("quorum", "set-voters", *BROKERS[:2], "--voters", "1@new1:9093", "--others-are-gone", "--apply"),
        End.DONE_OR_UNDONE,
    ),
}


@dataclass(frozen=True, slots=True)
class Scenario:
    """A command, and the damage to what it is run on."""

    command: str
    damage: str

    @property
    def name(self) -> str:
        return f"{self.command}: {self.damage}"

    @property
    def end(self) -> End:
        return COMMANDS[self.command].end

    def partition(self, root: Path) -> Path:
        """The partition that a command changes which names one."""
        return Path(COMMANDS[self.command].arguments[1].format(root=root))

    def arguments(self, root: Path, change: str = "") -> list[str]:
        """The command line, for the change with this id."""
        return [each.format(root=root) for each in COMMANDS[self.command].arguments] + (
            ["--change", change] if change else []
        )


SCENARIOS = [
    *(Scenario("salvage", damage) for damage in DAMAGES),
    *(Scenario("repair", damage) for damage in DAMAGES),
    *(Scenario("heal", damage) for damage in ("one bit", "segment missing", "end missing")),
    Scenario("trim", "last segment, zero tail"),
    Scenario("trim", "index with a zero tail"),
    Scenario("trim", "time index with a zero tail"),
    Scenario("rebuild-index", "index missing"),
    Scenario("rebuild-index", "all indexes missing"),
    Scenario("rebuild-index", "time index damaged"),
    Scenario("retain", "none"),
    Scenario("compact", "none"),
    Scenario("undo", "damage in all segments"),
    Scenario("undo", "middle segment, payload"),
    Scenario("undo", "damage and leftovers"),
    Scenario("append", "none"),
    Scenario("append", "index missing"),
    Scenario("append", "time index with a zero tail"),
    Scenario("append and roll", "none"),
    Scenario("roll", "none"),
    Scenario("resurrect", "none"),
    Scenario("resurrect in place", "none"),
    Scenario("set-voters", "none"),
]


def prepare(scenario: Scenario, root: Path) -> None:
    """The directory before the command runs."""
    if scenario.command == "heal":
        _copies(scenario.damage, root)
    elif scenario.command.startswith("resurrect"):
        three_brokers(root, ends=(30, 26, 30))
    elif scenario.command == "set-voters":
        _quorum(root)
    else:
        _partition(scenario, root)


def _partition(scenario: Scenario, root: Path) -> None:
    build(root)
    if scenario.damage != "none":
        DAMAGES[scenario.damage](root / PARTITION)
    for checkpoint in (names.RECOVERY_POINT_CHECKPOINT, names.REPLICATION_CHECKPOINT):
        (root / checkpoint).write_text("0\n1\norders 0 59\n")
    (root / names.CLEANER_CHECKPOINT).write_text("0\n0\n")
    (root / names.LOCK).touch()
    if scenario.end == End.APPENDED and scenario.damage == "none":
        (root / names.CLEAN_SHUTDOWN).write_text('{"version":0,"brokerEpoch":-1}')
    if scenario.end == End.APPENDED:
        root.with_name(f"{root.name}.lines").write_text("".join(f"new {n}\n" for n in range(APPENDED)))


def _copies(damage: str, root: Path) -> None:
    batches = chain(0, (0, 10), (2, 10))
    folder = write_copy(root, 1, OnDisk(batches, high_watermark=95, roll=(25, 50, 75)))
    write_copy(root, 2, OnDisk(batches, high_watermark=95, roll=(40,)))
    if damage == "one bit":
        flip(folder / f"{25:020d}.log", 300)
    gone = {"segment missing": (25,), "end missing": (50, 75)}.get(damage, ())
    for path in (path for base in gone for path in list(folder.glob(f"{base:020d}.*"))):
        path.unlink()


def _quorum(root: Path) -> None:
    image = image_of({"orders": [[4]]})
    for node in (1, 2):
        disk = Disk(root / f"b{node}", node, node)
        disk.metadata(image, voters=VOTERS, more=1)
        state = f'{{"leaderId":1,"leaderEpoch":3,"votedId":-1,"votedDirectoryId":"{"A" * 22}","data_version":1}}'
        (disk.path / names.CLUSTER_METADATA_DIR / names.QUORUM_STATE).write_text(state)
    assert [voter.directory_id for voter in VOTERS[:2]] == [directory_id(1), directory_id(2)]


@contextmanager
def same_every_time() -> Iterator[None]:
    """The clock stands, ids are the same in every run, and nobody waits for others who write.

    Not the names of directories that are set aside: a second run makes others.
    """
    numbers, now = random.Random(0), time.gmtime(NOW // 1000)

    def the_same(*_: object) -> time.struct_time:
        return now

    with (  # functions, not mocks: these take a millisecond to make
        mock.patch("kdump.disk.locks.GROWTH_WATCH_SECONDS", 0),
        mock.patch.object(secrets, "token_bytes", numbers.randbytes),
        mock.patch.object(secrets, "token_hex", lambda size: os.urandom(size).hex()),
        mock.patch.object(time, "gmtime", the_same),
        mock.patch.object(time, "time", (NOW / 1000).__float__),
        mock.patch.object(time, "time_ns", (NOW * 1_000_000).__int__),
    ):
        yield


def kdump(arguments: list[str]) -> tuple[int, str]:
    """A command in this process: exit code and output."""
    with same_every_time():
        result = CliRunner().invoke(cli, arguments, standalone_mode=False)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        return 3, f"{result.output}{result.exception!r}"
    return (result.return_value or 0) if result.exception is None else result.exit_code, result.output


def run(scenario: Scenario, root: Path, change: str = "") -> tuple[int, str]:
    """The scenario's command: exit code and output."""
    return kdump(scenario.arguments(root, change))


def places(root: Path) -> list[Path]:
    """The log directories: the one that is recorded, or those in it."""
    found = [path for path in sorted(root.iterdir()) if (path / names.META_PROPERTIES).exists()]
    return found or [root]


def undo_all(root: Path) -> str:
    """Take all changes back that can be, the newest first; what was said where that failed."""
    for log_dir in places(root):
        while id_ := _newest(log_dir):
            code, output = kdump(["undo", str(log_dir), "--change", id_, "--apply"])
            if code:
                return output
    return ""


def _newest(log_dir: Path) -> str:
    """The id of the newest change that can be undone, "" if there is none; one that undid another stays."""
    for change, judged in reversed(list_changes(str(log_dir)).changes):
        if judged.verdict in (Verdict.CAN_BE_UNDONE, Verdict.INTERRUPTED) and not change.undoes:
            return change.id
    return ""


def first_change(root: Path) -> str:
    """The id of the only change that there was."""
    ((change, _),) = list_changes(str(root)).changes
    return change.id


def files(root: Path) -> dict[str, bytes]:
    """The files below a directory by their relative path, but for those of changes, of locks, and set aside."""
    return {name: Path(root, name).read_bytes() for name in _names(str(root), "")}


def _names(folder: str, below: str) -> Iterator[str]:
    for entry in os.scandir(folder):
        if entry.is_dir():
            if not entry.name.endswith(ASIDE):
                yield from _names(entry.path, f"{below}{entry.name}/")
        elif entry.name != names.LOCK and not entry.name.startswith(place.PREFIX):
            yield f"{below}{entry.name}"


def records_of(partition: Path) -> list[bytes]:
    """The values of all records of a partition, markers too, in the order of their offsets."""
    found = list(PartitionLog(str(partition)).records())
    damaged = [each for each in found if not isinstance(each, Record)]
    assert not damaged, damaged
    return [each.value or b"" for each in found if isinstance(each, Record)]


def start(scenario: Scenario, root: Path) -> str:
    """Make the directory, with the change that an undo takes back; its id, "" for other commands."""
    prepare(scenario, root)
    if scenario.end != End.UNDONE:
        return ""
    run(Scenario("salvage", scenario.damage), root)
    return first_change(root)

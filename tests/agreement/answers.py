"""What each command says about the log directories of one broker, asked once, and found by partition."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from functools import cached_property
from pathlib import PurePosixPath
from typing import Any

from tests.agreement.directories import NOW, Directory
from tests.agreement.running import Row, Said, kdump

CLOCK = ("--now", str(NOW))
ONE_JOB = ("--jobs", "1")
SAFE, TRUNCATE, SALVAGE = "repair", "repair --strategy truncate", "repair --strategy salvage"
REPAIRS: dict[str, tuple[str, ...]] = {
    SAFE: ("repair", *ONE_JOB, *CLOCK),
    TRUNCATE: ("repair", "--strategy", "truncate", *ONE_JOB, *CLOCK),
    SALVAGE: ("repair", "--strategy", "salvage", *ONE_JOB, *CLOCK),
    "rebuild-index": ("rebuild-index", *ONE_JOB),
    "trim": ("trim", *ONE_JOB),
}
"""The commands that change files, by what advice calls them."""
ALL_THE_SAME = {TRUNCATE: ("--accept-loss", "all"), SALVAGE: ("--only-copy", "--accept-loss", "all")}
"""What --apply wants of those that may lose something."""
WORST = ("--unclean", "--recovery-point", "0")
"""A start in which every batch of every segment is checked."""
LOG_DAMAGE = {"KD-LOG-CRC", "KD-LOG-SIZE", "KD-LOG-TORN", "KD-LOG-GARBAGE", "KD-FILE-SWAP-DAMAGED"}
MISPLACED = {"KD-LOG-ORDER", "KD-LOG-OVERLAP", "KD-LOG-BASE", "KD-EPOCH-ORDER"}
LOG_ZEROS = {"KD-LOG-ZEROS", "KD-LOG-PREALLOCATED"}
HIDES = "opens the log as if it were empty"
REFUSES = {"does not start", "takes the log directory offline"}
TRUNCATES = "truncates here and drops all later segments at unclean start"
OFFSET_REQUESTS = 12


class Answers:
    """The answers of all commands about some log directories; each command runs when first asked for."""

    def __init__(self, directory: Directory) -> None:
        self.directory = directory
        self._said: dict[tuple[str, ...], Said] = {}

    def ask(self, *arguments: str, paths: tuple[str, ...] | None = None, stdin: str = "") -> Said:
        """Run a command with JSON lines on all log directories, or on these paths."""
        words = (*arguments, *(self.directory.log_dirs if paths is None else paths))
        if words not in self._said:
            formatted = (arguments[0], "--format", "jsonl", *words[1:]) if "--batch" not in words else words
            self._said[words] = kdump(self.directory.root, *formatted, stdin=stdin)
        return self._said[words]

    @property
    def asked(self) -> set[str]:
        """The commands that have been asked."""
        return {words[0] for words in self._said}

    @property
    def repairs(self) -> list[str]:
        """Which of REPAIRS to ask: the others do the same however the broker stopped."""
        return list(REPAIRS) if self.directory.was_closed else [SAFE, TRUNCATE]

    @cached_property
    def verify(self) -> Said:
        return self.ask("verify", "--deep", "--min-severity", "note", *ONE_JOB, *CLOCK)

    @cached_property
    def startup(self) -> Said:
        return self.ask("startup", *CLOCK)

    @cached_property
    def worst_startup(self) -> Said:
        """The start after an unclean shutdown, with nothing flushed."""
        return self.ask("startup", *WORST, *CLOCK)

    @cached_property
    def doctor(self) -> Said:
        return self.ask("doctor", "--max-duration", "0", *ONE_JOB, *CLOCK)

    @cached_property
    def ls(self) -> Said:
        return self.ask("ls", "--segments")

    @cached_property
    def retain(self) -> Said:
        """What retention deletes where it may delete everything that is old."""
        return self.ask("retain", "--segments", "--retention-ms", "1", "--cleanup-policy", "delete", *CLOCK)

    @cached_property
    def dump(self) -> Said:
        return self.ask("dump", "--batches-only")

    @property
    def batches(self) -> set[tuple[Any, ...]]:
        """The valid batches of all logs, wherever in them they stand."""
        names = ("topic", "partition", "baseOffset", "lastOffset", "size", "crc")
        return {tuple(map(row.get, names)) for row in self.dump.of_type("batch") if row["isValid"]}

    @cached_property
    def stats(self) -> Said:
        return self.ask("stats", "--sample", "0")

    @cached_property
    def txns(self) -> Said:
        return self.ask("txns", "--all", *CLOCK)

    def plan(self, repair: str) -> Said:
        """What one of REPAIRS would do."""
        return self.ask(*REPAIRS[repair])

    def lookup(self, time: str) -> dict[str, int | None]:
        """The offset that `lookup --timestamp` gives for each partition; those that it cannot read are missing."""
        offsets: dict[str, int | None] = {}
        for log_dir in self.directory.log_dirs:
            for row in self.ask("lookup", "--timestamp", time, paths=(log_dir,)).rows:
                offsets[f"{log_dir}/{row['topic']}-{row['partition']}"] = row["result"] and row["result"]["offset"]
        return offsets

    @cached_property
    def findings(self) -> list[Row]:
        return self.verify.of_type("finding")

    def findings_of(self, partition: str) -> list[Row]:
        """The findings in a partition directory, and those in its log directory's files that name it."""
        log_dir, _, name = partition.partition("/")
        return [
            row
            for row in self.findings
            if is_in(row["path"], partition) or (is_in(row["path"], log_dir) and row["message"].startswith(f"{name}: "))
        ]

    def codes_of(self, partition: str) -> set[str]:
        return {row["code"] for row in self.findings_of(partition)}

    @cached_property
    def outcomes(self) -> dict[str, Row]:
        """What startup says of each partition."""
        return by_path(self.startup, "outcome")

    @cached_property
    def listed(self) -> dict[str, Row]:
        """What ls says of each partition."""
        return by_path(self.ls, "partition")

    @cached_property
    def served(self) -> dict[str, Row]:
        """What ls says of each partition that a broker serves clients from, or that a controller reads."""
        return {path: row for path, row in self.listed.items() if row["state"] == "live"}

    @cached_property
    def retained(self) -> dict[str, Row]:
        """What retain says of each partition."""
        return by_path(self.retain, "partition")

    @cached_property
    def transactions(self) -> dict[str, Row]:
        """What txns says of each partition."""
        return by_path(self.txns, "partition")

    def has_misplaced(self, partition: str) -> bool:
        """Whether batches of a partition are not in their order."""
        return bool(self.codes_of(partition) & MISPLACED)

    def in_segments(self, partition: str) -> list[Row]:
        """What verify finds in the .log files of the segments that ls reads: not in those that others replace."""
        read = self.segments(self.ls, partition)
        findings = self.findings_of(partition)
        return [row for row in findings if parent(row["path"]) == partition and file_name(row["path"]) in read]

    def segments(self, said: Said, partition: str) -> dict[str, Row]:
        """The segment rows of a partition by the names of their .log files."""
        return {file_name(row["path"]): row for row in said.of_type("segment") if parent(row["path"]) == partition}

    def steps(self, said: Said, partition: str) -> list[Row]:
        """What a start does with a partition."""
        return [row for row in said.of_type("step") if row["path"] == partition]

    @cached_property
    def offsets(self) -> dict[str, list[tuple[Row, Row]]]:
        """Offsets around the ends of each partition, and in it, and what `lookup --batch` answers."""
        found = {}
        for path, row in self.served.items():
            if row["logEndOffset"] is None:
                continue
            start, end = row["logStartOffset"], row["logEndOffset"]
            inside = range(start, end, max((end - start) // OFFSET_REQUESTS, 1))
            requests: list[Row] = [{"offset": each} for each in sorted({start, end - 1, end, end + 1, *inside} - {-1})]
            requests += [{"timestamp": special} for special in (-1, -2, -3, -4)]
            text = "".join(f"{json.dumps(each)}\n" for each in requests)
            said = self.ask("lookup", "--batch", "-", paths=(path,), stdin=text)
            found[path] = list(zip(requests, said.rows, strict=said.code == 0))
        return found

    def mended(self, repair: str) -> Mended | None:
        """What is there after one of REPAIRS was applied to a copy; None where it has nothing to do."""
        if repair not in self._mended:
            has_work = bool(self.plan(repair).of_type("operation"))
            self._mended[repair] = Mended(self, repair) if has_work else None
        return self._mended[repair]

    @cached_property
    def _mended(self) -> dict[str, Mended | None]:
        return {}


class Mended:
    """A copy of the log directories to which a repair was applied, and what commands say then."""

    def __init__(self, answers: Answers, repair: str) -> None:
        directory = answers.directory
        copy = directory.root.with_name("copy")
        shutil.rmtree(copy, ignore_errors=True)
        for log_dir in directory.log_dirs:
            shutil.copytree(directory.root / log_dir, copy / log_dir, symlinks=True)
        after = Answers(Directory(directory.name, copy, directory.log_dirs))
        self.applied = after.ask(*REPAIRS[repair], *ALL_THE_SAME.get(repair, ()), "--apply", "--no-backup")
        self.again = after.ask(*REPAIRS[repair])
        self.findings = after.findings
        self.outcomes = after.outcomes if repair in (TRUNCATE, SALVAGE) else {}
        self.batches = after.batches if repair == SAFE else set()


def by_path(said: Said, kind: str) -> dict[str, Row]:
    """The rows of a type by their partition directory, as a path below the working directory."""
    return {relative(row["path"]): row for row in said.of_type(kind)}


def relative(path: str) -> str:
    """A path below the folder of the log directories: some commands make what they are given absolute."""
    for folder in ("/made/", "/copy/"):
        path = path.rpartition(folder)[2]
    return path


def is_in(path: str, folder: str) -> bool:
    """Whether a path is a folder or below it."""
    return path == folder or path.startswith(f"{folder}/")


def parent(path: str) -> str:
    return str(PurePosixPath(relative(path)).parent)


def file_name(path: str) -> str:
    return PurePosixPath(path).name


def operations(said: Said, partition: str) -> list[tuple[str, str]]:
    """What a plan does with a partition: action and file, in order."""
    return [(row["action"], row["file"]) for row in said.of_type("operation") if relative(row["path"]) == partition]


def advised(finding: Row) -> Iterator[str]:
    """The commands of REPAIRS that a finding's advice names, without their paths."""
    commands = [action["command"] for action in finding["actions"] if action["command"]]
    words = [" ".join(each for each in command if not is_in(finding["path"], each)) for command in commands]
    yield from (repair for repair in REPAIRS if f"kdump {repair}" in words)

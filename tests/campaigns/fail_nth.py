"""Every call to the file system fails once: each command says so, ends as it should, and loses nothing.

A command runs with its first call below the log directory failing, then with its second, until one run has no such call
left. There must be no traceback; a run that was disturbed either says the same as the undisturbed one or ends with an
exit code and a word that say otherwise. What a changing command leaves is finished by the next run.

`./dev campaign fail-nth [--error EIO] [--seconds N] [NAME...]`
"""

from __future__ import annotations

import argparse
import builtins
import errno
import mmap
import os
import re
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from kdump.commands.cli import cli
from tests.campaigns.crash_states import Campaign
from tests.campaigns.scenarios import MEMORY, PARTITION, Scenario, prepare, same_every_time

CALLS = (
    *("open", "read", "pread", "preadv", "write", "pwrite", "fsync", "ftruncate", "truncate", "fstat"),
    *("listdir", "scandir", "replace", "rename", "remove", "unlink", "link", "mkdir", "utime", "fchmod", "statvfs"),
)
READING: dict[str, tuple[str, ...]] = {
    "verify": ("verify", "--deep", "{dir}"),
    "verify rows": ("verify", "--format", "jsonl", "--no-header", "{partition}"),
    "startup": ("startup", "{dir}"),
    "doctor": ("doctor", "{dir}"),
    "ls": ("ls", "{dir}"),
    "ls segments": ("ls", "{partition}"),
    "dump": ("dump", "{partition}"),
    "lookup": ("lookup", "{partition}", "--offset", "31"),
    "lookup by time": ("lookup", "{partition}", "--timestamp", "1030"),
    "stats": ("stats", "{dir}"),
    "txns": ("txns", "{dir}"),
    "retain": ("retain", "{dir}"),
    "compact": ("compact", "{dir}"),
    "repair": ("repair", "{dir}"),
    "trim": ("trim", "{dir}"),
    "rebuild-index": ("rebuild-index", "{dir}"),
    "undo": ("undo", "{dir}"),
    "metadata": ("metadata", "{dir}"),
    "groups": ("groups", "{dir}"),
    "replicas": ("replicas", "{dir}/b1", "{dir}/b2"),
    "quorum": ("quorum", "{dir}/b1", "{dir}/b2"),
    "resurrect": ("resurrect", "{dir}/b1", "{dir}/b2", "{dir}/b3", "--into", "{dir}/new"),
}
READ_ON = {
    "replicas": Scenario("heal", "one bit"),
    "quorum": Scenario("set-voters", "none"),
    "resurrect": Scenario("resurrect", "none"),
}
"""What reading commands are run on, if not a log directory with damage in every segment."""
CHANGING = (
    Scenario("salvage", "damage and leftovers"),
    Scenario("repair", "time index missing"),
    Scenario("heal", "segment missing"),
    Scenario("trim", "index with a zero tail"),
    Scenario("rebuild-index", "all indexes missing"),
    Scenario("retain", "none"),
    Scenario("compact", "none"),
    Scenario("undo", "middle segment, payload"),
    Scenario("append", "none"),
    Scenario("append", "index missing"),
    Scenario("append and roll", "none"),
    Scenario("roll", "none"),
    Scenario("resurrect", "none"),
    Scenario("resurrect in place", "none"),
    Scenario("set-voters", "none"),
)
UNKNOWN = 70
_LASTED = re.compile(r" in [\d.]+ s\b|\"(startedAt|endedAt|seconds)\": ?[^,}]+")


@dataclass
class Tally:
    """How often a command was disturbed, and what was wrong then."""

    runs: int = 0
    wrong: list[str] = field(default_factory=list)


class Fault:
    """Lets call number `at` below `root` fail with `error`."""

    def __init__(self, root: Path, at: int, error: int) -> None:
        self.root = os.path.realpath(root)
        self.left = at
        self.error = error
        self.where = ""

    def _is_below(self, target: object) -> bool:
        if isinstance(target, int):
            try:
                return os.readlink(f"/proc/self/fd/{target}").startswith(self.root)
            except OSError:
                return False
        return isinstance(target, (str, os.PathLike)) and os.path.abspath(target).startswith(self.root)

    def step(self, name: str, target: object) -> None:
        """A call is about to be made."""
        if self.left <= 0 or not self._is_below(target):
            return
        self.left -= 1
        if self.left == 0:
            self.where = name
            path = target if isinstance(target, (str, os.PathLike)) else None
            raise OSError(self.error, os.strerror(self.error), *([os.fspath(path)] if path is not None else []))

    def install(self) -> None:
        """Let the calls of this process fail; for one that ends soon."""

        def failing(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
            def called(*arguments: Any, **named: Any) -> Any:
                self.step(name, arguments[0] if arguments else None)
                return real(*arguments, **named)

            return called

        for name in CALLS:
            setattr(os, name, failing(name, getattr(os, name)))
        builtins.open = failing("open", builtins.open)
        mmap.mmap = failing("mmap", mmap.mmap)  # type: ignore[assignment,misc]


def disturbed(arguments: Sequence[str], root: Path, at: int, error: int, out: Path) -> tuple[int, str, str]:
    """Exit code, output and the call that failed ("": none did) of a command in a child process."""
    child = os.fork()
    if not child:
        code = UNKNOWN
        try:
            target = os.open(out, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(target, 1)
            os.dup2(target, 2)
            sys.stdout, sys.stderr = open(1, "w", closefd=False), open(2, "w", closefd=False)  # noqa: SIM115
            from kdump.commands.cli import main

            fault = Fault(root, at, error)
            sys.argv = ["kdump", *arguments]
            fault.install()
            try:
                with same_every_time():
                    main()
            except SystemExit as end:
                code = end.code if isinstance(end.code, int) else int(end.code is not None)
            sys.stdout.flush()
            fault.left = 0
            print(f"\nFAILED {fault.where}", file=sys.stderr, flush=True)
        except BaseException:
            import traceback

            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    text = out.read_text(errors="replace")
    output, _, where = text.rpartition("\nFAILED ")
    return code, output if where else text, where.strip()


def read_with_faults(name: str, scratch: Path, error: int, stop: Callable[[], bool]) -> Tally:
    """A reading command on a damaged directory, with each of its calls failing in turn."""
    log_dir, out = scratch / "logs", scratch / "out"
    prepare(READ_ON.get(name, Scenario("repair", "damage in all segments")), log_dir)
    arguments = [each.format(dir=log_dir, partition=log_dir / PARTITION) for each in READING[name]]
    CliRunner().invoke(cli, arguments, standalone_mode=False)  # what is imported here, no child has to import
    code, output, _ = disturbed(arguments, log_dir, 0, error, out)
    tally = Tally()
    for at in range(1, 100_000):
        if stop():
            break
        now, said, where = disturbed(arguments, log_dir, at, error, out)
        if not where and now != UNKNOWN:
            break
        tally.runs += 1
        label = f"{name}, call {at} ({where})"
        if "Traceback" in said or now == UNKNOWN:
            tally.wrong.append(f"{label}: {said[-600:]}")
        elif now == code and os.strerror(error) not in said and (difference := _difference(output, said)):
            tally.wrong.append(f"{label}: exit code {now} as ever, nothing said, and other output: {difference}")
    return tally


def _difference(expected: str, found: str) -> str:
    """The first line of the one that the other has not; how long it took does not count."""
    lines = [_LASTED.sub("", text).splitlines() for text in (expected, found)]
    return next((f"{one!r} is {other!r}" for one, other in zip_longest(*lines, fillvalue="") if one != other), "")


def change_with_faults(scenario: Scenario, scratch: Path, error: int, stop: Callable[[], bool]) -> Tally:
    """A changing command, with each of its calls failing in turn; another run must then end as well as ever."""
    subject = Campaign(scenario, scratch)
    before, arguments = subject.before.state(subject.inode), scenario.arguments(subject.root, subject.change)
    tally = Tally()
    for at in range(1, 100_000):
        if stop():
            break
        subject.make(before)
        code, said, where = disturbed(arguments, subject.root, at, error, scratch / "out")
        if not where and code != UNKNOWN:
            break
        tally.runs += 1
        label = f"{scenario.name}, call {at} ({where})"
        if "Traceback" in said or code == UNKNOWN:
            tally.wrong.append(f"{label}: {said[-600:]}")
        elif wrong := subject.ended() if code == subject.code else subject.again():
            tally.wrong.append(f"{label}: exit code {code}: {wrong}\n{said[-300:]}")
    return tally


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--error", default="EIO", help="the name of the error (default: EIO)")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after so long")
    parser.add_argument("names", nargs="*", metavar="NAME", help="only commands whose names begin so")
    asked = parser.parse_args(arguments)
    end = time.monotonic() + asked.seconds
    error = getattr(errno, asked.error)
    total = Tally()
    jobs: list[tuple[str, Callable[[Path], Tally]]] = [
        (name, lambda scratch, name=name: read_with_faults(name, scratch, error, lambda: time.monotonic() > end))  # type: ignore[misc]
        for name in READING
    ] + [
        (each.name, lambda scratch, each=each: change_with_faults(each, scratch, error, lambda: time.monotonic() > end))  # type: ignore[misc]
        for each in CHANGING
    ]
    for name, job in jobs:
        if asked.names and not name.startswith(tuple(asked.names)):
            continue
        with tempfile.TemporaryDirectory(dir=MEMORY if os.access(MEMORY, os.W_OK) else None) as scratch:
            tally = job(Path(scratch))
        print(f"{name}: {tally.runs} calls failed, {len(tally.wrong)} wrong", flush=True)
        for line in tally.wrong[:4]:
            print(f"  {line}", flush=True)
        total.runs += tally.runs
        total.wrong += tally.wrong
    print(f"{total.runs:,} calls failed, {len(total.wrong)} wrong")
    return 1 if total.wrong else 0


if __name__ == "__main__":
    sys.exit(main())

"""Every call to the file system fails once: each command says so, ends as it should, and loses nothing.

A command runs with its first call below the log directory failing, then with its second, until one run has no such call
left. There must be no traceback; a run that was disturbed either says the same as the undisturbed one or ends with an
exit code and a word that say otherwise. What a changing command leaves is finished by the next run.

With `--memory N` it is allocations of Python's that fail: N times one is drawn, which fails alone or with the thousand
after it. What ends the interpreter itself then counts as a kill.

`./dev campaign fail-nth [--error EIO | --memory N [--seed N]] [--seconds N] [NAME...]`
"""

from __future__ import annotations

import argparse
import builtins
import errno
import importlib
import mmap
import os
import pkgutil
import random
import re
import resource
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from kdump.commands import shell
from kdump.commands.cli import cli
from tests.campaigns.crash_states import Campaign
from tests.campaigns.scenarios import MEMORY, PARTITION, Scenario, prepare, same_every_time

CALLS = (
    *("open", "read", "pread", "preadv", "write", "pwrite", "fsync", "ftruncate", "truncate", "fstat"),
    *("stat", "lstat", "listdir", "scandir", "replace", "rename", "remove", "unlink", "link", "mkdir", "utime"),
    *("fchmod", "statvfs"),
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
_MAX_SECONDS = 4
"""Processor time of a command without memory."""
_MAX_ALLOCATIONS = 1 << 22
_VERY_MANY = 2000
_OURS = 30
"""Allocations before a command begins."""
_LASTED = re.compile(r" in [\d.]+ s\b|\"(startedAt|endedAt|seconds)\": ?[^,}]+")


@dataclass
class Tally:
    """How often a command was disturbed, what was wrong then, and when it ended by a signal."""

    runs: int = 0
    wrong: list[str] = field(default_factory=list)
    crashes: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        ended = f", {len(self.crashes)} ended by a signal" if self.crashes else ""
        return f"{self.runs:,} failed, {len(self.wrong)} wrong{ended}"


class Fault:
    """Lets call number `at` below `root` fail with `error`; 0: none.

    `where` is the call that failed, `says` what a command that tells of it says.
    """

    def __init__(self, root: Path, at: int, error: int) -> None:
        self.root = os.path.realpath(root)
        self.left = at
        self.error = error
        self.where = ""
        self.parsed = os.strerror(error)

    def _is_below(self, target: object) -> bool:
        if isinstance(target, int):
            try:
                return os.readlink(f"/proc/self/fd/{target}").startswith(self.root)
            except OSError:
                return False
        return isinstance(target, (str, os.PathLike)) and os.path.abspath(target).startswith(self.root)

    def step(self, name: str, target: object, folder: int | None = None) -> None:
        """A call is about to be made, of a path, a descriptor, or a name in a `folder` that is open."""
        if self.left <= 0 or not self._is_below(target if folder is None else folder):
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
                folder = next((named[key] for key in ("dir_fd", "src_dir_fd") if named.get(key) is not None), None)
                self.step(name, arguments[0] if arguments else None, folder)
                return real(*arguments, **named)

            return called

        for name in CALLS:
            setattr(os, name, failing(name, getattr(os, name)))
        builtins.open = failing("open", builtins.open)
        mmap.mmap = failing("mmap", mmap.mmap)  # type: ignore[assignment,misc]

    def remove(self) -> None:
        """No more calls fail."""
        self.left = 0


class NoMemory:
    """Lets allocation number `first` of Python's fail, and so many in all."""

    parsed = "memory"

    def __init__(self, first: int, number: int) -> None:
        self.first = first
        self.number = number
        self.where = f"{number} from allocation {first}"

    def install(self) -> None:
        """Let them fail in this process. Needs a CPython that brings its test modules."""
        import _testcapi  # type: ignore[import-not-found]

        self._set, self._remove = _testcapi.set_nomemory, _testcapi.remove_mem_hooks
        resource.setrlimit(resource.RLIMIT_CPU, (_MAX_SECONDS, _MAX_SECONDS))
        signal.alarm(2 * _MAX_SECONDS)  # a thread that dies while it starts is waited for by CPython, without end
        self._set(self.first, self.first + self.number)

    def remove(self) -> None:
        """No more allocations fail."""
        self._remove()


def disturbed(arguments: Sequence[str], out: Path, fault: Fault | NoMemory) -> tuple[int, str, str]:
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

            sys.argv = ["kdump", *arguments]
            with same_every_time():
                fault.install()
                try:
                    main()
                except SystemExit as end:
                    fault.remove()
                    code = end.code if isinstance(end.code, int) else int(end.code is not None)
                finally:
                    fault.remove()
            sys.stdout.flush()
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


def read_with_faults(name: str, scratch: Path, faults: Faults, stop: Callable[[], bool]) -> Tally:
    """A reading command on a damaged directory, with one thing failing after the other."""
    log_dir, out = scratch / "logs", scratch / "out"
    prepare(READ_ON.get(name, Scenario("repair", "damage in all segments")), log_dir)
    arguments = [each.format(dir=log_dir, partition=log_dir / PARTITION) for each in READING[name]]
    CliRunner().invoke(cli, arguments, standalone_mode=False)  # what is imported here, no child has to import
    import_screens()
    run = partial(disturbed, arguments, out)
    code, output, _ = run(Fault(log_dir, 0, errno.EIO))
    tally = Tally()
    for number, fault in enumerate(faults(log_dir, run), 1):
        if stop():
            break
        now, said, where = run(fault)
        if not where and now != UNKNOWN:
            break
        tally.runs += 1
        label = f"{name}, number {number} ({where or fault.where})"
        if now < 0:
            tally.crashes.append(f"{label}: signal {-now}: {said[-200:]}")
        elif "Traceback" in said or now == UNKNOWN:
            tally.wrong.append(f"{label}: {said[-600:]}")
        elif now == code and not is_said(said, fault.parsed) and (difference := _difference(output, said)):
            tally.wrong.append(f"{label}: exit code {now} as ever, nothing said, and other output: {difference}")
    return tally


def is_said(said: str, word: str) -> bool:
    """Whether a command told that something failed, be it what CPython makes of it."""
    return word in said or "an error in kdump itself" in said


Run = Callable[[Fault | NoMemory], tuple[int, str, str]]
Faults = Callable[[Path, Run], Iterator[Fault | NoMemory]]
"""What fails below a directory, one after the other; `run` runs the command with one."""


def every_call(error: int) -> Faults:
    """Each call fails with this error."""
    return lambda root, run: (Fault(root, at, error) for at in range(1, 100_000))


def drawn_allocations(times: int, seed: int) -> Faults:
    """So many allocations fail, of all that a command makes; half of them with the thousand next ones.

    How many there are is found by letting very many fail from some number on.
    """

    def draw(root: Path, run: Run) -> Iterator[NoMemory]:
        numbers = random.Random(seed)
        code, _, _ = run(Fault(root, 0, errno.EIO))
        first, last = 1, _MAX_ALLOCATIONS
        while first < last:
            at = (first + last) // 2
            now, said, _ = run(NoMemory(at, _VERY_MANY))
            is_behind = now == code and not is_said(said, NoMemory.parsed)
            first, last = (first, at) if is_behind else (at + 1, last)
        for number in range(times):
            yield NoMemory(numbers.randrange(_OURS, max(first, _OURS) + 1), 1000 if number % 2 else 1)

    return draw


def import_screens() -> None:
    """Import what commands import only when they print: an import without memory ends the interpreter now and then."""
    for module in pkgutil.iter_modules(shell.__path__, f"{shell.__name__}."):
        importlib.import_module(module.name)


def _difference(expected: str, found: str) -> str:
    """The first line of the one that the other has not; how long it took does not count."""
    lines = [_LASTED.sub("", text).splitlines() for text in (expected, found)]
    return next((f"{one!r} is {other!r}" for one, other in zip_longest(*lines, fillvalue="") if one != other), "")


def change_with_faults(scenario: Scenario, scratch: Path, faults: Faults, stop: Callable[[], bool]) -> Tally:
    """A changing command, with one thing failing after the other; another run must then end as well as ever."""
    import_screens()
    subject = Campaign(scenario, scratch)
    before, arguments = subject.before.state(subject.inode), scenario.arguments(subject.root, subject.change)
    tally = Tally()

    def run(fault: Fault | NoMemory) -> tuple[int, str, str]:
        subject.make(before)
        return disturbed(arguments, scratch / "out", fault)

    for number, fault in enumerate(faults(subject.root, run), 1):
        if stop():
            break
        code, said, where = run(fault)
        if not where and code >= 0 and code != UNKNOWN:
            break
        tally.runs += 1
        label = f"{scenario.name}, number {number} ({where or fault.where})"
        if code < 0:
            tally.crashes.append(f"{label}: signal {-code}: {said[-200:]}")
        if "Traceback" in said or code == UNKNOWN:
            tally.wrong.append(f"{label}: {said[-600:]}")
        elif wrong := subject.ended() if code == subject.code else subject.again():
            tally.wrong.append(f"{label}: exit code {code}: {wrong}\n{said[-300:]}")
    return tally


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--error", default="EIO", help="the name of the error (default: EIO)")
    parser.add_argument("--memory", type=int, metavar="N", help="so many allocations fail, and no calls")
    parser.add_argument("--seed", type=int, default=0, help="of the allocations that are drawn")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after so long")
    parser.add_argument("names", nargs="*", metavar="NAME", help="only commands whose names begin so")
    asked = parser.parse_args(arguments)
    end: float = time.monotonic() + asked.seconds
    faults = drawn_allocations(asked.memory, asked.seed) if asked.memory else every_call(getattr(errno, asked.error))
    total = Tally()

    def stop() -> bool:
        return time.monotonic() > end

    jobs: list[tuple[str, Callable[[Path, Faults, Callable[[], bool]], Tally]]] = [
        *((name, partial(read_with_faults, name)) for name in READING),
        *((each.name, partial(change_with_faults, each)) for each in CHANGING),
    ]
    for name, job in jobs:
        if asked.names and not name.startswith(tuple(asked.names)):
            continue
        with tempfile.TemporaryDirectory(dir=MEMORY if os.access(MEMORY, os.W_OK) else None) as scratch:
            tally = job(Path(scratch), faults, stop)
        print(f"{name}: {tally}", flush=True)
        for line in (*tally.wrong[:4], *tally.crashes[:4]):
            print(f"  {line}", flush=True)
        total.runs += tally.runs
        total.wrong += tally.wrong
        total.crashes += tally.crashes
    print(total)
    return 1 if total.wrong else 0


if __name__ == "__main__":
    sys.exit(main())

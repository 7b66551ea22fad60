"""The conformance programs beside the repository, held to the best figures reached so far.

    python tests/ratchet.py [--programs DIR] [--update] [PROGRAM...]

Runs the programs that conformance.json names (those given, else all), reads the figures in the last line that each
prints, and fails when one is lower than recorded. `--update` records the figures that are higher, and those of
programs given that are not recorded yet.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
RECORD = HERE / "conformance.json"
PROGRAMS = HERE.parent.parent / "shared" / "conformance"

SUMMARIES = {
    "dump_log": r"dump-log: (?P<identical>\d+) of \d+ invocations identical; exception texts (?P<messages>\d+) of",
    "lookup": r"lookup: (?P<answers>\d+) of",
    "verify": r"verify: sound cases passed (?P<sound>\d+) of \d+; damaged cases found (?P<damaged>\d+) of",
    "startup": r"startup: (?P<outcomes>\d+) of",
    "recovery": r"recovery: (?P<directories>\d+) of",
    "compaction": r"compaction: (?P<rounds>\d+) of",
    "replicas": r"replicas: pairs (?P<pairs>\d+) of \d+, cuts (?P<cuts>\d+) of",
    "schemas": r"schemas: (?P<records>\d+) of",
    "old_brokers": r"old brokers: directories without a false word (?P<directories>\d+) of \d+, "
    r"records (?P<records>\d+) of \d+, log ends (?P<ends>\d+) of \d+, times (?P<times>\d+) of",
}
"""Program → its last line; every named group is a figure of which more is better."""


class RatchetError(Exception):
    """A program that cannot be run or whose figures cannot be read."""


def figures(program: str, output: str) -> dict[str, int]:
    """The figures in a program's closing line. Raises RatchetError where there is none."""
    found = list(re.finditer(f"^{SUMMARIES[program]}", output, re.MULTILINE))
    if not found:
        raise RatchetError(f"{program}: no summary in its output, which ends: {output[-500:].strip() or '(nothing)'}")
    return {name: int(number) for name, number in found[-1].groupdict().items()}


def run(program: str, programs: Path) -> dict[str, int]:
    """Run a program with this interpreter, show what it prints, and return its figures."""
    script = programs / f"{program}.py"
    if not script.is_file():
        raise RatchetError(f"{program}: {script} does not exist; --programs names another folder")
    command = [sys.executable, str(script)]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, check=False)
    sys.stdout.write(done.stdout)
    return figures(program, done.stdout)


def compare(program: str, reached: dict[str, int], recorded: dict[str, int]) -> tuple[list[str], list[str]]:
    """What fell below the record and what rose above it, each a line to print."""
    fallen: list[str] = []
    risen: list[str] = []
    for name, number in reached.items():
        floor = recorded.get(name, 0)
        if number != floor:
            (fallen if number < floor else risen).append(f"{program}: {name} {number}, recorded {floor}")
    return fallen, risen


def main() -> int:
    assert __doc__ is not None
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", nargs="*", help=f"of {', '.join(SUMMARIES)} (default: those recorded)")
    parser.add_argument("--programs", type=Path, default=PROGRAMS, help="folder of the programs")
    parser.add_argument("--update", action="store_true", help="record what is higher")
    options = parser.parse_args()
    record: dict[str, dict[str, int]] = json.loads(RECORD.read_text())
    if unknown := set(options.program) - set(SUMMARIES):
        parser.error(f"no such program: {', '.join(sorted(unknown))}")
    fallen: list[str] = []
    risen: list[str] = []
    for program in options.program or record:
        recorded = record.get(program, {})
        try:
            reached = run(program, options.programs)
        except RatchetError as error:
            fallen.append(str(error))
            continue
        lower, higher = compare(program, reached, recorded)
        fallen += lower
        risen += higher
        if options.update:
            record[program] = {name: max(number, recorded.get(name, 0)) for name, number in reached.items()}
    for line in fallen:
        print(f"fell: {line}")
    for line in risen:
        print(f"rose: {line}")
    if options.update:
        RECORD.write_text(json.dumps(record, indent=2) + "\n")
    elif risen:
        print(f"record them: ./dev conformance --update {' '.join(options.program)}".rstrip())
    return 1 if fallen else 0


if __name__ == "__main__":
    sys.exit(main())

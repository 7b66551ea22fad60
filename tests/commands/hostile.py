"""Log directories with every named fault, whose names try to drive a terminal and a shell."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path

from kdump.fixture.faults import FAULTS
from kdump.fixture.make import make
from kdump.formats.names import is_partition_dir

MARK = "evil"
"""Is in each of the names."""
NAMES = (
    f"{MARK}\x1b]0;owned\x07\x1b[31m\r\n\x9b31m\u202e\u2066\u2028",
    f"{MARK} two  spaces",
    f"{MARK}'$(touch owned)`id`;&|<>\"\\n#!",
    os.fsdecode(b"evil\xff\x9b\xfe'"),
    f"{MARK}--apply",
    f"{MARK}*[a]?{{b}}~",
)
SPEC = Path(__file__).resolve().parent.parent.parent / "fixtures" / "specs" / "everything.yaml"
ALL_FAULTS = tuple(name for name in sorted(FAULTS) if name != "log-too-large")  # reading 2 GiB takes long
_CONTROLS = re.compile("[\0-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_COMMAND = re.compile(r"\bkdump [a-z-]+(?= )")
_WORD = re.compile(r"(?:\$'(?:[^'\\]|\\.)*'|'[^']*'|\"[^\"]*\"|[\w@%+=:,./-])+")


def build(root: Path, faults: Iterable[str] = ALL_FAULTS) -> list[str]:
    """Build log directories; faults of partitions are in the first, those of a log directory in one of their own."""
    first = root / f"disk{NAMES[0]}"
    first.mkdir()
    directories = [os.fspath(first)]
    for number, fault in enumerate(faults):
        made = make(SPEC, root / "made", [fault])
        broken = Path(made.faults[0].path)
        log_dir = next(Path(each) for each in made.log_dirs.values() if broken.is_relative_to(each))
        inside = broken.relative_to(log_dir).parts[:1]
        name = NAMES[number % len(NAMES)]
        if inside and is_partition_dir(inside[0]) and not inside[0].startswith("__"):
            partition = inside[0].rpartition("-")[2]
            shutil.move(log_dir / inside[0], first / f"{fault}{name}-{partition}")
            if len(directories) == 1:
                shutil.copy(log_dir / "meta.properties", first)
        else:
            target = root / f"{fault}{name}"
            for folder in log_dir.iterdir():
                if folder.is_dir() and folder.name in ("images-0", "payments-0", "legacy-0"):
                    shutil.rmtree(folder)
                elif folder.is_dir() and not folder.name.startswith("__"):
                    folder.rename(folder.with_name(name + folder.name))
            shutil.move(log_dir, target)
            directories.append(os.fspath(target))
        shutil.rmtree(root / "made")
    (first / f"{NAMES[0]}.log").touch()
    (first / f"{NAMES[3]}.index").symlink_to(NAMES[0])
    return directories


def controls_in(text: str) -> list[str]:
    """The lines with a character that a terminal may act upon."""
    return [line for line in text.split("\n") if _CONTROLS.search(line)]


def paths_of_commands(text: str) -> Iterator[str]:
    """The words with one of the names in commands to paste, as a shell hands them on."""
    text = text.replace(" \\\n", " ")
    for line in text.split("\n"):
        found = _COMMAND.search(line)
        if found is None or MARK not in line[found.end() :]:
            continue
        rest = line[found.end() :].lstrip()
        words = []
        while word := _WORD.match(rest):
            words.append(word[0].rstrip(",") if word[0][-1] == "," else word[0])
            rest = rest[word.end() :].lstrip(" ")
        assert MARK not in rest, (line, rest)
        wanted = [word for word in words if MARK in word]
        script = f"printf '%s\\0' {' '.join(wanted)}"
        done = subprocess.run(["bash", "-c", script], capture_output=True, check=True)
        yield from map(os.fsdecode, done.stdout.split(b"\0")[:-1])

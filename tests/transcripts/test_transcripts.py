"""What the commands print is what the sessions of this folder have, to the letter.

`pytest tests/transcripts --rewrite-transcripts` writes what they print now: read the difference before it is committed.
"""

from __future__ import annotations

import re
import shutil
from functools import cache
from pathlib import Path

import pytest

from tests.agreement.running import kdump
from tests.transcripts.sessions import KILLED, SESSIONS, SPECS, Step, last_change, session_text, steps, written

NAMES = sorted(path.stem for path in SESSIONS.glob("*.txt"))


@pytest.fixture(autouse=True)
def _same_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR", "CLICOLOR_FORCE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("TZ", "UTC")


@pytest.mark.parametrize("name", NAMES)
def test_commands_print_what_the_session_has(
    name: str, rewrites: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = session(name)
    shutil.copytree(SPECS, tmp_path / "specs")
    blocks, change = [], ""
    for step in steps(expected):
        said = step.run(tmp_path, monkeypatch, change)
        change = last_change(said) or change
        blocks.append(written(step, said, tmp_path))
    printed = session_text(blocks)
    if rewrites:
        (SESSIONS / f"{name}.txt").write_text(printed, encoding="utf-8", errors="surrogateescape")
    else:
        assert printed == expected


def session(name: str) -> str:
    return (SESSIONS / f"{name}.txt").read_text(encoding="utf-8", errors="surrogateescape")


@cache
def told() -> dict[str, list[Step]]:
    """The steps of all sessions by the command that they run."""
    found: dict[str, list[Step]] = {}
    for name in NAMES:
        for step in steps(session(name)):
            if step.words:
                found.setdefault(step.words[0], []).append(step)
    return found


def listed(*command: str) -> list[str]:
    """The commands that the help lists."""
    text = kdump(Path.cwd(), *command, "--help").out
    return re.findall(r"^  ([a-z][a-z-]*)  +\S", text.partition("-h, --help")[2], re.MULTILINE)


@pytest.mark.parametrize("command", listed())
def test_every_command_has_a_transcript(command: str) -> None:
    lines = [step.words for step in told().get(command, [])]
    assert lines, f"no session of {SESSIONS} has a `$ kdump {command} …`"
    if "jsonl" in kdump(Path.cwd(), command, "--help", "--all").out:
        assert any("jsonl" in words for words in lines), f"no session has `$ kdump {command} --format jsonl …`"
    assert any("jsonl" not in words for words in lines), f"all sessions of {command} are JSON lines"
    assert any(step.columns == "80" for step in told()[command]), f"no session has `$ COLUMNS=80 kdump {command} …`"


@pytest.mark.parametrize(
    ("group", "command"), [(group, command) for group in ("fixture", "quorum") for command in listed(group)]
)
def test_every_command_of_a_group_has_a_transcript(group: str, command: str) -> None:
    lines = [step.words for step in told()[group] if command in step.words or command == "show"]
    assert lines
    if "jsonl" in kdump(Path.cwd(), group, command, "--help", "--all").out:
        assert any("jsonl" in words for words in lines), f"no session has `$ kdump {group} {command} --format jsonl …`"
    assert any("jsonl" not in words for words in lines)


def test_no_success_is_told_after_a_failure() -> None:
    """What exits with 3 or 4 does not print that all is well."""
    block = re.compile(r"^\$ (.*)\n((?:(?!\$ ).*\n)*?)exit [34]$", re.MULTILINE)
    well = re.compile(r"^(?:nothing to do|sound\b|done\b)", re.MULTILINE)
    told_well = [line for name in NAMES for line, out in block.findall(session(name)) if well.search(out)]
    assert told_well == []


def test_the_error_screens_are_there() -> None:
    """A path that is missing, an option and a command that are misspelled, a refusal, Ctrl-C, a kill."""
    codes = {code for name in NAMES for code in re.findall(r"^exit (\d+)$", session(name), re.MULTILINE)}
    assert codes == {*"01234", "130", str(KILLED)}

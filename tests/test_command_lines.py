"""Every command line in the README, the docs, the man pages and the help is one that kdump understands.

Those that begin with `kdump` are parsed with the command's own options: a name that has changed fails here. Those of
the pages for users are also run, on a broker's log directory that stands in for theirs.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import click
import pytest

from kdump.commands.cli import COMMANDS, cli
from tests.agreement.running import kdump

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
SPECS = Path(__file__).parent / "transcripts" / "specs"
USERS_PAGES = ("at-3-am.md", "doctor.md", "explain.md")

_LINE = re.compile(r"^(?: {4,}|\$ )?(?:[\w' \\{}:.,\"]+ \| )?(kdump [a-z][^|>#;]*)")
_PLACEHOLDERS = re.compile(r"…|\.\.\.|\b[A-Z]{2,}(?:_[A-Z]+)*\b")


class Line(NamedTuple):
    """A command line, and where it is."""

    place: str
    words: tuple[str, ...]


def lines_of(text: str, place: str) -> Iterator[Line]:
    """The command lines in code blocks and in examples of a text; continued ones are joined.

    In a session (`console`) they have a `$`, and what stands without one is output.
    """
    text = text.replace("\\\n", " ")
    in_block = is_session = False
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("```"):
            in_block, is_session = not in_block, line == "```console"
            continue
        is_example = (in_block and not is_session) or line.startswith("    ") or line.startswith("$ ")
        found = _LINE.match(line) if is_example else None
        if not found:
            continue
        try:
            words = shlex.split(found[1].split("   ")[0])
        except ValueError:
            continue
        yield Line(f"{place}:{number}", tuple(words[1:]))


def documented() -> list[Line]:
    found = [line for page in PAGES for line in lines_of(page.read_text(encoding="utf-8"), page.name)]
    root = click.Context(cli, info_name="kdump")
    for name in COMMANDS:
        command = cli.get_command(root, name)
        assert command is not None
        found += lines_of(re.sub(r"^  ", "    ", command.help or "", flags=re.MULTILINE), f"{name} --help")
    return found


LINES = documented()


def test_there_are_command_lines() -> None:
    assert len(LINES) > 180
    assert {line.words[0] for line in LINES} >= set(COMMANDS) - {"completion", "help", "quorum", "serve", "schemas"}


@pytest.mark.parametrize("line", LINES, ids=lambda line: line.place)
def test_a_command_line_is_understood(line: Line, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its command exists, and so do its options; files that it names need not."""
    name, *words = line.words
    if name not in COMMANDS:
        assert "/" in name or _PLACEHOLDERS.search(name), f"{line.place}: unknown command {name}"
        return
    root = click.Context(cli, info_name="kdump", **cli.context_settings)
    command = cli.get_command(root, name)
    assert command is not None
    while isinstance(command, click.Group) and words:
        inner = command.get_command(root, words[0])
        if inner is None:
            break
        command, words = inner, words[1:]
    known = {option for param in command.params for option in (*param.opts, *param.secondary_opts)} | {"--help", "-h"}
    given = [word.partition("=")[0] for word in words if re.match(r"--?[a-z]", word)]
    flags = [word for word in given if word not in known and not re.fullmatch(r"-[a-zA-Z]\S*", word)]
    assert flags == [], f"{line.place}: kdump {name} has no {', '.join(flags)}"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("home")
    assert kdump(folder, "fixture", "build", SPECS / "four.yaml", "data").code == 0
    (folder / "server.properties").write_text(f"log.dirs={folder}/data\n")
    (folder / "server.log").write_text("[2026-11-22 10:00:00,001] INFO started (kafka.server.KafkaServer)\n")
    return folder


def _here(word: str, home: Path) -> str:
    word = re.sub(r"^/(?:data|disk\d|var/lib/kafka|backup|rescue)(?:/kafka|/data)?(?=/|$)", f"{home}/data", word)
    word = word.replace("/etc/kafka/", f"{home}/").replace("/var/log/kafka/", f"{home}/")
    return word.replace("orders-17", "orders-7")


@pytest.mark.parametrize(
    "line", [line for line in LINES if line.place.startswith(USERS_PAGES)], ids=lambda line: line.place
)
def test_a_command_line_for_users_runs(line: Line, home: Path) -> None:
    said = kdump(home, *(_here(word, home) for word in line.words))
    assert said.code in (0, 1) or (said.code == 3 and line.words[0] == "groups"), said.err

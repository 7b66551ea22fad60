"""Every command line in the README, the docs, the man pages and the help is one that kdump understands.

Those that begin with `kdump` are parsed with the command's own options: a name that has changed fails here. Those of
which NOT_RUN says nothing are also run, in directories that stand in for those that they name.
"""

from __future__ import annotations

import gzip
import inspect
import os
import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import click
import pytest
import zstandard

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
    text = re.sub(r" *\\\n *", " ", text)
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
        text = inspect.cleandoc(command.help or "")  # only examples are indented then
        found += lines_of(re.sub(r"^  ", "    ", text, flags=re.MULTILINE), f"{name} --help")
    return found


LINES = documented()


def test_there_are_command_lines() -> None:
    assert len(LINES) > 180
    assert {line.words[0] for line in LINES} >= set(COMMANDS) - {"completion", "help", "quorum", "serve", "schemas"}


def test_every_command_line_is_understood() -> None:
    for line in LINES:
        check_options(line)


def check_options(line: Line) -> None:
    """The line's command exists, and so do its options; files that it names need not."""
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


NOT_RUN = {
    "--follow": "waits for records that nobody writes here",
    "serve": "serves until it is stopped; tests/serve starts it",
    "--engine": "needs a Spark cluster; tests/spark has one",
    "s3://": "needs an object store; tests/export has one",
    "--leader": "takes what a certain broker lost; tests/commands/test_export.py has one",
    "set-voters": "needs a controller quorum; tests/commands has one",
    "quorum": "needs a controller quorum; tests/commands has one",
    "resurrect": "needs a dead cluster with its metadata; tests/cluster has some",
}
"""Commands and beginnings of options of lines that are not run, and why; each such line is parsed all the same."""
READING = {
    "doctor", "dump", "explain", "groups", "help", "lookup", "ls", "metadata", "schemas", "startup", "stats", "txns",
    "verify",
}  # fmt: skip
"""Commands that leave the directories that they read as they are, so that their lines may share them."""
ROOTS = re.compile(
    r"^(?:/(?:var/lib/kafka/data|data/kafka-logs|backup/kafka-logs|shared/kafka|copy/of/data|disk1/kafka|disk1|data)"
    r"|data)(?=/|$)"
)
BROKER = re.compile(r"^(?:/|data/)?(b[123?])(?:/kafka|/data)?(?=/|$)")
PARTITION = re.compile(r"^(?=(?:orders-|__)[\w*-]*\d\*?(?:/|$))|^(?=orders-\*/)")


def reason_not_to_run(line: Line) -> str | None:
    """Why a command line is not run; None if it is."""
    return next((why for word, why in NOT_RUN.items() if _has(line, word)), None)


def _has(line: Line, word: str) -> bool:
    """Whether a line has an option or a place that begins so, or is of that command."""
    if word[0] == "-" or word.endswith("/"):
        return any(each.startswith(word) for each in line.words)
    return word in line.words[:2]


@pytest.fixture(scope="module")
def made_up(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the documentation speaks of: log directories, settings, logs of other names, rows to append."""
    folder = tmp_path_factory.mktemp("made_up")
    assert kdump(folder, "fixture", "build", SPECS / "documented.yaml", "data").code == 0
    assert kdump(folder, "append", "data/_schemas-0", "--input", SPECS / "registry.jsonl").code == 0
    bit = "flip-payload-bit:topic=orders,partition={},segment=-1,batch=0"
    faults = (word for number in (3, 17) for word in ("--fault", bit.format(number)))
    assert kdump(folder, "fixture", "build", SPECS / "documented.yaml", "damaged", *faults).code == 0
    shutil.copytree(folder / "damaged", folder / "changed")
    salvage = ("--strategy", "salvage", "--only-copy", "--apply")
    changed = kdump(folder, "repair", "changed/orders-3", "changed/orders-17", *salvage)
    (folder / "change").write_text(re.findall(r"--change (\S+)", changed.out)[0])
    assert kdump(folder, "fixture", "build", SPECS / "shop.yaml", "disk2").code == 0
    assert kdump(folder, "fixture", "build", SPECS / "cluster.yaml", "brokers").code == 0
    shutil.copy(SPECS / "documented.yaml", folder / "orders.yaml")
    for name in ("server.properties", "bad.properties"):
        (folder / name).write_text(f"log.dirs={folder}/data\n")
    for name in ("users.properties", "orders.properties"):
        (folder / name).write_text("cleanup.policy=compact\n" if "users" in name else "retention.ms=3600000\n")
    (folder / "server.log").write_text("[2026-11-22 10:00:00,001] INFO started (kafka.server.KafkaServer)\n")
    log = (folder / "data/orders-0/00000000000000000235.log").read_bytes()
    (folder / "saved.log.gz").write_bytes(gzip.compress(log))
    (folder / "saved.log.zst").write_bytes(zstandard.compress(log))
    (folder / "rows.csv").write_text("key,value\na,1\nb,2\n")
    (folder / "requests.jsonl").write_text('{"offset": 3}\n')
    return folder


_METADATA = ROOT / "fixtures/corpus/f-cluster-metadata/__cluster_metadata-0"
SNAPSHOT = str(_METADATA / "00000000000000000212-0000000005.checkpoint")
STAND_INS = {
    "dump": {"killed/clicks-0": "changed/orders-3"},
    "txns": {"killed": "damaged"},
    "--at": {"839": "801", "1234567": "6"},
    "--create": {"new/test-0": "data/made-0"},
    "--log": {"specs/server.log": "server.log"},
    "--config": {"specs/bad.properties": "bad.properties", "specs/server.properties": "server.properties"},
    "--group": {"billing-*": "group-*"},
    "--id": {"15": "2"},
    "build": {"fixtures/specs/orders.yaml": "orders.yaml"},
    "orders.yaml": {"data": "fresh"},
    "fixtures/specs/orders.yaml": {"data": "fresh"},
    "metadata": {"00000000000001234567-0000000042.checkpoint": SNAPSHOT},
}
"""After this word, what stands for that one in a directory so small."""


def _words(line: Line, home: Path) -> Iterator[str]:
    """The words of a command line, with its paths where such things are in `home`."""
    is_of_copies = "--from" in line.words or line.words[0] == "metadata"
    is_of_changes = not {"--kept", "--change"}.isdisjoint(line.words)
    data = "brokers/b1" if is_of_copies else "damaged" if line.words[0] == "repair" else "data"
    data = "changed" if is_of_changes else data
    before = ""
    for word in line.words:
        if word not in ("<", "lines.txt"):
            stand_in = STAND_INS.get(before, {}).get(word)
            stand_in = (home / "change").read_text() if before == "--change" else stand_in
            placed = stand_in or _placed(word, home, data)
            yield re.sub(r"/orders-\d+$", "/orders-0", placed) if is_of_copies else placed
        before = word


def _placed(word: str, home: Path, data: str) -> str:
    """A word with the path that stands for it, if it is a path."""
    before, sign, rest = next((parts for sign in ":=" if (parts := word.partition(sign))[1]), ("", "", ""))
    if (sign == ":" and before == "prom") or (sign == "=" and rest.endswith(".properties")):
        return f"{before}{sign}{_placed(rest, home, data)}"
    if found := BROKER.match(word):
        return f"{home}/brokers/{found[1]}" + re.sub(r"^/orders-\d+", "/orders-0", word[found.end() :])
    if ROOTS.match(word):
        return ROOTS.sub(f"{home}/{data}", word)
    if word.startswith("/disk2"):
        return f"{home}/disk2"
    if PARTITION.match(word):
        return f"{home}/data/{word}"
    if word.startswith(("/etc/kafka/", "/var/log/kafka/")):
        return f"{home}/{word.rpartition('/')[2]}"
    if word == "/backup/_schemas-0":
        return f"{home}/data/_schemas-0"
    return f"{home}/{word.strip('/').replace('/', '-')}" if word.startswith("/") else word


@pytest.mark.parametrize(
    "line", [line for line in LINES if reason_not_to_run(line) is None], ids=lambda line: line.place
)
def test_a_command_line_runs(line: Line, made_up: Path, tmp_path: Path) -> None:
    home = made_up
    if line.words[0] not in READING:
        home = tmp_path / "home"
        shutil.copytree(made_up, home, copy_function=os.link)
    words = list(_words(line, home))
    if "--apply-plan" in words:  # the plan of the line before it
        assert kdump(home, *(word.replace("--apply-plan", "--plan-out") for word in words)).code == 1
    said = kdump(home, *words, stdin="a:1\nb:2\n")
    assert said.code in (0, 1), said.err
    assert "an error in kdump itself" not in said.err


def test_each_reason_not_to_run_a_line_is_needed() -> None:
    assert [word for word in NOT_RUN if not any(_has(line, word) for line in LINES)] == []

"""No two commands contradict each other: each rule of rules.py, about each directory of directories.py."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.agreement.answers import Answers
from tests.agreement.directories import EVERYTHING, METADATA, SOUND, Maker, build, names
from tests.agreement.known import KNOWN
from tests.agreement.rules import RULES
from tests.agreement.running import kdump
from tests.sampling import sampled

NAMES = names()
ASKED = {"verify", "startup", "ls", "doctor", "repair", "lookup", "retain", "dump", "stats", "txns", "compact"}
"""The commands that the rules ask about every directory, whatever is in it."""
REASONS = {(known.rule, directory): known.why for known in KNOWN for directory in known.directories}


class Asked:
    """What is said about the directories that were last asked for: the tests of a name follow each other."""

    def __init__(self, maker: Maker) -> None:
        self._maker = maker
        self._name = ""
        self._answers: list[Answers] = []

    def about(self, name: str) -> list[Answers]:
        if name != self._name:
            self._answers = [Answers(directory) for directory in self._maker.make(name)]
            self._name = name
        return self._answers


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asked]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(time, "sleep", lambda _: None)  # nothing grows here that a command would have to watch
        yield Asked(Maker(tmp_path_factory.mktemp("agreement")))


@pytest.mark.parametrize("name", sampled(NAMES, 30, always=(SOUND,)))
def test_commands_agree(name: str, asked: Asked) -> None:
    """Every rule about a directory; what is known to break one has to break it."""
    about = asked.about(name)
    broken = {rule: [each for answers in about for each in rule(answers)] for rule in RULES}
    known = [rule for rule in RULES if (rule.__name__, name) in REASONS]
    said = [f"{rule.__name__}: {each}" for rule in RULES if rule not in known for each in broken[rule]]
    mended = [rule.__name__ for rule in known if not broken[rule]]
    said += [f"{rule}: mended, so known.py need not have: {REASONS[rule, name]}" for rule in mended]
    assert not said, "\n".join(said)
    assert {command for answers in about for command in ASKED - answers.asked} == set()


def test_a_log_directory_without_partitions_is_no_partition(tmp_path: Path) -> None:
    """Its name says nothing, where it has the meta.properties of a log directory."""
    build(EVERYTHING, tmp_path / "data")
    log_dir = tmp_path / "data" / "disk-2"
    shutil.rmtree(log_dir / METADATA)
    (row,) = kdump(log_dir.parent, "ls", "--format", "jsonl", log_dir.name).rows
    assert row["type"] == "logDirectory"


def test_what_is_known_is_about_rules_and_directories_that_exist() -> None:
    assert {known.rule for known in KNOWN} <= {rule.__name__ for rule in RULES}
    assert {directory for known in KNOWN for directory in known.directories} <= set(NAMES)
    assert len(REASONS) == sum(len(known.directories) for known in KNOWN)
    assert len(set(RULES)) == len(RULES)

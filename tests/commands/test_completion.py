"""What a shell offers after Tab: by the environment that the scripts use, and in the shells that are here."""

from __future__ import annotations

import os
import pty
import re
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.agreement.running import kdump

SPEC = """
topics:
- {name: orders, partitions: 12, steps: [append: {records: 1}]}
- {name: clicks, steps: [append: {records: 1}]}
"""
CASES = [
    ("kdump ver", {"verify"}),
    ("kdump verify --form", {"--format"}),
    ("kdump verify --format j", {"json", "jsonl", "junit"}),
    ("kdump explain KD-LOG-C", {"KD-LOG-CRC"}),
    ("kdump verify data --topic or", {"orders"}),
    ("kdump repair data --strategy s", {"safe", "salvage"}),
    ("kdump fixture build a b --fault flip-p", {"flip-payload-bit"}),
    ("kdump completion f", {"fish"}),
]
KDUMP = Path(sys.executable).parent / "kdump"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("completion")
    (folder / "spec.yaml").write_text(SPEC)
    assert kdump(folder, "fixture", "build", "spec.yaml", "data").code == 0
    return folder


def offered(folder: Path, line: str) -> list[tuple[str, str]]:
    """What the scripts get for a line: kinds and words."""
    words = line.split(" ")
    environment = {"COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1), "_KDUMP_COMPLETE": "bash_complete"}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment.items():
            patch.setenv(name, value)
        said = kdump(folder)
    assert said.code == 0
    return [(kind, word) for kind, _, word in (each.partition(",") for each in said.out.splitlines())]


@pytest.mark.parametrize(("line", "wanted"), CASES)
def test_words(folder: Path, line: str, wanted: set[str]) -> None:
    assert {word for kind, word in offered(folder, line) if kind == "plain"} == wanted


@pytest.mark.parametrize("command", ["verify ", "lookup ", "repair ", "", "append ", "fixture build ", "replicas x "])
def test_paths_are_the_shells_business(folder: Path, command: str) -> None:
    assert offered(folder, f"kdump {command}da") == [("file", "da")]


def typed(shell: list[str], folder: Path, setup: str, line: str) -> str:
    """What a terminal shows after a line and two Tabs in a shell."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(folder)
        os.environ |= {"TERM": "xterm", "PATH": f"{KDUMP.parent}{os.pathsep}{os.environ['PATH']}", "HOME": str(folder)}
        os.execvp(shell[0], shell)
    shown = b""

    def wait_for(text: str) -> None:
        nonlocal shown
        end = time.monotonic() + 60  # else a shell that offers nothing would be waited for without end
        while text not in plain(shown) and time.monotonic() < end:
            if select.select([terminal], [], [], 0.2)[0]:
                shown += os.read(terminal, 1 << 16)

    os.write(terminal, f"{setup}; echo rea''dy\n".encode())
    wait_for("ready")
    shown = b""
    os.write(terminal, f"{line}\t\t".encode())
    wait_for("orders-11")
    os.close(terminal)
    os.waitpid(pid, 0)
    return plain(shown)


def plain(shown: bytes) -> str:
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]|\x1b[=>]", "", shown.decode("utf-8", "replace"))


SHELLS = {
    "bash": (["bash", "--norc", "-i"], "source script"),
    "zsh": (["zsh", "-f", "-i"], "autoload -Uz compinit; compinit -u; source script"),
}


@pytest.mark.parametrize("shell", [name for name in SHELLS if shutil.which(name)])
def test_a_terminal(folder: Path, shell: str) -> None:
    """A PATH is completed by the shell itself: it lists the partitions that may be meant."""
    (folder / "script").write_text(kdump(folder, "completion", shell).out)
    command, setup = SHELLS[shell]
    shown = typed(command, folder, setup, "kdump verify data/orders-1")
    assert {"orders-1", "orders-10", "orders-11"} <= set(re.findall(r"orders-1[01]?(?=[/\s])", shown))


@pytest.mark.skipif(shutil.which("fish") is None, reason="needs fish; the other shells are driven in a terminal")
@pytest.mark.parametrize(("line", "wanted"), [*CASES, ("kdump verify data/orders-11", {"data/orders-11/"})])
def test_fish(folder: Path, line: str, wanted: set[str]) -> None:
    (folder / "script").write_text(kdump(folder, "completion", "fish").out)
    environment = os.environ | {"PATH": f"{KDUMP.parent}{os.pathsep}{os.environ['PATH']}", "HOME": str(folder)}
    command = ["fish", "-c", f"source script; complete -C '{line}'"]
    done = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, check=True)
    assert {each.partition("\t")[0] for each in done.stdout.splitlines()} == wanted

"""What all tests share: hypothesis without deadlines, and the way to Kafka's own log directories where they are."""

from __future__ import annotations

import importlib.util
import os
import resource
import signal
import time
from collections.abc import Iterator, Sequence
from io import FileIO
from pathlib import Path
from typing import Any

import hypothesis
import pytest

from kdump.check import live
from kdump.commands.shell.rows import Envelope
from kdump.commands.shell.screen import begin_screen
from kdump.disk import locks
from kdump.kernels import active
from kdump.storage.live import tally
from kdump.storage.parallel import processors
from tests.repair.damaged import build

ROOT = Path(__file__).resolve().parent.parent
SHARED = ROOT.parent / "shared"

# A machine under load is no fault of the code's. `./dev slow` has the profile `many`.
for _name, _examples in {"few": 20, "many": 150}.items():
    hypothesis.settings.register_profile(
        _name, max_examples=_examples, deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
    )
hypothesis.settings.load_profile("few")

# Shells start what runs in the background with Ctrl-C ignored, and so would be what the tests start and interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)


# Lines are as wide as in a pipe, wherever the tests run.
os.environ.pop("COLUMNS", None)

# The tests do not go on behind whatever a test holds a lock for.
os.environ["KDUMP_PRIORITY"] = "normal"


def _fsync(descriptor: int | FileIO) -> None:
    """Raise what fsync does for a file that is not open, and wait for no disk."""
    os.fstat(descriptor if isinstance(descriptor, int) else descriptor.fileno())


@pytest.fixture(scope="session", autouse=True)
def _no_waiting() -> Iterator[None]:
    """What tests write need not outlive this machine, and what they read does not grow.

    What is synced, and when, is asserted from the calls.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", _fsync)
        patch.setattr(locks, "GROWTH_WATCH_SECONDS", 0.01)
        patch.setattr(live, "PAUSE", 0.01)
        yield


@pytest.fixture(autouse=True)
def _screen() -> None:
    """No test prints as the options of the one before it asked, nor the end of that one's rows or what it met."""
    begin_screen()
    tally.clear()
    Envelope.current = None


@pytest.fixture(scope="session")
def corpus() -> Path:
    """The unpacked corpus: log directories written by Kafka (`corpus/`) and what its tools say of them. Read only."""
    program = SHARED / "conformance" / "corpus.py"
    if not program.is_file():
        pytest.skip("the corpus is not beside the repository")
    spec = importlib.util.spec_from_file_location("conformance_corpus", program)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return Path(module.unpack())


@pytest.fixture(scope="session")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log directory of one sound partition, orders-0, to be copied."""
    log_dir = tmp_path_factory.mktemp("sound") / "logs"
    build(log_dir)
    return log_dir


# The end of a run says what it left out, and why it took longer than its work; `-ra` says what was skipped, and why.
_LEFT_OUT = pytest.StashKey[int]()
_BEGAN = time.monotonic()
_ELSEWHERE = {"not slow": "slow ones: ./dev slow", "slow": "others: ./dev test"}


def pytest_deselected(items: Sequence[pytest.Item]) -> None:
    """Count them: pytest-xdist's processes do not report them."""
    for item in items[:1]:
        item.config.stash[_LEFT_OUT] = item.config.stash.get(_LEFT_OUT, 0) + len(items)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Hand the count to the process that started this one, if there is one."""
    output = getattr(session.config, "workeroutput", None)
    if output is not None:
        output["left_out"] = session.config.stash.get(_LEFT_OUT, 0)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Each of the processes has collected all tests."""
    node.config.stash[_LEFT_OUT] = getattr(node, "workeroutput", {}).get("left_out", 0)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say what was left out, and what else took processor time."""
    count = config.stash.get(_LEFT_OUT, 0)
    if elsewhere := _ELSEWHERE.get(config.option.markexpr):
        terminalreporter.write_line(f"not run: {count:,} tests ({elsewhere}), and tests/kafka (./dev kafka)")
    if active != "native":
        terminalreporter.write_line("the portable kernels ran, which are slower than the compiled ones")
    own = sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    wall, number = time.monotonic() - _BEGAN, processors()
    text = f"{wall:.0f} s with {own:.0f} s of processor time on {number} processors"
    if wall * number > 2 * own and wall > 60:
        text += f": other processes had the rest, or tests waited (load {os.getloadavg()[0]:.1f})"
    terminalreporter.write_line(text)

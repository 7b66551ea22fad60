"""What all tests share: hypothesis without deadlines, and the way to Kafka's own log directories where they are."""

from __future__ import annotations

import importlib.util
import os
import signal
from collections.abc import Iterator
from io import FileIO
from pathlib import Path

import hypothesis
import pytest

from kdump.commands.shell.rows import Envelope
from kdump.commands.shell.screen import begin_screen
from kdump.disk import locks
from kdump.storage.live import tally
from kdump.verify import live
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
    """What tests write need not outlive this machine (what is synced, and when, is asserted from the calls); no file grows."""
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

"""What ends for want of memory is said by us alone, however often the command line is run in one process."""

from __future__ import annotations

import sys
import threading

import pytest

from kdump.commands import cli


def test_hooks_are_put_in_once(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", said.append)
    monkeypatch.setattr(threading, "excepthook", said.append)
    monkeypatch.setattr(sys, "argv", ["kdump", "--version"])
    for _ in range(3):
        with pytest.raises(SystemExit):
            cli.main()
    hooks = sys.unraisablehook, threading.excepthook
    with pytest.raises(SystemExit):
        cli.main()
    assert (sys.unraisablehook, threading.excepthook) == hooks

    class End:
        def __init__(self, error: BaseException) -> None:
            self.exc_value = error

    for hook in hooks:
        hook(End(MemoryError()))  # type: ignore[arg-type]
        assert said == []
        hook(End(ValueError()))  # type: ignore[arg-type]
        assert len(said) == 1
        said.clear()

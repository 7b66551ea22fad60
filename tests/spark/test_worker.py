"""What is done in Spark's Python workers, and nowhere else."""

from __future__ import annotations

import gc
import sys
from types import SimpleNamespace

import pytest

from kdump.spark.worker import settle


@pytest.mark.parametrize(("name", "times"), [("pyspark.daemon", 1), ("kdump.__main__", 0), (None, 0)])
def test_garbage_collection_is_spared_in_workers_once(
    name: str | None, times: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    frozen: list[int] = []
    monkeypatch.setattr(gc, "freeze", lambda: frozen.append(1))
    main = SimpleNamespace(__spec__=None if name is None else SimpleNamespace(name=name))
    monkeypatch.setitem(sys.modules, "__main__", main)
    settle.cache_clear()
    settle()
    settle()
    settle.cache_clear()
    assert len(frozen) == times

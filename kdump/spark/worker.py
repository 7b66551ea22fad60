"""Spark's Python workers: what a task costs them beside its work."""

from __future__ import annotations

import gc
import sys
from functools import cache

_DAEMON = "pyspark.daemon"


@cache
def settle() -> None:
    """Leave, once in a worker that Spark has forked, what is loaded by now out of garbage collection.

    The daemon has a worker collect all garbage behind every task. Looking through all of pyarrow, pandas and PySpark
    for it each time takes longer than reading tens of megabytes.
    """
    main = getattr(sys.modules.get("__main__"), "__spec__", None)
    if main is not None and main.name == _DAEMON:
        gc.freeze()

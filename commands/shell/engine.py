"""What commands with a Spark engine share: where the work is done."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

import click

from kdump.errors import KdumpError

from .options import all_of
from .progress import shows_progress

if TYPE_CHECKING:
    from kdump.spark.jobs import Cluster

LOCAL, _ = ENGINES = ("local", "spark")
PATIENCE = 2.0


def _settings(ctx: click.Context, param: click.Parameter, texts: tuple[str, ...]) -> dict[str, str]:
    found = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.startswith("spark."):
            raise click.BadParameter(f"{text!r}: expected NAME=VALUE, as in spark.executor.memory=4g", ctx, param)
        found[name] = value
    return found


engine_options = all_of(
    click.option("--engine", type=click.Choice(ENGINES), default=LOCAL, show_default=True,
        help="Do the work in this process, or on Spark, for more than one machine."),
    click.option("--master", metavar="URL", default="local[*]", show_default=True,
        help="With --engine spark: the master. Other machines must see all directories under the same paths."),
    click.option("--conf", multiple=True, metavar="NAME=VALUE", callback=_settings,
        help="A setting of Spark's, for driver and executors. May be repeated."),
)  # fmt: skip
"""The options --engine, --master and --conf, as `engine`, `master` and `conf`."""


def cluster_of(engine: str, master: str, conf: dict[str, str]) -> Cluster | None:
    """Return where Spark runs; None for the local engine. Raises KdumpError without Spark."""
    if engine == LOCAL:
        if conf:
            raise click.UsageError("--conf needs --engine spark.")
        return None
    import logging

    try:
        import pyspark  # noqa: F401

        from kdump.spark.jobs import Cluster
    except ImportError as error:
        raise KdumpError(f"--engine spark needs pyspark ({error}): pip install 'kafka-kdump[spark]'") from None
    logging.getLogger().addHandler(logging.NullHandler())  # else py4j prints stack traces of what is raised anyway
    return Cluster(master, conf, TaskBar())


class TaskBar:
    """Tells on a terminal how many tasks are done, once that has lasted a little."""

    def __init__(self) -> None:
        self._is_shown = shows_progress()
        self._since = time.monotonic() + PATIENCE

    def __call__(self, done: int, tasks: int) -> None:
        """Count so many of the tasks as done."""
        if self._is_shown and time.monotonic() > self._since:
            end = "\r\x1b[K" if done == tasks else ""
            print(f"\r\x1b[K{done} of {tasks} tasks{end}", end="", file=sys.stderr, flush=True)

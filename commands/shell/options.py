"""What the commands on internal topics share: PATHs to replicas, times, names chosen by pattern, JSON lines."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from fnmatch import fnmatchcase
from typing import Any

import click

from kdump.formats.printable import safe_path
from kdump.releases import NEWEST, KafkaRelease
from kdump.storage.directory import LogDirectory
from kdump.storage.partition import PartitionLog
from kdump.storage.replica import Replica, farthest, replicas

from .output import note
from .paths import KafkaFile, expand
from .release import ENVIRONMENT, asked_release
from .session import Troubles
from .values import time_ms

Option = Callable[[Callable[..., Any]], Callable[..., Any]]


def _time(ctx: click.Context, param: click.Parameter, text: str | None) -> int:
    if text is None:
        return time.time_ns() // 1_000_000
    try:
        return time_ms(text)
    except ValueError as error:
        raise click.BadParameter(str(error), ctx, param) from None


now_option: Option = click.option(
    "--now", metavar="TIME", callback=_time,
    help="Compute ages at this time (ISO 8601 or ms). [default: the clock]",
)  # fmt: skip


def _release(ctx: click.Context, param: click.Parameter, text: str | None) -> KafkaRelease | None:
    try:
        return asked_release(text)
    except ValueError as error:
        raise click.BadParameter(str(error), ctx, param) from None


kafka_option: Option = click.option(
    "--kafka", "kafka", metavar="RELEASE", callback=_release,
    help=f"Do as this release of Kafka does, such as {NEWEST.value}. By default {ENVIRONMENT}, else the release that"
    " wrote the log directory, by the brokers in its cluster metadata, else the newest.",
)  # fmt: skip


def replicas_at(paths: Iterable[str], troubles: Troubles) -> list[Replica]:
    """The partitions in the directories that PATHs name. Raises click.UsageError for a file."""
    places: list[PartitionLog | LogDirectory] = []
    for place in expand(paths):
        if isinstance(place, KafkaFile):
            raise click.UsageError(f"{safe_path(place.path)}: expected a partition directory or a log directory")
        places.append(place)
    return list(replicas(places, troubles))


def newest(found: Iterable[Replica], troubles: Troubles) -> list[Replica]:
    """One replica of each partition; notes name those that are not used."""

    def unused(replica: Replica, kept: Replica) -> None:
        note(f"{safe_path(replica.log.path)}: not used, {safe_path(kept.log.path)} is farther or as far")

    return farthest(found, troubles, unused)


def chooses(patterns: Iterable[str]) -> Callable[[str], bool]:
    """A test whether a name matches one of the patterns; all do where there is none."""
    wanted = tuple(patterns)
    return lambda name: not wanted or any(fnmatchcase(name, pattern) for pattern in wanted)

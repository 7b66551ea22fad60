"""`kdump groups`: what __consumer_offsets adds up to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import click

from kdump.errors import KdumpError
from kdump.formats import names
from kdump.formats.printable import safe
from kdump.operations.choice import chooses
from kdump.operations.groups import GroupsOf
from kdump.settings.defaults import OFFSETS_RETENTION_MS
from kdump.topics.groups import Group

from ..shell import exit_codes
from ..shell.choice import has_partition
from ..shell.options import now_option, topic_option
from ..shell.replicas import newest, replicas_at
from ..shell.rows import OutputFormat, format_option, output_for, printer_of
from ..shell.session import Diagnostics
from ..shell.usage import meant


@click.command("groups")
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option("--group", "patterns", multiple=True, metavar="GLOB", help="Groups whose name matches. May be repeated.")
@click.option("--retention-ms", type=click.IntRange(min=0), default=OFFSETS_RETENTION_MS, show_default=True,
    help="How long a broker keeps a commit, in ms (offsets.retention.minutes).")
@topic_option
@now_option
@format_option
def command(
    paths: tuple[str, ...],
    patterns: tuple[str, ...],
    topics: tuple[str, ...],
    retention_ms: int,
    now: int,
    format_: OutputFormat,
) -> int:
    """Show groups, their members and committed offsets, out of __consumer_offsets.

    PATHs are partition directories of __consumer_offsets, or log directories that have them. If they have
    __share_group_state, share groups show their start offsets. If they have the partitions that a group reads, kdump
    compares each commit with the log: lag, and whether it is below the log start offset or above the log end offset.

    The state is that of a group coordinator after loading: the last value of every key; commits of a transaction are
    pending until its marker. A commit is expired if a broker would remove it at its next check.

    Exits with 1 when data is damaged or a commit is above the log end offset.

    \b
    Examples:
      kdump groups /data/kafka-logs
      kdump groups /data/__consumer_offsets-* --group 'billing-*' --format jsonl
      kdump groups /backup/kafka-logs --now 2026-01-31T12:00:00Z
    """
    diagnostics = Diagnostics()
    found = replicas_at(paths, diagnostics)
    if not found and diagnostics.code:
        return diagnostics.code
    offsets = [replica for replica in found if replica.topic == names.CONSUMER_OFFSETS_TOPIC]
    groups = GroupsOf(found, diagnostics, newest(offsets, diagnostics))
    known: list[str] = []
    has_shown = False
    with output_for(format_) as out:
        printer = printer_of(__package__, format_, out.write, retention_ms, now)
        for group in _wanted(groups, patterns, topics, known):
            has_shown = True
            is_beyond = groups.is_beyond(group)
            if is_beyond:
                diagnostics.worsen(exit_codes.FINDINGS)
            printer.group(group, groups.ranges, is_beyond=is_beyond)
        printer.end(diagnostics.code)
    if patterns and not has_shown:
        raise KdumpError(f"no group matches {', '.join(map(safe, patterns))}{meant(patterns[0], known)}")
    return diagnostics.code


def _wanted(
    groups: Iterable[Group], patterns: Sequence[str], topics: Sequence[str], known: list[str]
) -> Iterator[Group]:
    """Yield the groups that are chosen, with the partitions that are; the names of all become `known`."""
    is_chosen, has_topic = chooses(patterns), chooses(topics)
    for group in groups:
        known.append(group.name)
        if not is_chosen(group.name):
            continue
        if topics or not has_partition(None):
            group = group.of_partitions(lambda topic, number: has_topic(topic) and has_partition(number))
            if not group.has_offsets:
                continue
        yield group

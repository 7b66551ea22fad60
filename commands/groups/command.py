"""`kdump groups`: what __consumer_offsets adds up to."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

import click

from kdump.errors import KdumpError
from kdump.formats import names
from kdump.formats.uuids import format_uuid
from kdump.storage.replica import Replica, held_replicas
from kdump.topics.group_log import GroupLog
from kdump.topics.groups import RETENTION_MS, Group, groups_of
from kdump.topics.lag import BEYOND_END, Ranges
from kdump.topics.metadata_log import state_of_directory
from kdump.topics.share_state import ShareStart, share_starts

from ..shell import exit_codes
from ..shell.options import chooses, format_option, newest, now_option, output_for, replicas_at
from ..shell.output import safe
from ..shell.session import Troubles
from .text import Printer, json_lines, text_lines


@click.command("groups")
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option("--group", "patterns", multiple=True, metavar="GLOB", help="Groups whose name matches. May be repeated.")
@click.option("--retention-ms", type=click.IntRange(min=0), default=RETENTION_MS, show_default=True,
    help="How long a broker keeps a commit, in ms (offsets.retention.minutes).")
@now_option
@format_option
def command(paths: tuple[str, ...], patterns: tuple[str, ...], retention_ms: int, now: int, format_: str) -> int:
    """Show groups, their members and committed offsets, out of __consumer_offsets.

    PATHs are partition directories of __consumer_offsets, or log directories with such in them. Share groups begin
    where __share_group_state says, if that is among them. Where the directories
    of the partitions that a group reads are among them, or in those log directories, each commit is compared with their
    offsets: lag, and whether it is below the log start or above the log end offset.

    The state is what a group coordinator has after loading: the last value of every key, with commits of transactions
    pending until their marker. A commit is called expired when a broker would remove it at its next look.

    Exits with 1 when data is damaged or a commit is above the log end offset.

    \b
    Examples:
      kdump groups /data/kafka-logs
      kdump groups /data/__consumer_offsets-* --group 'billing-*' --format jsonl
      kdump groups /backup/kafka-logs --now 2026-01-31T12:00:00Z
    """
    troubles = Troubles()
    found = replicas_at(paths, troubles)
    offsets = [replica for replica in found if replica.topic == names.CONSUMER_OFFSETS_TOPIC]
    if not offsets:
        raise KdumpError("there is no partition of __consumer_offsets in these PATHs")
    ranges = Ranges(found, troubles)
    topic_names = _topic_names(found)
    starts = _share_starts(found, topic_names, troubles)
    chosen = chooses(patterns)
    lines: Printer = json_lines if format_ == "jsonl" else text_lines
    shown = dead = dead_bytes = 0
    with output_for(format_) as out:
        for replica in held_replicas(newest(offsets, troubles), troubles):
            for group in groups_of(GroupLog(replica, troubles), topic_names):
                if not chosen(group.name):
                    continue
                shown += 1
                group.share_starts = starts.get(group.name, [])
                if _is_beyond(group, ranges):
                    troubles.worsen(exit_codes.FINDINGS)
                if format_ == "text" and group.is_dead:
                    dead += 1
                    dead_bytes += group.superseded_bytes
                    continue
                for line in lines(group, ranges, retention_ms, now):
                    out.write(line)
        if format_ == "text" and shown:
            from .text import summary

            out.write(summary(shown - dead, dead, dead_bytes))
    if patterns and not shown:
        raise KdumpError(f"no group matches {', '.join(map(safe, patterns))}")
    return troubles.code


def _is_beyond(group: Group, ranges: Ranges) -> bool:
    for commit in group.commits:
        found = ranges.of(commit.topic, commit.partition, commit.offset)
        if found and found.place(commit) == BEYOND_END:
            return True
    return False


def _share_starts(
    found: Iterable[Replica], topic_names: dict[bytes, str], troubles: Troubles
) -> dict[str, list[tuple[str, ShareStart]]]:
    """The share partitions at hand by their group, each with its topic's name, or its id where no name is at hand."""
    starts: dict[str, list[tuple[str, ShareStart]]] = {}
    for replica in newest((replica for replica in found if replica.topic == names.SHARE_GROUP_STATE_TOPIC), troubles):
        for start in share_starts(replica, troubles):
            topic = topic_names.get(start.topic_id) or format_uuid(start.topic_id)
            starts.setdefault(start.group, []).append((topic, start))
    for some in starts.values():
        some.sort(key=lambda entry: (entry[0], entry[1].partition))
    return starts


def _topic_names(found: Iterable[Replica]) -> dict[bytes, str]:
    """Topics by id, as their partitions and the cluster's metadata have them."""
    known: dict[bytes, str] = {}
    for replica in found:
        # a name for an id is a kindness, no more: what is wrong here is not what was asked for
        with suppress(KdumpError, OSError):
            if replica.topic == names.CLUSTER_METADATA_TOPIC:
                topics = state_of_directory(replica.log, lambda trouble: None).image.topics
                known |= {topic.topic_id: topic.name for topic in topics.values()}
            elif replica.log.metadata is not None:
                known[replica.log.metadata.topic_id] = replica.topic
    return known

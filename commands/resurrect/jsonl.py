"""A resurrection as JSON lines; docs/resurrect.md has the fields."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from kdump.cluster.choice import Chosen
from kdump.cluster.files import NewDirectory, copies_of
from kdump.cluster.properties import server_properties
from kdump.cluster.resurrection import Resurrection
from kdump.cluster.wanted import ControllerAt
from kdump.formats.uuids import format_uuid
from kdump.operations.cluster import Resurrected

from ..shell.rows import RowPrinter, fields_of


class JsonLines(RowPrinter):
    """Prints a resurrection as JSON lines."""

    def __init__(self, write: Callable[[str], None], controller: ControllerAt, _paths: Sequence[str]) -> None:
        """`write` takes whole lines."""
        super().__init__(write)
        self._controller = controller

    def plan(self, found: Resurrection, directories: Sequence[NewDirectory]) -> None:
        """Write a line for the cluster, each node, partition, note and refusal."""
        metadata = found.metadata
        cluster = {
            "clusterId": found.cluster_id,
            "release": found.release.value,
            "controller": found.controller,
            "quorum": "static" if found.voter is None else "dynamic",
            "metadata": metadata.path if metadata else None,
            "metadataEpoch": metadata.rank[0] if metadata else None,
            "metadataEndOffset": metadata.rank[1] if metadata else None,
            "snapshot": found.snapshot_name,
        }
        self.row("cluster", cluster)
        for node in found.nodes:
            own = [each for each in directories if each.node.id == node.id]
            row = {"nodeId": node.id, "directories": [_directory(found, each) for each in own]}
            row["properties"] = dict(server_properties(found, node.id, directories, self._controller))
            self.row("node", row)
        for chosen in found.partitions:
            self.row("partition", _partition(found, chosen))
        for note in found.notes:
            self.row("note", fields_of(note, "kind subject message=text"))
        for refusal in found.refusals:
            self.row("refusal", fields_of(refusal, "subject reason do=way_out"))

    def end(self, found: Resurrection, done: Resurrected | None, reason: str) -> None:
        """Write the sum of it."""
        row: dict[str, Any] = {"isApplied": done is not None, "nothingChanged": reason or None}
        row["partitions"] = len(found.partitions)
        row["change"] = done.changes[0].id if done and done.changes else None
        self.row("summary", row)


def _directory(found: Resurrection, each: NewDirectory) -> dict[str, Any]:
    copies = copies_of(found, each.node, each.disk)
    return {"path": each.path, "partitions": len(copies), "bytes": sum(copy.size for copy in copies)}


def _partition(found: Resurrection, chosen: Chosen) -> dict[str, Any]:
    topic = found.image.topics.get(chosen.topic_id)
    record = topic.partitions.get(chosen.partition) if topic else None
    best = chosen.best
    copies = [
        {
            **fields_of(copy, "path validEndOffset=valid_end last_epoch"),
            "isDamaged": copy.damage is not None,
            "isLeader": copy is best,
            "isSetAside": copy in chosen.extra,
        }
        for copy in chosen.copies
    ]
    return {
        **fields_of(chosen, "topic partition"),
        **fields_of(best, "path"),
        "topicId": format_uuid(chosen.topic_id),
        **fields_of(best, "log_start_offset logEndOffset=valid_end"),
        "replicas": record["replicas"] if record else None,
        "leader": record["isr"][0] if record else None,
        "leaderEpoch": record["leaderEpoch"] if record else None,
        "lostRecords": chosen.lost_records,
        "copies": copies,
    }

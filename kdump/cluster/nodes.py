"""Which log directories become which node: old ids kept, renamed, or spread over another number of nodes."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kdump.cluster.disks import Disk
from kdump.cluster.wanted import Refusal, Wanted


@dataclass(frozen=True, slots=True)
class Node:
    """A node of the new cluster: its id and its log directories, with the ids that these get."""

    id: int
    disks: tuple[Disk, ...]
    directory_ids: Mapping[str, bytes]

    def directory_id(self, disk: Disk) -> bytes:
        """Return the new id of one of its log directories."""
        return self.directory_ids[disk.path]


def assign(disks: Sequence[Disk], wanted: Wanted) -> tuple[dict[int, list[Disk]], list[Refusal]]:
    """Say which log directories each new node has, and what stands in the way."""
    refusals = list(_unknown_keys(disks, wanted))
    ids: dict[str, int] = {}
    for disk in disks:
        found = _mapped(disk, wanted)
        if found is None:
            option = f"--map {disk.path}=NODE"
            refusals.append(Refusal(disk.path, "meta.properties does not say which node it is of", f"say so: {option}"))
        else:
            ids[disk.path] = found
    if wanted.nodes is not None and not refusals:
        ids = _spread(ids, wanted.nodes)
        if len(set(ids.values())) < wanted.nodes:
            reason = f"every node needs a log directory of its own, and there are {len(disks)}"
            way_out = f"ask for at most {len(disks)}; brokers can join later"
            refusals.append(Refusal(f"--nodes {wanted.nodes}", reason, way_out))
    nodes: dict[int, list[Disk]] = {}
    for disk in disks:
        if disk.path in ids:
            nodes.setdefault(ids[disk.path], []).append(disk)
    return dict(sorted(nodes.items())), refusals


def _mapped(disk: Disk, wanted: Wanted) -> int | None:
    for key, node in wanted.map.items():
        if os.path.realpath(key) == os.path.realpath(disk.path):
            return node
    return disk.node_id if disk.node_id is None else wanted.map.get(str(disk.node_id), disk.node_id)


def _unknown_keys(disks: Sequence[Disk], wanted: Wanted) -> list[Refusal]:
    known = {str(disk.node_id) for disk in disks} | {os.path.realpath(disk.path) for disk in disks}
    reason = "neither an old node id nor a log directory that was given"
    way_out = "give the id in its meta.properties, or the PATH as it was given"
    return [Refusal(f"--map {key}", reason, way_out) for key in wanted.map if not {key, os.path.realpath(key)} & known]


def _spread(ids: Mapping[str, int], number: int) -> dict[str, int]:
    """Deal the log directories of each old node out to `number` nodes; those of one node stay together if they can."""
    old = sorted(set(ids.values()))
    if number == len(old):
        return dict(ids)
    if number < len(old):
        kept = old[:number]
        return {path: kept[old.index(node) % number] for path, node in ids.items()}
    fresh = (node for node in range(max(old) + 1, max(old) + 1 + number))
    dealt = dict(ids)
    while len(set(dealt.values())) < number:
        sizes = {node: [path for path in dealt if dealt[path] == node] for node in dealt.values()}
        largest = max(sizes, key=lambda node: (len(sizes[node]), -node))
        if len(sizes[largest]) < 2:
            break
        new = next(fresh)
        for path in sizes[largest][(len(sizes[largest]) + 1) // 2 :]:
            dealt[path] = new
    return dealt

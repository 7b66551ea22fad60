"""The lines of server.properties that the nodes of the new cluster need."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence

from kdump.cluster.files import NewDirectory
from kdump.cluster.old_properties import kept_settings
from kdump.cluster.resurrection import Resurrection, metadata_disk
from kdump.cluster.wanted import ControllerAt
from kdump.settings import node
from kdump.settings.sources import HASHED_TOPICS
from kdump.settings.table import UNCLEAN_LEADER_ELECTION


def server_properties(
    found: Resurrection, node_id: int, directories: Sequence[NewDirectory], at: ControllerAt
) -> Iterator[tuple[str, str]]:
    """Yield the names and values for a node: what the new metadata and log directories ask for."""
    disks = found.node(node_id)
    own = [each for each in directories if each.node.id == node_id]
    is_controller = node_id == found.controller
    yield node.NODE_ID, str(node_id)
    yield node.ROLES, _roles(found, node_id) if is_controller else "broker"
    yield node.LOG_DIRECTORIES, ",".join(os.path.abspath(each.path) for each in own)
    if is_controller:
        home = next((each for each in own if each.disk == metadata_disk(disks)), own[0])
        yield node.METADATA_DIRECTORY, os.path.abspath(home.path)
    if found.voter is None:
        yield node.VOTERS, node.voters_text([(found.controller, at.host, at.port)])
    else:
        yield node.BOOTSTRAP_SERVERS, node.address_text(at.host, at.port)
    yield "controller.listener.names", at.listener
    yield UNCLEAN_LEADER_ELECTION.name, "false"
    yield "auto.create.topics.enable", "false"
    partitions = Counter(chosen.topic for chosen in found.partitions)
    counts = {each.name: str(partitions[topic]) for topic, each in HASHED_TOPICS.items() if topic in partitions}
    yield from counts.items()
    for name, value in _kept(found, node_id).items():
        if name not in counts:
            yield name, value


def _kept(found: Resurrection, node_id: int) -> dict[str, str]:
    """Return what a node continues with from the server.properties of the old nodes whose log directories it has."""
    old = {disk.node_id for disk in found.node(node_id).disks}
    return kept_settings([each for each in found.properties if each.node_id in old])


def _roles(found: Resurrection, node_id: int) -> str:
    """Return a node without any partition is a controller alone, as it was."""
    has_partitions = any(node_id in chosen.replicas for chosen in found.partitions)
    is_used = has_partitions or any(chosen.empty_on and chosen.empty_on.id == node_id for chosen in found.partitions)
    return "broker,controller" if is_used or len(found.nodes) == 1 else "controller"

"""The plan of a resurrection: from log directories of dead brokers to the metadata of a cluster that serves them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import cycle

from kdump.cluster.choice import Chosen, choose
from kdump.cluster.copies import Copy, partition_directories, read_copy
from kdump.cluster.disks import Disk, read_disks
from kdump.cluster.metadata_copies import MetadataCopy, newest, read_metadata_copies
from kdump.cluster.new_image import (
    created_with,
    empty_image,
    hold_retention,
    hold_unclean_election,
    leave_out_cordons,
    new_image,
    next_producer_id,
)
from kdump.cluster.nodes import Node, assign
from kdump.cluster.notes import expired_topics, notes_on_partitions, notes_on_state
from kdump.cluster.old_properties import (
    OldProperties,
    kept_settings,
    node_of,
    notes_on_properties,
    old_properties,
    partition_counts,
)
from kdump.cluster.refusals import (
    check_directories,
    check_metadata,
    check_partitions,
    check_release,
    check_segment_bytes,
    check_topics,
)
from kdump.cluster.topics_at_hand import AtHand, leave_out_unknown, refuse_unknown, topics_at_hand
from kdump.cluster.wanted import MetadataFrom, Note, NoteKind, Refusal, UnknownTopics, Wanted
from kdump.errors import Problem, Report
from kdump.formats import names
from kdump.formats.config_resources import TOPIC_RESOURCE
from kdump.formats.kraft_snapshot import Voter, snapshot
from kdump.releases import NEWEST, KafkaRelease
from kdump.topics.cluster_image import ClusterImage
from kdump.topics.image_records import records_of
from kdump.topics.metadata_log import release_of_level

FIRST_OFFSET = 1000
FIRST_EPOCH = 7
"""Where the new metadata begins unless the old went further: with an epoch above 0 no empty controller outvotes it."""


@dataclass(slots=True)
class Resurrection:
    """What would be done; nothing of it is to be applied where there are `refusals`.

    `metadata` is the copy that was taken, `snapshot_offset` and `snapshot_epoch` are those of the new snapshot.
    `properties` are the server.properties of old nodes.
    """

    disks: list[Disk]
    nodes: list[Node]
    release: KafkaRelease
    cluster_id: str
    controller: int
    metadata_copies: list[MetadataCopy]
    metadata: MetadataCopy | None
    image: ClusterImage = field(default_factory=ClusterImage)
    at_hand: AtHand = field(default_factory=AtHand)
    snapshot_offset: int = FIRST_OFFSET
    snapshot_epoch: int = FIRST_EPOCH
    voter: Voter | None = None
    properties: list[OldProperties] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)
    refusals: list[Refusal] = field(default_factory=list)

    @property
    def partitions(self) -> list[Chosen]:
        """The partitions of the new cluster."""
        return self.at_hand.partitions

    @property
    def snapshot_name(self) -> str:
        """The name of the new metadata's file."""
        return names.kraft_snapshot_name(self.snapshot_offset, self.snapshot_epoch)

    def node(self, node_id: int) -> Node:
        """Return the node of an id."""
        return next(node for node in self.nodes if node.id == node_id)

    def snapshot(self, now: int) -> bytes:
        """Return the new metadata's file, as of a time in ms. Raises SchemaError."""
        voters = None if self.voter is None else [self.voter]
        values = (each.encode() for each in records_of(self.image))
        return b"".join(snapshot(values, timestamp=now, epoch=self.snapshot_epoch, voters=voters))


def plan_resurrection(
    paths: Sequence[str],
    wanted: Wanted,
    *,
    new_id: Callable[[], bytes],
    new_cluster_id: str,
    now: int,
    keeps_directory_ids: bool,
    progress: Callable[[Copy], None] = lambda _copy: None,
) -> Resurrection:
    """Read all copies and make the plan; nothing is changed.

    `new_id` gives ids for log directories, `now` is the time in ms. With `keeps_directory_ids` log directories have the
    ids that they had where these are usable. Raises OSError, KdumpError for a path that is no log directory, or a
    server.properties that Kafka would not take.
    """
    problems: list[Problem] = []
    disks = read_disks(paths, problems.append)
    properties = old_properties(wanted.properties, disks, problems.append)
    disks = [disk if disk.node_id is not None else replace(disk, node_id=node_of(disk, properties)) for disk in disks]
    by_node, refusals = assign(disks, wanted)
    metadata_copies = read_metadata_copies(disks)
    metadata = _taken(metadata_copies, wanted)
    state = metadata.state if metadata else None
    release = wanted.release or (release_of_level(state.image.supported_metadata_version(None)) if state else NEWEST)
    nodes = [_node(node_id, own, new_id, keeps_directory_ids, disks) for node_id, own in by_node.items()]
    plan = Resurrection(
        disks, nodes, release, wanted.cluster_id or new_cluster_id, -1, metadata_copies, metadata,
        properties=properties, problems=problems, refusals=refusals,
    )  # fmt: skip
    plan.notes += notes_on_properties(properties, disks)
    plan.refusals += check_directories(disks)
    plan.refusals += check_metadata(metadata_copies, metadata, wanted)
    if not nodes:
        return plan
    plan.controller = _controller(plan, wanted)
    copies = list(_copies(disks, problems.append, progress))
    _join(plan, copies, wanted, now)
    return plan


def _taken(copies: Sequence[MetadataCopy], wanted: Wanted) -> MetadataCopy | None:
    if wanted.metadata == MetadataFrom.NOWHERE:
        return None
    if wanted.metadata is None:
        return newest(copy for copy in copies if copy.is_sound)
    chosen = {disk.path for disk in read_disks([wanted.metadata], lambda _problem: None)}
    return newest(copy for copy in copies if copy.disk.path in chosen)


def _node(
    node_id: int, own: Sequence[Disk], new_id: Callable[[], bytes], keeps_ids: bool, disks: Sequence[Disk]
) -> Node:
    """Return a node with the ids of its log directories; unless these are kept they become one, with a new id."""
    if not keeps_ids:
        return Node(node_id, tuple(own), dict.fromkeys((disk.path for disk in own), new_id()))
    known = [disk.directory_id for disk in disks]
    ids = {disk.path: disk.directory_id for disk in own if known.count(disk.directory_id) == 1}
    return Node(node_id, tuple(own), {disk.path: ids.get(disk.path) or new_id() for disk in own})


def _copies(disks: Sequence[Disk], report: Report, progress: Callable[[Copy], None]) -> Iterator[Copy]:
    for disk in disks:
        for path, name in partition_directories(disk):
            copy = read_copy(disk, path, name, report)
            progress(copy)
            yield copy


def _controller(plan: Resurrection, wanted: Wanted) -> int:
    """Return the one node that is the controller: the one asked for, else one that was, else the first."""
    ids = [node.id for node in plan.nodes]
    asked = wanted.controller.node
    if asked is not None:
        if asked not in ids:
            known = ", ".join(map(str, ids))
            plan.refusals.append(Refusal(f"--controller {asked}", "no such node", f"the nodes are {known}"))
            return ids[0]
        return asked
    with_metadata = [node.id for node in plan.nodes if any(disk.metadata_path for disk in node.disks)]
    voters = {voter["voterId"] for copy in plan.metadata_copies if copy.state for voter in copy.state.voters}
    return next(iter([*(each for each in with_metadata if each in voters), *with_metadata, *ids]))


def _join(plan: Resurrection, copies: Sequence[Copy], wanted: Wanted, now: int) -> None:
    """Make the partitions and the image of the new cluster out of metadata and copies."""
    state = plan.metadata.state if plan.metadata else None
    old = state.image if state else empty_image(plan.release)
    if state is None:
        wanted = _with_counts(plan, copies, wanted)
    if state and wanted.unknown_topics == UnknownTopics.LEAVE_OUT:
        known = leave_out_unknown(copies, old)
        text = "its topic is not in the metadata; a broker sets the directory aside (-stray)"
        plan.notes += [Note(NoteKind.LEFT_OUT, copy.path, text) for copy in copies if copy not in known]
        copies = known
    if any(disk.cluster_id == plan.cluster_id for disk in plan.disks):
        text = "the cluster id is the old one: make sure that nothing of the old cluster runs any more, anywhere"
        plan.notes.append(Note(NoteKind.METADATA, "cluster", text))
    plan.at_hand = at_hand = topics_at_hand(old, copies, wanted, has_metadata=state is not None)
    plan.notes += at_hand.notes
    plan.refusals += at_hand.refusals
    if state:
        plan.refusals += refuse_unknown(at_hand, wanted)
    for chosen in at_hand.partitions:
        choose(chosen, at_hand.copies.get((chosen.topic, chosen.partition), []), plan.nodes)
    _place_empty(plan)
    plan.refusals += check_partitions(at_hand.partitions, wanted)
    plan.image = image = new_image(old, [each for each in at_hand.partitions if each.best or each.empty_on], plan.nodes)
    for topic in at_hand.adopted:
        image.configs[TOPIC_RESOURCE, topic] = created_with(topic)
    highest = max((copy.highest_producer_id for copy in copies), default=-1)
    image.producer_ids = {"brokerId": -1, "brokerEpoch": -1, "nextProducerId": next_producer_id(old, highest)}
    plan.refusals += check_release(image, plan.release, kept_settings(plan.properties))
    plan.refusals += check_topics(image, wanted)
    plan.refusals += check_segment_bytes(image, plan.release)
    _number_snapshot(plan)
    _make_quorum(plan, wanted)
    plan.notes += notes_on_state(plan.metadata, plan.metadata_copies, at_hand.adopted)
    plan.notes += notes_on_partitions(at_hand.partitions, at_hand.ids_to_write)
    plan.notes += leave_out_cordons(image)
    plan.notes += hold_unclean_election(image)
    expired = list(expired_topics(image, at_hand.partitions, now, kept_settings(plan.properties)))
    if wanted.holds_retention:
        plan.notes += hold_retention(image, [each.topic for each in expired])
    else:
        plan.notes += [each.note() for each in expired]


def _with_counts(plan: Resurrection, copies: Sequence[Copy], wanted: Wanted) -> Wanted:
    """Return what is wanted, with the partition counts of server.properties where the directories allow them."""
    counts = dict(wanted.partitions)
    for topic, number in partition_counts(plan.properties).items():
        seen = [copy.name.partition for copy in copies if copy.name.topic == topic]
        if seen and max(seen) < number and topic not in counts:
            counts[topic] = number
            text = f"{number} partitions, as {plan.properties[0].path} says or leaves to Kafka's default"
            plan.notes.append(Note(NoteKind.SETTING, topic, text))
    return replace(wanted, partitions=counts)


def _place_empty(plan: Resurrection) -> None:
    """Deal partitions of which there is no copy out to the brokers."""
    brokers = [node for node in plan.nodes if any(any(partition_directories(disk)) for disk in node.disks)]
    missing = (chosen for chosen in plan.partitions if chosen.best is None)
    for chosen, node in zip(missing, cycle(brokers or plan.nodes), strict=False):
        chosen.empty_on = node


def _number_snapshot(plan: Resurrection) -> None:
    """Let the new metadata begin after everything that any copy of the old one has."""
    ends = [copy.state.end_offset for copy in plan.metadata_copies if copy.state]
    epochs = [copy.highest_epoch for copy in plan.metadata_copies]
    plan.snapshot_offset = max([FIRST_OFFSET, *(end + 1 for end in ends)])
    plan.snapshot_epoch = max([FIRST_EPOCH, *(epoch + 1 for epoch in epochs)])


def _make_quorum(plan: Resurrection, wanted: Wanted) -> None:
    """Name the one voter of a dynamic quorum in the snapshot; that of a static one is in server.properties."""
    state = plan.metadata.state if plan.metadata else None
    is_dynamic = wanted.is_dynamic
    if is_dynamic is None:
        is_dynamic = bool(state and state.kraft_version)
    if is_dynamic:
        node, at = plan.node(plan.controller), wanted.controller
        directory_id = node.directory_id(metadata_disk(node))
        plan.voter = Voter(plan.controller, directory_id, at.listener, at.host, at.port)


def metadata_disk(node: Node) -> Disk:
    """Return the log directory that gets the metadata: the one that had it, else the first."""
    return next((disk for disk in node.disks if disk.metadata_path), node.disks[0])

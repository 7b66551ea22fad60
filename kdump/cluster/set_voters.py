"""Give a dynamic quorum other voters: one record, appended to the log of the copy that is to lead."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from kdump.change.plan import Plan, make_plan
from kdump.cluster.metadata_copies import MetadataCopy
from kdump.cluster.quorum import Difference, Quorum, lost
from kdump.cluster.refusals import check_interrupted
from kdump.cluster.wanted import MAX_PORT, Refusal, host_and_port
from kdump.disk.locks import lock_holder
from kdump.errors import check_number, check_type
from kdump.formats import names
from kdump.formats.java_text import INT_MAX
from kdump.formats.kraft_snapshot import Voter, kraft_batch, voters_pair
from kdump.formats.names import segment_file_name
from kdump.formats.printable import command_line
from kdump.formats.uuids import is_reserved_directory_id
from kdump.settings.node import SERVER_PROPERTIES, VOTERS, voters_text
from kdump.storage.facts import segment_info
from kdump.storage.partition import PartitionLog
from kdump.storage.planned import PlannedPartition
from kdump.storage.recipe import NewContent, SourceBytes, joined


class VoterAt(NamedTuple):
    """A voter that is wanted: its node id, and where its controller listens."""

    id: int
    host: str
    port: int
    listener: str = "CONTROLLER"

    @classmethod
    def parse(cls, text: str) -> VoterAt:
        """Return the voter of NODE@HOST:PORT. Raises ValueError."""
        node, at, address = text.strip().partition("@")
        place = host_and_port(address)
        if not at or not node.isdecimal() or place is None:
            raise ValueError(f"{text!r}: expected NODE@HOST:PORT")
        return cls(int(node), *place)

    def check(self) -> None:
        """Raise ValueError, TypeError for what no voter can have."""
        check_number("voters: id", self.id, 0, INT_MAX)
        check_number("voters: port", self.port, 1, MAX_PORT)
        for name in ("host", "listener"):
            check_type(f"voters: {name}", getattr(self, name), str)
            if not getattr(self, name):
                raise ValueError(f"voters: {self.id} has no {name}")


def names_twice(voters: Sequence[VoterAt]) -> bool:
    """Return whether a node is named twice: nobody can say which address counts."""
    return len({each.id for each in voters}) < len(voters)


@dataclass(slots=True)
class NewVoters:
    """What would be done; nothing of it is to be applied where there are `refusals`.

    `leaders` are the copies that get the record, with `epoch`, at the offset `offset`; `lost` is what the newest copy
    has and they have not. `is_done` tells that the voters are these already, so that no record is needed.
    """

    voters: list[Voter] = field(default_factory=list)
    leaders: list[MetadataCopy] = field(default_factory=list)
    epoch: int = 0
    offset: int = 0
    lost: list[Difference] = field(default_factory=list)
    held_back: int = 0
    refusals: list[Refusal] = field(default_factory=list)
    is_done: bool = False


def plan_voters(quorum: Quorum, wanted: Sequence[VoterAt], *, others_are_gone: bool, accepts_loss: bool) -> NewVoters:
    """Plan for these voters and no others; nothing is changed. Raises OSError."""
    plan = NewVoters(epoch=quorum.highest_epoch + 1)
    plan.refusals += _check_copies(quorum, wanted)
    copies = {copy.disk.node_id: copy for copy in reversed(quorum.copies)}
    for voter in wanted:
        copy = copies.get(voter.id)
        if copy is None:
            known = ", ".join(str(node) for node in sorted(each for each in copies if each is not None))
            way_out = (
                f"give the log directory with its {names.CLUSTER_METADATA_DIR}; the PATHs have nodes {known or 'none'}"
            )
            plan.refusals.append(Refusal(f"voter {voter.id}", "there is no copy of its metadata log", way_out))
            continue
        directory_id = copy.disk.directory_id
        if directory_id is None or is_reserved_directory_id(directory_id):
            way_out = f"add one to {copy.disk.path}/{names.META_PROPERTIES}"
            plan.refusals.append(Refusal(copy.disk.path, "meta.properties has no directory.id", way_out))
            continue
        plan.voters.append(Voter(voter.id, directory_id, voter.listener, voter.host, voter.port))
        plan.leaders.append(copy)
    if len(plan.leaders) != len(wanted) or quorum.best is None or not wanted:
        return plan
    plan.refusals += _check_choice(quorum, plan, others_are_gone=others_are_gone, accepts_loss=accepts_loss)
    first = plan.leaders[0].state
    if first is not None:
        plan.offset, plan.held_back = first.end_offset, first.held_back
    plan.is_done = not plan.refusals and all(_names(copy, plan.voters) for copy in plan.leaders)
    return plan


def _names(copy: MetadataCopy, voters: Sequence[Voter]) -> bool:
    """Return whether the voters of a copy's log are these, at these addresses."""
    named = copy.state.voters if copy.state else []
    return sorted(map(_identity, named), key=str) == sorted((_identity(each.fields()) for each in voters), key=str)


def _identity(voter: Mapping[str, Any]) -> tuple[object, ...]:
    return voter["voterId"], voter["voterDirectoryId"], voter.get("endpoints")


def _check_copies(quorum: Quorum, wanted: Sequence[VoterAt]) -> Iterator[Refusal]:
    """Refuse copies that are in use, half changed or damaged, and a static quorum.

    The voters of that are in server.properties.
    """
    for copy in quorum.copies:
        if lock_holder(copy.disk.path) is not None:
            yield Refusal(copy.disk.path, "a broker or controller is running on it", "stop all nodes of the quorum")
        yield from check_interrupted(copy.disk, (copy.path,))
    for copy in quorum.copies:
        if not copy.is_sound:
            problem = copy.problems[0].text if copy.problems else "it cannot be read"
            verify = command_line("kdump", "verify", copy.path)
            yield Refusal(copy.path, f"damaged: {problem}", f"repair it first: {verify} shows more")
        elif copy.state and copy.state.newer_records:
            yield Refusal(copy.path, "has records that are newer than this kdump", "use a newer kdump")
    if quorum.best is None:
        yield Refusal(
            "quorum", "no copy of the metadata log can be read", "give the log directories of the controllers"
        )
    elif quorum.kraft_version == 0:
        voters = voters_text(voter[:3] for voter in wanted)
        reason = "the quorum is static (kraft.version 0): its voters are not in the log"
        way_out = f"set {VOTERS}={voters} in {SERVER_PROPERTIES} of every node; nothing on disk changes"
        yield Refusal("quorum", reason, way_out)


def _check_choice(quorum: Quorum, plan: NewVoters, *, others_are_gone: bool, accepts_loss: bool) -> Iterator[Refusal]:
    """Refuse to leave newer records behind, and to make a second quorum beside one that may live."""
    best = quorum.best
    assert best is not None
    strongest, chosen = max(zip(plan.voters, plan.leaders, strict=True), key=lambda pair: pair[1].rank)
    if any(copy.rank != chosen.rank for copy in plan.leaders):
        reason = "their copies differ, and all must get the same record at the same offset"
        way_out = f"name one voter, {strongest.id}; add the others later: kafka-metadata-quorum.sh add-controller"
        yield Refusal("voters", reason, way_out)
    if best.rank > chosen.rank:
        plan.lost = list(lost(chosen, best))
        if not accepts_loss:
            reason = f"{best.path} has more: {_shown(best)}, this one {_shown(chosen)}"
            way_out = (
                f"let node {best.disk.node_id} lead, or copy {best.path} over {chosen.path} first; to lose what is"
                " listed: --accept-loss"
            )
            yield Refusal(chosen.path, reason, way_out)
    old = set(quorum.voters) - {voter.id for voter in plan.voters}
    at_hand = {copy.disk.node_id for copy in quorum.copies}
    unseen = sorted(old - at_hand)
    if unseen and not others_are_gone:
        listed = ", ".join(map(str, unseen))
        reason = (
            f"voters {listed} are not here: if they still run they may lead the old quorum, with the same cluster id"
        )
        yield Refusal("voters", reason, "when their disks are destroyed or wiped: --others-are-gone")


def _shown(copy: MetadataCopy) -> str:
    return f"epoch {copy.rank[0]}, log end {copy.rank[1]}"


def change_plan(plan: NewVoters, copy: MetadataCopy, now: int) -> Plan:
    """Return the change to a copy's directory: the record goes after the last batch, at `now` (ms). Raises OSError."""
    pair = voters_pair(plan.voters)
    batch = kraft_batch([pair], plan.offset, plan.epoch, now, is_control=True)
    log = PartitionLog(copy.path)
    wanted = PlannedPartition(log).files
    new = NewContent(batch, len(batch))
    if log.segments:
        last = log.segments[-1]
        name = os.path.basename(last.log_path)
        info = segment_info(last)
        if info.error is not None:
            raise info.error
        used = info.used_size or 0
        wanted[name] = joined((SourceBytes(name, 0, used), new)) if used else new
    else:
        name = segment_file_name(plan.offset, f".{names.LOG}")
        wanted[name] = new
    return make_plan(copy.path, wanted, {name: f"VotersRecord at offset {plan.offset}, epoch {plan.epoch}"})

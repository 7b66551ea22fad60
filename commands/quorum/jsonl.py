"""A quorum as JSON lines; docs/quorum.md has the fields."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

from kdump.change.change import Change
from kdump.cluster.metadata_copies import MetadataCopy
from kdump.cluster.quorum import Quorum, lost
from kdump.cluster.set_voters import NewVoters
from kdump.formats.uuids import format_uuid

from ..shell.rows import json_line

_OLD_ELECTION = {"isElectable": "canWin"}
_OLD_SUMMARY = {"isApplied": "applied"}


class JsonLines:
    """Prints a quorum as JSON lines."""

    def __init__(self, write: Callable[[str], None]) -> None:
        """`write` takes whole lines."""
        self._write = write

    def quorum(self, quorum: Quorum) -> None:
        """Write a line for the quorum, each copy, each voter's chances, and each thing that a choice would lose."""
        row = {"kraftVersion": quorum.kraft_version, "voters": list(quorum.voters), "committedOffset": quorum.committed}
        self._row("quorum", row)
        for copy in quorum.copies:
            self._row("copy", _copy(quorum, copy))
        for election in quorum.elections:
            row = {"voter": election.voter, "votes": list(election.votes), "needed": election.needed}
            self._write(json_line("election", row | {"isElectable": election.can_win}, _OLD_ELECTION))
        for copy in quorum.copies:
            if quorum.best is not None and copy is not quorum.best and copy.rank < quorum.best.rank:
                for each in lost(copy, quorum.best):
                    self._row("difference", {"path": copy.path, **asdict(each)})

    def plan(self, plan: NewVoters) -> None:
        """Write a line for the record, unless the voters are these already, and each refusal."""
        voters = [
            {"voterId": each.id, "directoryId": format_uuid(each.directory_id), "host": each.host, "port": each.port}
            for each in plan.voters
        ]
        row = {"voters": voters, "epoch": plan.epoch, "offset": plan.offset, "heldBack": plan.held_back}
        if not plan.is_done:
            self._row("record", row | {"paths": [copy.path for copy in plan.leaders]})
        for refusal in plan.refusals:
            self._row("refusal", {"subject": refusal.subject, "reason": refusal.reason, "do": refusal.way_out})

    def end(self, plan: NewVoters, changes: Sequence[Change] | None) -> None:
        """Write the sum of it."""
        fields = {"isApplied": changes is not None, "change": changes[0].id if changes else None}
        self._write(json_line("summary", fields, _OLD_SUMMARY))

    def _row(self, kind: str, fields: dict[str, Any]) -> None:
        self._write(json_line(kind, fields))


def _copy(quorum: Quorum, copy: MetadataCopy) -> dict[str, Any]:
    state, seen = copy.state, copy.quorum
    return {
        "path": copy.path,
        "nodeId": copy.disk.node_id,
        "isVoter": copy.disk.node_id in quorum.voters,
        "isNewest": copy is quorum.best,
        "lastEpoch": state.epoch if state else None,
        "logEndOffset": state.end_offset if state else None,
        "snapshot": state.snapshot if state else None,
        "voters": [voter["voterId"] for voter in state.voters] if state else [],
        "leaderId": seen.leader_id if seen else None,
        "leaderEpoch": seen.leader_epoch if seen else None,
        "votedId": seen.voted_id if seen else None,
        "problems": [problem.text for problem in copy.problems],
    }

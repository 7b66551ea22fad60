"""A quorum as JSON lines; docs/quorum.md has the fields."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from kdump.change.change import Change
from kdump.cluster.metadata_copies import MetadataCopy
from kdump.cluster.quorum import Quorum, lost
from kdump.cluster.set_voters import NewVoters
from kdump.formats.uuids import format_uuid

from ..shell.rows import RowPrinter, fields_of


class JsonLines(RowPrinter):
    """Prints a quorum as JSON lines."""

    def quorum(self, quorum: Quorum) -> None:
        """Write a line for the quorum, each copy, each voter's chances, and each thing that a choice would lose."""
        self.row("quorum", fields_of(quorum, "kraft_version voters committedOffset=committed"))
        for copy in quorum.copies:
            self.row("copy", _copy(quorum, copy))
        for election in quorum.elections:
            self.row("election", fields_of(election, "voter votes needed isElectable=can_win"))
        for copy in quorum.copies:
            if quorum.best is not None and copy is not quorum.best and copy.rank < quorum.best.rank:
                for each in lost(copy, quorum.best):
                    self.row("difference", {"path": copy.path, **asdict(each)})

    def plan(self, plan: NewVoters) -> None:
        """Write a line for the record, unless the voters are these already, and each refusal."""
        voters = [
            {"voterId": each.id, "directoryId": format_uuid(each.directory_id), "host": each.host, "port": each.port}
            for each in plan.voters
        ]
        row = {"voters": voters, **fields_of(plan, "epoch offset held_back")}
        if not plan.is_done:
            self.row("record", row | {"paths": [copy.path for copy in plan.leaders]})
        for refusal in plan.refusals:
            self.row("refusal", fields_of(refusal, "subject reason do=way_out"))

    def end(self, _plan: NewVoters, changes: Sequence[Change] | None) -> None:
        """Write the sum of it."""
        fields = {"isApplied": changes is not None, "change": changes[0].id if changes else None}
        self.row("summary", fields)


def _copy(quorum: Quorum, copy: MetadataCopy) -> dict[str, Any]:
    state, seen = copy.state, copy.quorum
    return {
        "path": copy.path,
        "nodeId": copy.disk.node_id,
        "isVoter": copy.disk.node_id in quorum.voters,
        "isNewest": copy is quorum.best,
        **fields_of(state, "lastEpoch=epoch logEndOffset=end_offset snapshot"),
        "voters": [voter["voterId"] for voter in state.voters] if state else [],
        **fields_of(seen, "leader_id leader_epoch voted_id"),
        "problems": [problem.text for problem in copy.problems],
    }

"""A quorum for people: its copies, who could win, what would be lost, and what to do next."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from kdump.change.change import Change
from kdump.cluster.metadata_copies import MetadataCopy
from kdump.cluster.quorum import Difference, Quorum, lost
from kdump.cluster.set_voters import NewVoters
from kdump.formats.printable import safe, safe_path
from kdump.formats.words import count_text, number_words
from kdump.settings.node import BOOTSTRAP_SERVERS, address_text

from ..shell.output import again
from ..shell.tables import TextPrinter
from ..shell.words import check_and_undo, places_by_change, refusal_lines

_HEADER = ("NODE", "ROLE", "EPOCH", "LOG END", "LEADER SEEN", "VOTED FOR", "PATH", "REMARKS")
_DROP = ("VOTED FOR", "LEADER SEEN")
_SHOWN = 10


class Text(TextPrinter):
    """Prints a quorum for people."""

    def __init__(self, write: Callable[[str], None], paths: Sequence[str]) -> None:
        """`write` takes whole lines."""
        super().__init__(write)
        self._paths = " ".join(map(safe_path, paths))

    def quorum(self, quorum: Quorum) -> None:
        """Print all copies, and who could win."""
        voters = ", ".join(map(str, quorum.voters)) or "unknown"
        kind = "dynamic" if quorum.kraft_version else "static"
        self._line(f"{kind} quorum (kraft.version {quorum.kraft_version}), voters {voters}")
        rows = [_row(quorum, copy) for copy in quorum.copies]
        self._table(_HEADER, rows, right=("EPOCH", "LOG END"), drop=_DROP)
        for copy in quorum.copies:
            for problem in copy.problems[:1]:
                what = "newer" if problem.is_newer else "damaged"
                self._line(f"  {what}: {safe_path(problem.path)}: {safe(problem.text)}")
        self._line(f"committed for certain: up to offset {quorum.committed}")
        self._elections(quorum)
        best = quorum.best
        for copy in quorum.copies:
            if best is not None and copy is not best and copy.state and copy.rank < best.rank:
                behind = best.rank[1] - copy.rank[1]
                much = f"{number_words(behind, 'record')} behind" if behind > 0 else "of an older epoch"
                self._line(f"\nIf {safe_path(copy.path)} leads ({much}), this is lost:")
                self._lost(lost(copy, best))

    def _elections(self, quorum: Quorum) -> None:
        for election in quorum.elections:
            votes = ", ".join(map(str, election.votes))
            how = "can win" if election.can_win else "cannot win"
            self._line(f"node {election.voter} {how}: votes of {votes}; it needs {election.needed}")
        if quorum.voters and not any(election.can_win for election in quorum.elections):
            needed = len(quorum.voters) // 2 + 1
            self._line(f"No copy here leads to a majority: {needed} of {len(quorum.voters)} voters are needed.")

    def _lost(self, differences: Iterable[Difference]) -> None:
        found = list(differences)
        for each in found[:_SHOWN]:
            name = f" {safe(each.name)}" if each.name else ""
            self._line(f"  {each.kind}{name}: {safe(each.text)}")
        if len(found) > _SHOWN:
            self._line(f"  and {count_text(len(found) - _SHOWN)} more (--format jsonl has all)")
        if not found:
            self._line("  nothing that changes the state of the cluster")

    def plan(self, plan: NewVoters) -> None:
        """Print the record that would be written, and what stands in the way."""
        if plan.refusals:
            for line in refusal_lines(plan.refusals):
                self._line(line)
            return
        voters = ", ".join(f"{voter.id}@{safe(voter.host)}:{voter.port}" for voter in plan.voters)
        if plan.is_done:
            self._line(f"\nThe voters are {voters} already: no record is needed.")
            return
        self._line(f"\nVotersRecord at offset {plan.offset}, leader epoch {plan.epoch}: voters {voters}")
        for copy in plan.leaders:
            self._line(f"  appended to {safe_path(copy.path)}")
        if plan.lost:
            self._line("This is lost:")
            self._lost(plan.lost)
        if plan.held_back:
            records = number_words(plan.held_back, "record")
            self._line(f"{records} of a metadata transaction that never ended: the controller aborts it")

    def end(self, plan: NewVoters, changes: Sequence[Change] | None) -> None:
        """Print what came of it (None: nothing was done), and what is next."""
        if plan.refusals:
            self._line("\nRefused: see above. Nothing was changed.")
            return
        servers = ",".join(address_text(safe(voter.host), voter.port) for voter in plan.voters)
        self._line("\nserver.properties of every node:")
        self._line(f"  {BOOTSTRAP_SERVERS}={servers}")
        ids = ", ".join(str(voter.id) for voter in plan.voters)
        self._line("Start, in this order:")
        self._line(f"  1  node {ids}, until it is the leader:")
        self._line("       kafka-metadata-quorum.sh --bootstrap-controller HOST:PORT describe --status")
        self._line("  2  the brokers, then more controllers: kafka-metadata-quorum.sh add-controller")
        if plan.is_done:
            return
        if changes is None:
            self._line(f"\nDry run: nothing was changed.\nNext: {again('--apply')}")
            return
        self._line("\nDone.")
        made = zip((copy.path for copy in plan.leaders), (change.id for change in changes), strict=True)
        for line in check_and_undo(f"quorum {self._paths}", places_by_change(made)):
            self._line(line)


def _row(quorum: Quorum, copy: MetadataCopy) -> tuple[str, ...]:
    node = copy.disk.node_id
    role = "voter" if node in quorum.voters else "observer"
    epoch, end = (str(each) for each in copy.rank) if copy.state else ("-", "-")
    state = copy.quorum
    seen = voted = "-"
    if state is not None:
        seen = f"{f'{state.leader_id} in ' if state.leader_id >= 0 else ''}epoch {state.leader_epoch}"
        voted = str(state.voted_id) if state.voted_id >= 0 else "-"
    remark = "newest" if copy is quorum.best else ""
    return "-" if node is None else str(node), role, epoch, end, seen, voted, safe_path(copy.path), remark

"""A resurrection for people: what the new cluster is, what to know, what stands in the way, and how to start it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from kdump.cluster.files import NewDirectory, copies_of
from kdump.cluster.properties import server_properties
from kdump.cluster.resurrection import Resurrection
from kdump.cluster.wanted import ControllerAt, Note, NoteKind
from kdump.formats.printable import safe, safe_path
from kdump.formats.words import count_text, listed, number_words, size_text
from kdump.operations.cluster import Resurrected

from ..shell.output import again
from ..shell.tables import TextPrinter
from ..shell.words import check_and_undo, refusal_lines

_HEADINGS = {
    NoteKind.METADATA: "Metadata",
    NoteKind.LOST: "Lost",
    NoteKind.DAMAGED: "Damaged copies",
    NoteKind.BEHIND: "Copies that are behind",
    NoteKind.UNCOMMITTED: "Records that become committed",
    NoteKind.EMPTY: "Partitions that start empty",
    NoteKind.LEFT_OUT: "Left out",
    NoteKind.TRANSACTION: "Open transactions",
    NoteKind.RETENTION: "Retention",
    NoteKind.SETTING: "Settings",
    NoteKind.CHECKPOINT: "Checkpoint files",
}
_SHOWN = 5
_NAMED = 3


class Text(TextPrinter):
    """Prints a resurrection for people."""

    def __init__(self, write: Callable[[str], None], controller: ControllerAt, paths: Sequence[str]) -> None:
        """`write` takes whole lines."""
        super().__init__(write)
        self._controller = controller
        self._paths = " ".join(map(safe_path, paths))
        self._directories: Sequence[NewDirectory] = ()

    def plan(self, found: Resurrection, directories: Sequence[NewDirectory]) -> None:
        """Print what the new cluster is, and what to know of it."""
        self._directories = directories
        read = number_words(len(found.disks), "log directory", "log directories")
        nodes = number_words(len(found.nodes), "node")
        self._line(f"{nodes} from {read}; cluster id {safe(found.cluster_id)}; Kafka {found.release.value}")
        if found.nodes:
            kind = "static" if found.voter is None else "dynamic"
            self._line(f"Controller: node {found.controller}, the only voter of a {kind} quorum")
        for each in directories:
            self._line(f"  node {each.node.id}  {safe_path(each.path)}  {_content(found, each)}")
        topics = len({chosen.topic_id for chosen in found.partitions})
        led = sum(chosen.best is not None for chosen in found.partitions)
        count = number_words(len(found.partitions), "partition")
        self._line(f"{count} of {number_words(topics, 'topic')}, {count_text(led)} with a copy")
        for kind, heading in _HEADINGS.items():
            self._notes(heading, [note for note in found.notes if note.kind == kind])
        if found.refusals:
            for line in refusal_lines(found.refusals):
                self._line(line)

    def _notes(self, heading: str, notes: Sequence[Note]) -> None:
        if not notes:
            return
        self._line(f"\n{heading}:")
        by_text: dict[str, list[str]] = {}
        for note in notes:
            by_text.setdefault(note.text, []).append(note.subject)
        for text, subjects in list(by_text.items())[:_SHOWN]:
            self._line(f"  {listed([safe(each) for each in subjects], _NAMED)}: {safe(text)}")
        if len(by_text) > _SHOWN:
            self._line(f"  and {count_text(len(by_text) - _SHOWN)} more (--format jsonl has all)")

    def end(self, found: Resurrection, done: Resurrected | None, reason: str) -> None:
        """Print what came of it, and what is next; `reason` is why nothing was done, "" where nothing is in the way."""
        if reason:
            self._line(f"\nRefused: {reason}. Nothing was changed.")
            return
        for line in self._how_to_start(found):
            self._line(line)
        if done is None:
            self._line(f"\nDry run: nothing was changed.\nNext: {again('--apply')}")
            return
        paths = " ".join(safe_path(each.path) for each in self._directories)
        can_undo = " It can be undone until a broker has run." if done.changes else ""
        self._line(f"\nDone.{can_undo}")
        for line in check_and_undo(f"verify {paths}", {change.id: self._paths for change in done.changes}):
            self._line(line)

    def _how_to_start(self, found: Resurrection) -> Iterator[str]:
        for node in found.nodes:
            yield f"\nserver.properties of node {node.id} (and its listeners):"
            for name, value in server_properties(found, node.id, self._directories, self._controller):
                yield f"  {name}={safe(value)}"
            for path in _files_of(found, node.id):
                yield f"  and the other lines of {safe_path(path)}, without broker.id, zookeeper.* and what is above"
        count = number_words(len(self._directories), "log directory", "log directories")
        yield "\nStart, in this order:"
        yield f"  1  copy the files *-checkpoint of {count} away: a wrong start would rewrite them"
        yield f"  2  node {found.controller}, alone, until it is the leader:"
        yield "       kafka-metadata-quorum.sh --bootstrap-controller HOST:PORT describe --status"
        others = ", ".join(str(node.id) for node in found.nodes if node.id != found.controller)
        yield f"  3  {f'nodes {others}' if others else 'no other node: clients stay out until the checks are done'}"
        yield "Check before clients are let in:"
        yield "  no directory ends in -stray that did not before; else stop all nodes at once and undo"
        yield "  kafka-topics.sh --bootstrap-server HOST:PORT --describe --unavailable-partitions   prints nothing"
        yield "  kafka-topics.sh --bootstrap-server HOST:PORT --describe --under-replicated-partitions   prints nothing"
        yield "  server.log has no line with log-cleaner-thread and Error"


def _files_of(found: Resurrection, node_id: int) -> list[str]:
    """Return the server.properties of the old nodes whose log directories a node has."""
    old = {disk.node_id for disk in found.node(node_id).disks}
    return [each.path for each in found.properties if each.node_id in old]


def _content(found: Resurrection, each: NewDirectory) -> str:
    copies = copies_of(found, each.node, each.disk)
    return f"{number_words(len(copies), 'partition')}, {size_text(sum(copy.size for copy in copies))}"

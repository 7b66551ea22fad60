"""What there is to say of a kind of finding: how bad it is, what a broker does about it, and what to do."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple


class Severity(StrEnum):
    """How bad it is. Nothing is wrong with a note, and it never sets the exit code."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


class BrokerEffect(StrEnum):
    """What a broker does about it, as the words after "a broker"."""

    SERVES_WRONG_DATA = "serves wrong data silently"
    TRUNCATES = "truncates here and drops all later segments at unclean start"
    HIDES = "opens the log as if it were empty"
    REBUILDS = "rebuilds at start"
    IGNORES = "ignores"
    REFUSES = "does not start"
    GOES_OFFLINE = "takes the log directory offline"
    SETS_ASIDE = "renames the directory at start (-stray) and serves nothing of it"
    BLOCKS_RETENTION = "blocks retention"
    BLOCKS_COMPACTION = "blocks compaction"
    STALLS = "stalls read_committed consumers"
    CUTS_TO_LEADER = "cuts what the leader has not when it follows"


ERROR, WARNING, NOTE = Severity
SEVERITIES = tuple(Severity)

(
    SERVES_WRONG_DATA,
    TRUNCATES,
    HIDES,
    REBUILDS,
    IGNORES,
    REFUSES,
    GOES_OFFLINE,
    SETS_ASIDE,
    BLOCKS_RETENTION,
    BLOCKS_COMPACTION,
    STALLS,
    CUTS_TO_LEADER,
) = BrokerEffect

NOTHING = "nothing"


class Remedy(NamedTuple):
    """One way out: a command of kdump with its options, or (None) what a person does, and what is lost by it.

    `loses` is NOTHING or names the records. A command shows a plan first; nothing changes without its --apply.
    """

    command: str | None
    arguments: tuple[str, ...]
    note: str
    loses: str = NOTHING

    def words(self, path: str) -> tuple[str, ...]:
        """Return the command line for a partition or log directory; empty where there is no command."""
        return () if self.command is None else ("kdump", self.command, path, *self.arguments)

    @property
    def text(self) -> str:
        """The way out in one line, with what it loses."""
        command = " ".join(self.words("PATH"))
        said = f"{command}: {self.note}" if command and self.note else command or self.note
        return f"{said} (loses {self.loses})"


class FindingKind(NamedTuple):
    """One entry of the catalogue.

    `remedies` come in the order in which they are to be tried: what loses nothing first. Without any there is nothing
    to do. `checked_by` is the module of kdump.check that finds it, with a dot in it that of kdump.
    """

    code: str
    severity: Severity
    effect: BrokerEffect
    remedies: tuple[Remedy, ...]
    checked_by: str
    meaning: str

    @property
    def broker(self) -> str:
        """What a broker does."""
        return self.effect.value

    @property
    def repair(self) -> str:
        """The ways out in one line, the first to try first."""
        return in_one_line(self.remedies)


def in_one_line(remedies: Iterable[Remedy]) -> str:
    """Return ways out, the first to try first."""
    return "; else ".join(remedy.text for remedy in remedies) or "do nothing"

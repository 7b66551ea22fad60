"""Come after a broker for processor and disk, from the first one on that a command meets."""

from __future__ import annotations

import os

from kdump.disk import meeting

_ENVIRONMENT, _NORMAL = "KDUMP_PRIORITY", "normal"
_OWN = frozenset({"verify", "serve"})
"""Commands that see to it themselves: by an option, or because clients wait for them as they wait for a broker."""


def yield_to_brokers(command: str | None) -> None:
    """Let a command go on behind a broker once it meets one, unless the environment has KDUMP_PRIORITY=normal."""
    yields = command not in _OWN and os.environ.get(_ENVIRONMENT) != _NORMAL
    meeting.at_broker = _come_second if yields else None


def _come_second() -> None:
    from kdump.disk.pace import lower_priority

    from .output import note
    from .screen import Screen

    meeting.at_broker = None
    gained = lower_priority()
    if Screen.current.verbosity:
        how = ", ".join(gained) or "cannot be had here"
        note(f"low priority while a broker runs: {how} ({_ENVIRONMENT}=normal: usual priority)")

"""What a program does when it first meets a running broker: a module of its own, for all commands load it."""

from __future__ import annotations

from collections.abc import Callable

at_broker: Callable[[], object] | None = None
"""None: nothing, as for a library."""

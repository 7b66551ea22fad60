"""Which partitions the log cleaner takes."""

from __future__ import annotations

from kdump.settings.cleaning import CleaningSettings
from kdump.settings.table import CLEANUP_POLICY, COMPACT


def not_compacted(settings: CleaningSettings, *, was_cleaned: bool, is_named: bool) -> str:
    """Say why a partition is not one for the cleaner; empty if it is.

    `was_cleaned`: the cleaner's checkpoint has it. `is_named`: it was asked for in particular, so that it counts as
    compacted where nothing else is known.
    """
    name, server_name = (named.name for named in CLEANUP_POLICY.names)
    if settings.policies is not None:
        return "" if settings.is_compacted else f"{name} is {_words(settings.policies)}: the cleaner leaves it alone"
    if was_cleaned:
        return ""
    if settings.default_policies is not None:
        if COMPACT in settings.default_policies:
            return ""
        return f"{server_name} is {_words(settings.default_policies)}, and the cleaner's checkpoint does not have it"
    return "" if is_named else f"not known to be compacted: give --config with {name}, or name its directory"


def _words(policies: frozenset[str]) -> str:
    return ",".join(sorted(policies)) or "empty"

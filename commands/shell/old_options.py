"""Names that options had before: they are taken for two more releases, with a warning."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .output import complain

_IGNORE_LOCK = {"--force": ("--ignore-lock",)}
OLD_OPTIONS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "append": _IGNORE_LOCK,
    "compact": {"--exact-keys": ("--compare-keys",), "--legacy-batches": ("--old-formats",)},
    "rebuild-index": _IGNORE_LOCK,
    "repair": _IGNORE_LOCK | {"--lost-markers": ("--missing-markers",)},
    "roll": _IGNORE_LOCK,
    "trim": _IGNORE_LOCK,
    "undo": _IGNORE_LOCK,
    "verify": {
        "--most-alike": ("--max-per-code",),
        "--no-cache-pollution": ("--drop-cache",),
        "--strict": ("--fail-on", "warning"),
    },
}
"""By command, the old name and what stands for it now."""


def with_new_names(command: str, args: Sequence[str]) -> list[str]:
    """Return the arguments of a command with the present names of options; it is said which were old ones."""
    renamed = OLD_OPTIONS.get(command)
    if not renamed:
        return list(args)
    found: list[str] = []
    for number, word in enumerate(args):
        if word == "--":
            return [*found, *args[number:]]
        name, equals, value = word.partition("=")
        if name in renamed:
            new = renamed[name]
            complain(f"{name} is called {' '.join(new)} now; the old name goes after two more releases")
            found += [f"{new[0]}={value}"] if equals else new
        else:
            found.append(word)
    return found

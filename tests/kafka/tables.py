"""The tables of kdump that are written from the jars of all tested releases, and the messages of the newest."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from tests.kafka.facts import Facts

ROOT = Path(__file__).resolve().parent.parent.parent
LEVELS = ROOT / "kdump" / "release_tables.py"
SETTINGS = ROOT / "kdump" / "settings" / "kafka_names.py"
MESSAGES = ROOT / "tests" / "formats" / "messages.txt"

_WRITTEN = "Written by `./dev release --write` from the jars of the releases; do not change it by hand."


def written(all_facts: Sequence[Facts]) -> dict[Path, str]:
    """Return the text of each table by its file; the releases are in order."""
    return {
        LEVELS: "\n".join(_levels(all_facts)) + "\n",
        SETTINGS: "\n".join(_settings(all_facts)) + "\n",
        MESSAGES: "\n".join(_messages(all_facts)) + "\n",
    }


def _levels(all_facts: Sequence[Facts]) -> Iterator[str]:
    newest = all_facts[-1]
    names = {level: name for facts in all_facts for level, name in facts.levels.items()}
    yield f'"""What the classes of each release of Kafka say of its feature levels and limits.\n\n{_WRITTEN}\n"""'
    yield ""
    yield "from __future__ import annotations"
    yield ""
    yield "METADATA_VERSIONS = ("
    for first in range(1, max(names) + 1, 8):
        yield "    " + " ".join(f'"{names[level]}",' for level in range(first, min(first + 8, max(names) + 1)))
    yield ")"
    yield '"""The names of the levels of metadata.version, from 1 on (MetadataVersion)."""'
    yield ""
    yield "METADATA_LEVELS: dict[str, tuple[int, int]] = {"
    for facts in all_facts:
        yield f'    "{facts.minor}": ({facts.production}, {max(facts.levels)}),'
    yield "}"
    yield '"""By release the level that new clusters get, and the highest that it knows, which may be unstable."""'
    yield ""
    yield "FEATURES: dict[str, dict[str, int]] = {"
    for facts in all_facts:
        features = {name: level for name, level in sorted(facts.features.items()) if name != "metadata.version"}
        yield f'    "{facts.minor}": {{'
        yield from (f'        "{name}": {level},' for name, level in features.items())
        yield "    },"
    yield "}"
    yield '"""By release the highest level of each feature that a broker registers (QuorumFeatures)."""'
    yield ""
    for name, value in sorted(newest.limits.items()):
        if name in _LIMITS:
            yield f"{name} = {value:_}"
            yield f'"""{_LIMITS[name]}"""'


_LIMITS = {
    "MAX_ARRAY_LENGTH": "The most elements of an array for the readers generated since Kafka 4.2.2 (MessageUtil).",
    "MAX_TAGGED_FIELD_COUNT": "The most tagged fields of a struct that they take (MessageUtil).",
}


def _settings(all_facts: Sequence[Facts]) -> Iterator[str]:
    yield f'"""The settings of each release of Kafka, as its classes define them.\n\n{_WRITTEN}\n"""'
    yield ""
    yield "from __future__ import annotations"
    yield ""
    yield "RELEASES = (" + ", ".join(f'"{facts.release}"' for facts in all_facts) + ")"
    yield '"""The releases whose settings are here."""'
    yield ""
    yield 'SETTINGS = """'
    rows: dict[tuple[str, str], list[str]] = {}
    for facts in all_facts:
        for key in facts.settings:
            rows.setdefault(key, []).append(facts.minor)
    for (scope, name), minors in sorted(rows.items()):
        newest = next(facts.settings for facts in reversed(all_facts) if (scope, name) in facts.settings)
        kind, default = newest[scope, name]
        releases = _ranges(minors, [facts.minor for facts in all_facts])
        yield f"{scope} {name} {kind.lower()} {releases} {_default(default)}"
    yield '"""'
    yield '"""Scope, name, type, releases that have it, default in the newest of them (- for none), a line each."""'


def _ranges(minors: Sequence[str], all_minors: Sequence[str]) -> str:
    """Return releases as ranges: 3.9-4.1,4.3."""
    ranges: list[list[str]] = []
    for minor in minors:
        if ranges and all_minors.index(minor) == all_minors.index(ranges[-1][-1]) + 1:
            ranges[-1].append(minor)
        else:
            ranges.append([minor])
    return ",".join(part[0] if len(part) == 1 else f"{part[0]}-{part[-1]}" for part in ranges)


def _default(text: str | None) -> str:
    if text is None:
        return "-"
    one_line = re.sub(r"\s+", " ", text)
    return '""' if not one_line else one_line.replace("\\", "/")


def _messages(all_facts: Sequence[Facts]) -> Iterator[str]:
    newest = all_facts[-1]
    yield f"# The messages and records of Kafka {newest.release}. {_WRITTEN}"
    for _, lines in sorted(newest.messages.items()):
        yield from lines


def differences(before: Facts, after: Facts) -> Iterator[str]:
    """Yield what a release has otherwise than the one before it, a line each: the work that it makes."""
    for level in sorted(after.levels.keys() - before.levels.keys()):
        yield f"new level: metadata.version {level} = {after.levels[level]}"
    if after.production != before.production:
        yield f"new default: metadata.version {after.production} (was {before.production})"
    yield from _changed("feature", before.features, after.features)
    defaults = ({name: list(levels.items()) for name, levels in facts.defaults.items()} for facts in (before, after))
    yield from _changed("default of a feature", *defaults)
    yield from _changed("limit", before.limits, after.limits)
    both = ({" ".join(key): value for key, value in facts.settings.items()} for facts in (before, after))
    yield from _changed("setting", *both)
    kinds = {name: lines[0].split("# ")[1].split()[0] for name, lines in {**before.messages, **after.messages}.items()}
    for name in sorted(before.messages.keys() | after.messages.keys()):
        what = {"request": "request", "response": "response"}.get(kinds[name], "record")
        yield from _changed_message(what, name, before.messages.get(name, []), after.messages.get(name, []))
    known, now = (frozenset().union(*facts.texts.values()) for facts in (before, after))
    for name, texts in sorted(after.texts.items()):
        yield from (f"new text: {name}: {text}" for text in sorted(texts - known))
    for name, texts in sorted(before.texts.items()):
        yield from (f"no text any more: {name}: {text}" for text in sorted(texts - now))


def _changed(what: str, before: Mapping[str, object], after: Mapping[str, object]) -> Iterator[str]:
    for name in sorted(before.keys() | after.keys()):
        old, new = before.get(name), after.get(name)
        if old is None:
            yield f"new {what}: {name} {_shown(new)}"
        elif new is None:
            yield f"no {what} any more: {name}"
        elif old != new:
            yield f"other {what}: {name} {_shown(new)} (was {_shown(old)})"


def _shown(value: object) -> str:
    return " ".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _changed_message(what: str, name: str, before: Iterable[str], after: Iterable[str]) -> Iterator[str]:
    old, new = list(before), list(after)
    if not old or not new:
        yield f"{'new' if new else 'gone'} {what}: {name}"
        return
    for line in new:
        if line not in old:
            yield f"other {what}: {name}: {line.strip()}"

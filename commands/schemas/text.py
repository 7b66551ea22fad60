"""`kdump schemas` for people: the schemas, what uses them, and the verdict."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from kdump.formats.printable import safe, safe_path
from kdump.formats.words import count_text, number_words
from kdump.operations.schemas import TopicUse
from kdump.schema_registry.registry import Registry, State
from kdump.schema_registry.usage import FieldUse

from ..shell.tables import TextPrinter


class Text(TextPrinter):
    """Prints schemas for people."""

    def registry(self, source: str, registry: Registry, problems: Mapping[int, str]) -> None:
        """Print the subjects and their versions."""
        self._write(f"{safe_path(source)}\n")
        rows = []
        for each in sorted(registry.versions.values(), key=lambda found: (found.subject, found.version)):
            references = ", ".join(f"{ref.name} ({ref.subject} v{ref.version})" for ref in each.schema.references)
            state = "" if each.state is State.ACTIVE else each.state
            rows.append(
                (safe(each.subject), str(each.version), str(each.schema.id), each.schema.type, state, safe(references))
            )
        header = ("SUBJECT", "VERSION", "ID", "TYPE", "STATE", "REFERENCES")
        self._table(header, rows, right=("VERSION", "ID"), indent="  ")
        for number, problem in problems.items():
            self._write(f"  schema {number} cannot be used: {safe(problem)}\n")

    def uses(self, uses: Iterable[TopicUse]) -> None:
        """Print which topics use which schemas."""
        rows: list[tuple[str, ...]] = []
        errors: list[str] = []
        for use in uses:
            for name, found in use.fields:
                place = safe(use.topic), name
                rows += ((*place, *row) for row in _use_rows(found))
                failed = sorted(found.errors.items(), key=str)
                errors += (f"{' '.join(place)}, schema {number}: {safe(error)}" for number, error in failed)
        if rows:
            self._write("\n")
        self._table(("TOPIC", "FIELD", "ID", "RECORDS", "REMARKS"), rows, right=("ID", "RECORDS"), drop=("FIELD",))
        self._lines(["", *errors] if errors else ())

    def end(self, registry: Registry, uses: list[TopicUse], problems: Mapping[int, str]) -> None:
        """Print the verdict, and what was looked at."""
        records = sum(use.records for use in uses)
        subjects = len({subject for subject, _ in registry.versions})
        sampled = " (a sample; --deep reads all)" if any(use.is_sample for use in uses) else ""
        self._write(
            f"\n{_verdict(uses, problems)}\nChecked: {number_words(subjects, 'subject')},"
            f" {number_words(len(list(registry.schemas)), 'schema')}; {number_words(records, 'record')} of"
            f" {number_words(len(uses), 'topic')}{sampled}.\n"
        )


def _use_rows(use: FieldUse) -> Iterable[tuple[str, str, str]]:
    for number, count in sorted(use.schemas.items()):
        messages = {message: found for (schema, message), found in use.messages.items() if schema == number}
        yield str(number), count_text(count), ", ".join(safe(name) for name in sorted(messages))
    for number, count in sorted(use.undecodable.items()):
        yield str(number), count_text(count), "does not decode"
    for unknown, count in sorted(use.unknown.items(), key=str):
        yield "GUID" if unknown is None else str(unknown), count_text(count), "not among the schemas"
    if use.plain and (use.schemas or use.unknown):
        yield "-", count_text(use.plain), "without a schema"


def _verdict(uses: list[TopicUse], problems: Mapping[int, str]) -> str:
    unknown: Counter[int | None] = Counter()
    undecodable = 0
    for use in uses:
        for _, found in use.fields:
            unknown.update(found.unknown)
            undecodable += found.undecodable.total()
    ids = ", ".join(str(number) for number in sorted(each for each in unknown if each is not None)[:10])
    counts = (
        (unknown.total(), "record", f"with schemas that are not here ({ids or 'GUIDs'})"),
        (undecodable, "record", "not decodable"),
        (len(problems), "schema", "not usable"),
    )
    parts = [f"{number_words(count, noun)} {what}" for count, noun, what in counts if count]
    return f"FOUND: {', '.join(parts)}." if parts else "OK."

"""`kdump schemas --format jsonl`: one object a line, as docs/schemas.md has it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kdump.operations.schemas import TopicUse
from kdump.schema_registry.registry import Registry
from kdump.schema_registry.usage import FieldUse

from ..shell.rows import RowPrinter, fields_of


class JsonLines(RowPrinter):
    """Prints schemas as JSON lines."""

    def registry(self, source: str, registry: Registry, problems: Mapping[int, str]) -> None:
        """Print an object for each version of a subject."""
        for each in sorted(registry.versions.values(), key=lambda found: (found.subject, found.version)):
            schema = each.schema
            fields = {
                "path": source,
                **fields_of(each, "subject version id=schema.id schemaType=schema.type state"),
                "references": [reference._asdict() for reference in schema.references],
                "error": problems.get(schema.id),
                "schema": schema.text,
            }
            self.row("schemaVersion", fields)

    def uses(self, uses: Iterable[TopicUse]) -> None:
        """Print an object for each schema that the keys or values of a topic name."""
        for use in uses:
            for name, found in use.fields:
                for row in _json_uses(found):
                    place = {"topic": use.topic, "field": name, "isSample": use.is_sample}
                    self.row("schemaUse", place | row)

    def end(self, registry: Registry, uses: list[TopicUse], _problems: Mapping[int, str]) -> None:
        """Print the last object: what was looked at."""
        fields = {
            "subjects": len({subject for subject, _ in registry.versions}),
            "schemas": len(list(registry.schemas)),
            "topics": len(uses),
            "records": sum(use.records for use in uses),
        }
        self.row("summary", fields)


def _json_uses(use: FieldUse) -> Iterable[dict[str, object]]:
    for number, count in sorted(use.schemas.items()):
        messages = {message: found for (schema, message), found in use.messages.items() if schema == number}
        yield {"id": number, "records": count, "state": "decoded", "messages": messages, "error": None}
    for number, count in sorted(use.undecodable.items()):
        yield {"id": number, "records": count, "state": "undecodable", "messages": {}, "error": use.errors[number]}
    for unknown, count in sorted(use.unknown.items(), key=str):
        yield {"id": unknown, "records": count, "state": "unknown", "messages": {}, "error": None}
    if use.plain:
        yield {"id": None, "records": use.plain, "state": "plain", "messages": {}, "error": None}

"""The schemas of a registry's topic, and which of them the records of topics use."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from kdump.errors import KdumpError, Report
from kdump.formats.names import SCHEMAS_TOPIC
from kdump.schema_registry.decoder import PayloadDecoder, check_libraries
from kdump.schema_registry.errors import SchemaError
from kdump.schema_registry.registry import Registry, Schema
from kdump.schema_registry.sources import read_schemas
from kdump.schema_registry.usage import FieldUse, PartitionUse, usage_of
from kdump.storage.replica import Replica, read_replicas


@dataclass(slots=True)
class TopicUse:
    """What the records of a topic use: of its keys and of its values."""

    topic: str
    key: FieldUse = field(default_factory=FieldUse)
    value: FieldUse = field(default_factory=FieldUse)
    records: int = 0
    is_sample: bool = False

    def add(self, other: PartitionUse) -> None:
        """Add a partition."""
        self.records += other.records
        self.is_sample |= other.is_sample
        self.key.add(other.key)
        self.value.add(other.value)

    @property
    def fields(self) -> tuple[tuple[str, FieldUse], ...]:
        """Keys and values with their names."""
        return ("key", self.key), ("value", self.value)

    @property
    def has_findings(self) -> bool:
        """Whether records name schemas that are not there, or do not decode."""
        return any(use.unknown or use.undecodable for _, use in self.fields)


class Schemas:
    """The schemas at a place, and what uses them. `problems` say by schema id why nothing decodes with it."""

    def __init__(self, source: str, registry: Registry) -> None:
        """Take the schemas that were read at `source`. Raises ExtraMissingError where a library is not installed."""
        check_libraries(registry)
        self.source = source
        self.registry = registry
        self._decoder = PayloadDecoder(registry)
        self.problems: Mapping[int, str] = {
            schema.id: why for schema in registry.schemas if (why := _problem(self._decoder, schema))
        }

    def uses(self, replicas: Iterable[Replica], report: Report, *, deep: bool) -> Iterator[TopicUse]:
        """Yield what each topic uses, its partitions added up; these come by topic."""
        use: TopicUse | None = None

        def usage(replica: Replica) -> Iterator[tuple[str, PartitionUse]]:
            yield replica.topic, usage_of(replica.log, replica.topic, self._decoder, report, deep=deep)

        for topic, part in read_replicas(replicas, report, usage):
            if use is not None and use.topic != topic:
                yield use
                use = None
            if use is None:
                use = TopicUse(topic)
            use.add(part)
        if use is not None:
            yield use


def registry_at(source: str | None, found: Iterable[Replica], report: Report) -> tuple[str, Registry]:
    """Return the schemas at a place, or else those in the registry's topic among the replicas, and where they are.

    Raises OSError, KdumpError where there are none.
    """
    at = source or next((each.log.path for each in found if each.topic == SCHEMAS_TOPIC and each.log.segments), "")
    if not at:
        raise KdumpError(f"no {SCHEMAS_TOPIC}-0 is among these PATHs: name the schemas with --schemas PATH")
    return at, read_schemas(at, report)


def may_have_schemas(replica: Replica) -> bool:
    """Return whether records of a partition may be written by schemas: not those of internal topics."""
    return replica.topic != SCHEMAS_TOPIC and not replica.topic.startswith("__")


def _problem(decoder: PayloadDecoder, schema: Schema) -> str | None:
    """Return why nothing can be decoded with a schema; None where something can."""
    try:
        decoder.codec(schema)
    except SchemaError as error:
        return str(error)
    return None

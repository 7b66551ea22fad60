"""What payloads are written by: the schemas of a registry, and the records that use them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from kdump.errors import OnError, Problem, check_truths
from kdump.named_tuples import NamedTuple

if TYPE_CHECKING:
    from kdump.operations.schemas import TopicUse
    from kdump.schemas.registry import Registry

from kdump.library.arguments import judge, optional, replicas_of
from kdump.storage.open import Path


class SchemasUsed(NamedTuple):
    """The schemas at `source`, and what each topic uses of them.

    `problems` say by schema id why nothing decodes with it, the registry's own `problems` which records it cannot take.
    """

    source: str
    registry: Registry
    problems: Mapping[int, str]
    uses: tuple[TopicUse, ...]


def schemas(
    *paths: Path, source: Path | None = None, deep: bool = False, errors: str = OnError.RAISE
) -> SchemasUsed:
    """Return the schemas of a schema registry, and which of them the records of topics use.

    The schemas are those in _schemas-0 among the paths, or those at `source`: a partition directory of the registry's
    topic, an export of it, or a folder of schema files. Of large partitions a sample is read, unless `deep`. Of several
    replicas of a partition the farthest counts. With `errors="skip"` damage is skipped. Needs the extra `schemas`.
    Raises OSError, NameFormatError, KdumpError where there are no schemas.
    """
    from kdump.operations.schemas import Schemas, may_have_schemas, registry_at
    from kdump.storage.replica import farthest

    policy = OnError.beside_one_result(errors)
    check_truths(deep=deep)
    met: list[Problem] = []
    given = optional(source, "source")
    found = replicas_of(paths, met.append)
    at, registry = registry_at(given, found, met.append)
    known = Schemas(at, registry)
    logs = farthest(filter(may_have_schemas, found), met.append)
    uses = tuple(known.uses(logs, met.append, deep=deep))
    for problem in met:
        judge(problem, policy, [])
    return SchemasUsed(at, registry, known.problems, uses)

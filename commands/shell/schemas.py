"""The schemas that a command decodes with: those of --schemas, or of the registry's topic among the PATHs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

import click

from kdump.errors import KdumpError, Problem
from kdump.formats.printable import safe, safe_path
from kdump.storage.directory import LogDirectory
from kdump.storage.open import Place
from kdump.storage.partition import PartitionLog

from .options import Option
from .output import complain, note
from .paths import expand
from .screen import Screen

if TYPE_CHECKING:
    from kdump.schema_registry.decoder import PayloadDecoder

schemas_option: Option = click.option(
    "--schemas", metavar="PATH",
    help="Decode keys and values with the schemas in PATH: a partition directory of a schema registry's topic"
    " (_schemas-0), an export of it, or a folder of schema files.",
)  # fmt: skip


def payload_decoder(places: Iterable[Place], path: str | None) -> PayloadDecoder | None:
    """Return the decoder with the schemas at `path`; without one those among the places; None without any.

    Raises OSError, KdumpError.
    """
    found = path or _schemas_among(places) or _schemas_among(_narrowed())
    if found is None:
        return None
    from kdump.schema_registry.decoder import PayloadDecoder, check_libraries
    from kdump.schema_registry.sources import read_schemas

    try:
        registry = read_schemas(found, _complain)
        check_libraries(registry)
    except (KdumpError, OSError) as error:
        if path is not None:
            raise
        note(f"values are not decoded by the schemas in {safe_path(found)}: {safe(str(error))}")
        return None
    for problem in registry.problems:
        note(f"{safe_path(found)}: {safe(problem)}")
    return PayloadDecoder(registry)


def _schemas_among(places: Iterable[Place]) -> str | None:
    """Return the registry's topic among the places, if its usual name is there."""
    for place in places:
        if isinstance(place, PartitionLog) and place.name and place.name.topic == "_schemas" and place.segments:
            return place.path
        if isinstance(place, LogDirectory):
            from kdump.schema_registry.sources import schemas_partition

            if (path := schemas_partition(place.path)) is not None:
                return path
    return None


def _narrowed() -> Iterator[Place]:
    """Yield the PATHs as they were given where --topic has put partitions in their place."""
    for path in Screen.current.narrowed:
        with suppress(OSError, KdumpError):  # what is wrong with them is said elsewhere
            yield from expand([path])


def _complain(problem: Problem) -> None:
    place = "" if problem.position is None else f"byte {problem.position}: "
    complain(f"{safe_path(problem.path)}: {place}{safe(problem.text)}")

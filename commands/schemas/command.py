"""`kdump schemas`: the schemas of a registry's topic, and which records use them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import click

from kdump.errors import KdumpError
from kdump.formats.printable import safe, safe_path
from kdump.schemas.decoder import PayloadDecoder, check_libraries
from kdump.schemas.registry import Registry
from kdump.schemas.sources import SCHEMAS_TOPIC, read_schemas
from kdump.schemas.usage import usage_of
from kdump.storage.replica import Replica, held_replicas

from ..shell import exit_codes
from ..shell.choice import chooses, has_partition
from ..shell.output import note
from ..shell.replicas import newest, replicas_at
from ..shell.rows import format_option, output_for
from ..shell.session import Diagnostics
from .text import JsonLines, TextLines, TopicUse, schema_problem


@click.command("schemas")
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option("--schemas", metavar="PATH",
    help="Take the schemas from PATH: a partition directory of the registry's topic, an export of it, or a folder of"
    " schema files. By default from _schemas-0 among the PATHs.")
@click.option("--topic", "patterns", multiple=True, metavar="GLOB",
    help="Show what the topics use whose name matches. May be repeated.")
@click.option("--deep", is_flag=True, help="Read all records, not a sample of each partition.")
@click.option("--id", "schema_id", type=click.IntRange(min=0), metavar="ID",
    help="Print the text of this schema, and nothing else.")
@format_option
def command(
    paths: tuple[str, ...],
    schemas: str | None,
    patterns: tuple[str, ...],
    deep: bool,
    schema_id: int | None,
    format_: str,
) -> int:
    """Show the schemas of a schema registry, and which records use them.

    PATHs are partition directories or log directories. The schemas are those in the registry's topic, _schemas, which
    a log directory among the PATHs has, or those that --schemas names. No registry is asked. Deleted versions are
    shown too: records that were written with them still need them.

    Of a partition of more than 4 MiB a sample is read: 500 records at each of 16 places. --deep reads all. Keys and
    values count by the schema id that they begin with, or that a header names.

    Decoding needs libraries: pip install 'kafka-kdump[schemas]'.

    \b
    Examples:
      kdump schemas /var/lib/kafka/data
      kdump schemas /var/lib/kafka/data --topic 'orders*' --deep
      kdump schemas /data/orders-0 --schemas /backup/_schemas-0 --format jsonl
      kdump schemas /data/_schemas-0 --id 15

    \b
    Exit codes:
      0    every schema that records name is there, and they decode
      1    records name schemas that are not there, or do not decode;
           a schema cannot be used; data is damaged
      2    the command line is wrong
      3    a file could not be found or read
    """
    troubles = Diagnostics()
    found = replicas_at(paths, troubles)
    if not found and troubles.code:
        return troubles.code
    source = schemas or _registry_among(found)
    if not source:
        raise KdumpError(f"no {SCHEMAS_TOPIC}-0 is among these PATHs: name the schemas with --schemas PATH")
    registry = read_schemas(source, troubles)
    for problem in registry.problems:
        note(f"{safe_path(source)}: {safe(problem)}")
    if schema_id is not None:
        return _show(registry, schema_id, source)
    check_libraries(registry)
    decoder = PayloadDecoder(registry)
    chosen = chooses(patterns)
    logs = [each for each in found if chosen(each.topic) and has_partition(each.partition) and _may_have_schemas(each)]
    with output_for(format_) as out:
        printer = (JsonLines if format_ == "jsonl" else TextLines)(out.write)
        problems = {schema.id: why for schema in registry.schemas if (why := schema_problem(decoder, schema))}
        printer.registry(source, registry, problems)
        uses = list(_uses(newest(logs, troubles), decoder, troubles, deep=deep))
        printer.uses(uses)
        printer.finish(registry, uses, problems)
        if problems or any(use.has_findings for use in uses):
            troubles.worsen(exit_codes.FINDINGS)
    return troubles.code


def _registry_among(found: Iterable[Replica]) -> str:
    return next((each.log.path for each in found if each.topic == SCHEMAS_TOPIC and each.log.segments), "")


def _may_have_schemas(replica: Replica) -> bool:
    return replica.topic != SCHEMAS_TOPIC and not replica.topic.startswith("__")


def _uses(
    replicas: Iterable[Replica], decoder: PayloadDecoder, troubles: Diagnostics, *, deep: bool
) -> Iterator[TopicUse]:
    """Yield what each topic uses, its partitions added up."""
    use: TopicUse | None = None
    for replica in held_replicas(replicas, troubles):
        found = usage_of(replica.log, replica.topic, decoder, troubles, deep=deep)
        if use is not None and use.topic != replica.topic:
            yield use
            use = None
        if use is None:
            use = TopicUse(replica.topic)
        use.add(found)
    if use is not None:
        yield use


def _show(registry: Registry, schema_id: int, source: str) -> int:
    schema = registry.by_id(schema_id)
    if schema is None:
        raise KdumpError(f"{safe_path(source)}: there is no schema {schema_id}")
    with output_for("text") as out:
        out.write("".join(f"{safe(line)}\n" for line in schema.text.splitlines()))
    return exit_codes.OK

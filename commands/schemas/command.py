"""`kdump schemas`: the schemas of a registry's topic, and which records use them."""

from __future__ import annotations

import click

from kdump.errors import KdumpError
from kdump.formats.printable import safe, safe_path
from kdump.operations.schemas import Schemas, may_have_schemas, registry_at
from kdump.schema_registry.registry import Registry

from ..shell import exit_codes
from ..shell.output import note
from ..shell.replicas import chosen_replicas, newest, replicas_at
from ..shell.rows import OutputFormat, format_option, output_for, printer_of
from ..shell.session import Diagnostics


@click.command("schemas")
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option("--schemas", metavar="PATH",
    help="Take the schemas from PATH: a partition directory of the registry's topic, an export of it, or a folder of"
    " schema files. By default from _schemas-0 among the PATHs.")
@click.option("--topic", "patterns", multiple=True, metavar="GLOB",
    help="Only topics whose name matches. May be repeated.")
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
    format_: OutputFormat,
) -> int:
    """Show the schemas of a schema registry, and which records use them.

    PATHs are partition directories or log directories. The schemas are those in the registry's topic _schemas in a log
    directory among the PATHs, or those that --schemas names. kdump asks no registry. It shows deleted versions too:
    records that were written with them still need them.

    Of a partition of more than 4 MiB kdump reads a sample: 500 records at each of 16 places. --deep reads all. Keys and
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
    diagnostics = Diagnostics()
    found = replicas_at(paths, diagnostics)
    if not found and diagnostics.code:
        return diagnostics.code
    source, registry = registry_at(schemas, found, diagnostics)
    for problem in registry.problems:
        note(f"{safe_path(source)}: {safe(problem)}")
    if schema_id is not None:
        return _show(registry, schema_id, source)
    known = Schemas(source, registry)
    logs = list(filter(may_have_schemas, chosen_replicas(found, patterns)))
    with output_for(format_) as out:
        printer = printer_of(__package__, format_, out.write)
        printer.registry(source, registry, known.problems)
        uses = list(known.uses(newest(logs, diagnostics), diagnostics, deep=deep))
        printer.uses(uses)
        printer.end(registry, uses, known.problems)
        if known.problems or any(use.has_findings for use in uses):
            diagnostics.worsen(exit_codes.FINDINGS)
    return diagnostics.code


def _show(registry: Registry, schema_id: int, source: str) -> int:
    schema = registry.by_id(schema_id)
    if schema is None:
        raise KdumpError(f"{safe_path(source)}: there is no schema {schema_id}")
    with output_for(OutputFormat.TEXT) as out:
        out.write("".join(f"{safe(line)}\n" for line in schema.text.splitlines()))
    return exit_codes.OK

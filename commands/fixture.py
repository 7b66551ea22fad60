"""`kdump fixture`: make log directories from a specification, sound or broken in named ways."""

from __future__ import annotations

import json
import os
import sys

import click

from kdump.fixture.errors import SpecError

from . import exit_codes
from .output import Output, complain, counted, escape_json, safe, safe_path


@click.group("fixture")
def command() -> None:
    """Make Kafka log directories for tests, sound or broken in a named way, without a broker.

    \b
    Examples:
      kdump fixture build orders.yaml data
      kdump fixture build orders.yaml data --fault truncate-tail --fault txnindex-missing:topic=payments
      kdump fixture faults
    """


@command.command("build")
@click.argument("spec", metavar="SPEC")
@click.argument("out", metavar="OUT")
@click.option("--fault", "faults", multiple=True, metavar="NAME[:FIELD=VALUE,...]",
    help="Break this afterwards, as if it stood in the specification. May be repeated.")
@click.option("--seed", metavar="TEXT", help="Draw contents and ids from this seed, not from the specification's.")
def build_command(spec: str, out: str, faults: tuple[str, ...], seed: str | None) -> int:
    """Build the log directories that SPEC describes in the folder OUT.

    SPEC is a YAML file, - for standard input; docs/fixtures.md says what may be in it, and kdump fixture schema prints
    the JSON schema for editors. OUT must not exist yet, or be empty. It is the log directory, unless SPEC names log
    directories: then they are folders in it. It appears when all is done, or not at all.

    The same specification and seed give the same bytes, as long as the libraries that compress are the same.

    Fields of a fault are log_dir, topic, partition, segment, batch and bytes; what is left out is chosen: the first
    place in which the fault can be.

    \b
    Examples:
      kdump fixture build orders.yaml data
      kdump fixture build orders.yaml data --seed 7 --fault flip-payload-bit:topic=orders,partition=1
      kdump fixture build - data < orders.yaml

    Exit codes: 0 built, 2 SPEC is wrong, 3 could not complete, 4 there is something in OUT already.
    """
    from kdump.fixture.builder import OccupiedError
    from kdump.fixture.document import read_document
    from kdump.fixture.make import make
    from kdump.fixture.parsing import read_file

    try:
        document = read_document(sys.stdin.buffer.read(), "standard input") if spec == "-" else read_file(spec)
        built = make(document, out, faults, seed)
    except SpecError as error:
        complain(safe(str(error)))
        return exit_codes.USAGE
    except OccupiedError as error:
        complain(safe(str(error)))
        return exit_codes.REFUSED
    with Output() as output:
        output.write(
            f"{safe_path(out)}: {counted(built.partitions, 'partition')} in"
            f" {counted(len(built.log_dirs), 'log directory', 'log directories')}\n"
        )
        for done in built.faults:
            path = os.path.join(out, os.path.relpath(done.path, built.path))
            output.write(f"{done.name}: {safe_path(path)}{done.place}\n")
    return exit_codes.OK


@command.command("faults")
@click.option("--format", "format_", type=click.Choice(("text", "jsonl")), default="text", show_default=True,
    help="How they are printed.")
def faults_command(format_: str) -> int:
    """List the faults: what each breaks, and what kdump verify then finds.

    Findings in square brackets depend on what else is in the log. In round brackets are the fields with which a
    fault can be led to its place, besides log_dir, topic and partition.

    \b
    Examples:
      kdump fixture faults
      kdump fixture faults --format jsonl | jq -r .name
    """
    from kdump.fixture.faults import FAULTS

    with Output() as output:
        for fault in FAULTS.values():
            if format_ == "jsonl":
                row = {
                    "name": fault.name,
                    "meaning": fault.meaning,
                    "codes": fault.codes,
                    "may": fault.may,
                    "takes": fault.takes,
                }
                output.write(escape_json(json.dumps(row, ensure_ascii=False)) + "\n")
                continue
            codes = " ".join((*fault.codes, *(f"[{code}]" for code in fault.may)))
            takes = f"  ({', '.join(fault.takes)})" if fault.takes else ""
            output.write(f"{fault.name}{takes}\n    {fault.meaning}\n    {codes or 'no finding'}\n")
    return exit_codes.OK


@command.command("schema")
def schema_command() -> int:
    """Print the JSON schema of specifications, which editors use to check and complete them.

    \b
    Example:
      kdump fixture schema > kdump-fixture.schema.json
    """
    from kdump.fixture.schema import schema_text

    with Output() as output:
        output.write(schema_text())
    return exit_codes.OK

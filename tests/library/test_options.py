"""Whatever an option of a command asks for, a function of the library can be asked for, too.

The test walks what click knows: a new option without a parameter fails it. Either the function gets one, or it is
written here why nothing of it is for a program.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

import click
import pytest

import kdump
from kdump.commands.cli import COMMANDS, cli

FUNCTIONS: dict[str, str] = {
    "fixture build": "kdump.fixture.make.make",
    "quorum set-voters": "set_voters",
    "quorum show": "quorum",
    "rebuild-index": "rebuild_index",
    "txns": "transactions",
}
"""The functions of commands that have another name."""

NO_FUNCTION: dict[str, str] = {
    "completion": "it prints a script for a shell",
    "help": "it prints texts for people",
    "fixture faults": "it prints the names of kdump.fixture.faults, which is data",
    "fixture schema": "it prints a file that is part of the package",
}
"""Commands without a function, and why."""

NOT_FOR_PROGRAMS: dict[str, str] = {
    "--brief": "text: a line for each problem",
    "--color": "text: colours on a terminal",
    "--details": "text: which figures are printed in words",
    "--fail-on": "the exit code; results say how grave a finding is",
    "--full": "text: bytes are printed to their end; rows have them",
    "--min-severity": "text: which findings are printed; results have their severity",
    "--no-header": "JSON lines without the first one",
    "--no-pager": "text: a pager on a terminal",
    "--priority": "of the process: os.nice",
    "--progress": "text: progress on a terminal",
    "--quiet": "text: nothing where nothing was found",
    "--report": "the result as a file for people or other programs",
    "--report-format": "rows in JSON or text; the function returns what they are made of",
    "--schema": "prints the JSON schema of the rows",
    "--segments": "text: whether segments are listed; results have them",
    "--sort": "text: the order of what is printed",
    "--times": "text: how times are printed",
    "--verbose": "text: how much is printed; results have all of it",
    "--wide": "text: the width of a terminal",
}
"""Options that are about a terminal, text or the exit code alone, of whatever command."""

OUTPUT_FORMAT = "--format"
"""How it is printed, but where the function writes files or reads an input in that format."""
HAVE_FORMAT = ("append", "export")

EVERYWHERE: dict[str, str] = {
    "--topic": "partitions.topics",
    "--partition": "partitions.numbers",
    "--config": "log_directories.config",
    "--apply": "apply",
    "--kafka": "release",
    "--no-backup": "keep_originals",
    "--no-index": "use_indexes",
    "--max-decompressed-size": "max_decompressed",
}
"""What stands for an option that the function has no parameter for by that name: a parameter of the function or, with
a point, a parameter or a field of another function or class."""

OF_COMMANDS: dict[str, dict[str, str]] = {
    "append": {
        "--any-producer-id": "Opening.any_producer_id",
        "--base-sequence": "AppendOptions.base_sequence",
        "--batch-bytes": "Packing.batch_bytes",
        "--batch-records": "Packing.batch_records",
        "--codec": "Packing.codec",
        "--config": "append_from.config",
        "--coordinator-epoch": "AppendOptions.coordinator_epoch",
        "--create": "Opening.create",
        "--format": "append_from.format",
        "--input": "append_from.source",
        "--keep-offsets": "AppendOptions.keeps_offsets",
        "--key-separator": "Reading.key_separator",
        "--leader-epoch": "AppendOptions.leader_epoch",
        "--level": "Packing.level",
        "--magic": "append_from.config",  # message.format.version
        "--null-marker": "Reading.null_marker",
        "--producer-epoch": "AppendOptions.producer_epoch",
        "--producer-id": "AppendOptions.producer_id",
        "--repack": "Reading.keeps_batches",
        "--start-offset": "NewLog.start_offset",
        "--timestamp": "Reading.timestamp",
        "--topic-id": "NewLog.topic_id",
        "--transaction-version": "AppendOptions.transaction_version",
        "--transactional": "AppendOptions.ending",
    },
    "compact": {"--old-formats": "converts_old_formats", "--compare-keys": "compares_keys"},
    "dump": {
        "--as": "as_log",
        "--at": "batch_fields.at",
        "--fields": "batch_fields.path",
        "--header": "Selection.headers",
        "--key": "Selection.key",
        "--offsets": "Selection.start_offset",
        "--producer-id": "Selection.producer_ids",
        "--since": "Selection.since",
        "--until": "Selection.until",
    },
    "explain": {"words": "text", "--log": "explain_log.lines"},
    "export": {
        "--by": "ExportOptions.by",
        "--codec": "ExportOptions.codec",
        "--columns": "ExportOptions.columns",
        "--conf": "engine",
        "--control": "ExportOptions.control",
        "--format": "ExportOptions.format",
        "--isolation": "ExportOptions.isolation",
        "--leader": "lost_records.leader",
        "--lost": "lost_records.folder",
        "--master": "engine",
        "--max-decompressed-size": "ExportOptions.limit",
        "--no-index": "ExportOptions.use_indexes",
        "--offsets": "Selection.start_offset",
        "--since": "Selection.since",
        "--skip-damage": "ExportOptions.skips_damage",
        "--target-file-size": "ExportOptions.target_bytes",
        "--to": "folder",
        "--until": "Selection.until",
    },
    "fixture build": {"spec": "source", "--fault": "faults"},
    "groups": {
        "--group": "kdump.topics.groups.Group.name",
        "--now": "kdump.topics.groups.Group.is_expired",
        "--partition": "kdump.topics.groups.Group.of_partitions",
        "--retention-ms": "kdump.topics.groups.Group.is_expired",
        "--topic": "kdump.topics.groups.Group.of_partitions",
    },
    "lookup": {"path": "paths", "--batch": "lookups.requests", "--explain": "trace"},
    "ls": {"--graph": "outline"},
    "metadata": {
        "--partition": "kdump.topics.metadata_log.MetadataState.image",
        "--topic": "kdump.topics.metadata_log.MetadataState.image",
    },
    "quorum set-voters": {"--accept-loss": "accepts_loss", "--listener": "VoterAt.listener"},
    "rebuild-index": {"--kind": "kinds", "--all": "wants_all"},
    "repair": {
        "--fix-bit": "Request.strategy",
        "--from": "heal.sources",
        "--missing-markers": "Request.lost_markers",
        "--only": "Request.kinds",
        "--strategy": "Request.strategy",
        "--topic-id": "Request.topic_id",
        "--unproved": "heal.unproved",
    },
    "resurrect": {
        "--accept-loss": "Wanted.accept_loss",
        "--cluster-id": "Wanted.cluster_id",
        "--config": "Wanted.properties",
        "--controller": "Wanted.controller",
        "--hold-retention": "Wanted.holds_retention",
        "--kafka": "Wanted.release",
        "--map": "Wanted.map",
        "--metadata": "Wanted.metadata",
        "--new-empty": "Wanted.new_empty",
        "--nodes": "Wanted.nodes",
        "--offsets-partitions": "Wanted.partitions",
        "--quorum": "Wanted.is_dynamic",
        "--remote-storage": "Wanted.has_remote_storage",
        "--share-state-partitions": "Wanted.partitions",
        "--transaction-partitions": "Wanted.partitions",
        "--unknown-topics": "Wanted.unknown_topics",
    },
    "retain": {
        "--cleanup-policy": "settings",
        "--delete-retention-ms": "settings",
        "--retention-bytes": "settings",
        "--retention-ms": "settings",
    },
    "schemas": {"--schemas": "source", "--id": "kdump.schema_registry.registry.Registry.by_id"},
    "serve": {
        "--advertise": "ServeOptions.advertised",
        "--commits": "ServeOptions.commits",
        "--ignore-lock": "ignores_lock",
        "--listen": "ServeOptions.host",
        "--max-connections": "ServeOptions.max_connections",
        "--max-request-size": "ServeOptions.max_request_bytes",
        "--metadata-users": "has_metadata_users",
        "--tls-cert": "ServeOptions.tls",
        "--tls-key": "ServeOptions.tls",
        "--users": "passwords",
    },
    "stats": {
        "--conf": "kdump.spark.jobs.stats_of",
        "--engine": "kdump.spark.jobs.stats_of",
        "--isolation": "StatsOptions.isolation",
        "--key-memory": "StatsOptions.key_memory",
        "--master": "kdump.spark.jobs.stats_of",
        "--max-decompressed-size": "StatsOptions.limit",
        "--now": "kdump.statistics.partition.SegmentTimes",  # the outlook of a report is drawn from these
        "--records": "StatsOptions.records",
        "--retention-ms": "kdump.statistics.partition.SegmentTimes",
        "--sample": "StatsOptions.sample",
    },
    "txns": {"--all": "transactional_ids.paths", "--ended": "keep_ended"},
    "undo": {"paths": "path", "--older-than": "prune.older_than_ms", "--prune": "prune.path"},
    "verify": {
        "--conf": "kdump.spark.verification.SparkVerification",
        "--drop-cache": "drops_pages",
        "--engine": "kdump.spark.verification.SparkVerification",
        "--master": "kdump.spark.verification.SparkVerification",
        "--severity": "severities",
    },
}
"""The same for single commands."""
OF_COMMANDS["roll"] = {"paths": "path"}
WRITE = {
    "--clean": "Opening.clean",
    "--ignore-lock": "Opening.ignore_lock",
    "--index-entries": "index_per_batch",
    "--log-start-offset": "Opening.log_start_offset",
    "--no-backup": "Opening.backup",
    "--now": "Opening.clock",
    "--recovery-point": "Opening.recovery_point",
    "--topic-config": "config",
}
for _name in ("append", "roll"):
    OF_COMMANDS[_name] = WRITE | OF_COMMANDS[_name]


def commands() -> Iterator[tuple[str, click.Command]]:
    """Every command, named as in `quorum show`."""
    context = click.Context(cli)
    for name in COMMANDS:
        command = cli.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from ((f"{name} {inner}", each) for inner, each in command.commands.items())
        else:
            yield name, command


def options() -> Iterator[tuple[str, str]]:
    """Each command with a function, and each of its options by its longest name; arguments by their own."""
    for name, command in commands():
        if name not in NO_FUNCTION:
            for param in command.params:
                yield name, max(param.opts, key=len)


def function_of(command: str) -> Callable[..., Any]:
    found = FUNCTIONS.get(command, command)
    function: Callable[..., Any] = named(found) if "." in found else getattr(kdump, found)
    return function


def named(path: str) -> Any:
    """What stands at a dotted path: a module's function or class, or something of a class."""
    parts = path.split(".")
    for stop in range(len(parts), 0, -1):
        try:
            found: Any = import_module(".".join(parts[:stop]))
        except ModuleNotFoundError:
            continue
        for part in parts[stop:]:
            if part in getattr(found, "__dataclass_fields__", ()):
                return found
            found = getattr(found, part)
        return found
    raise AssertionError(path)


def has(place: object, name: str) -> bool:
    """Whether a function has a parameter, or a class a field, of this name."""
    if inspect.isclass(place):
        return name in place.__annotations__
    assert callable(place)
    return name in inspect.signature(place).parameters


def parameter_of(command: str, option: str) -> str:
    """What stands for an option: by the command's own table, by its name, or by the table for all commands."""
    given = OF_COMMANDS.get(command, {}).get(option)
    if given is not None:
        return given
    plain = option.removeprefix("--").replace("-", "_")
    return plain if has(function_of(command), plain) else EVERYWHERE.get(option, plain)


def test_each_option_has_a_parameter() -> None:
    for command, option in options():
        if option not in NOT_FOR_PROGRAMS and (option != OUTPUT_FORMAT or command in HAVE_FORMAT):
            check(command, option)


@pytest.mark.parametrize("command", ["repair", "dump", "quorum set-voters"])
def test_a_new_option_needs_one(command: str) -> None:
    with pytest.raises(AssertionError, match="what can a program ask for"):
        check(command, "--new-option")


def check(command: str, option: str) -> None:
    parameter = parameter_of(command, option)
    if parameter.startswith("kdump."):
        if ".spark." in parameter:
            pytest.importorskip("pyspark")
        assert named(parameter) is not None
        return
    owner, point, name = parameter.rpartition(".")
    place = getattr(kdump, owner) if point else function_of(command)
    assert has(place, name), f"{command} {option}: {parameter} is no parameter: what can a program ask for?"


def test_each_command_has_a_function_or_a_reason() -> None:
    names = {name for name, _ in commands()}
    assert not (set(FUNCTIONS) | set(NO_FUNCTION) | set(OF_COMMANDS)) - names
    for name in names - set(NO_FUNCTION):
        assert callable(function_of(name))


def test_no_entry_is_left_over() -> None:
    """A renamed option leaves none behind."""
    known = set(options())
    assert not {(command, option) for command, found in OF_COMMANDS.items() for option in found} - known
    assert not (NOT_FOR_PROGRAMS.keys() | EVERYWHERE.keys()) - {option for _, option in known}

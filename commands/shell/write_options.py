"""What the commands that write a partition share: its topic's configuration, opening it, and the safety checks."""

from __future__ import annotations

import os
from collections.abc import Mapping

import click

from kdump.disk.reading import is_named
from kdump.errors import ConfigError, NameFormatError, RefusedError
from kdump.formats.printable import command_line, safe, safe_path
from kdump.formats.time_units import wall_clock
from kdump.operations.append import NewLog, Opening, rules_beside, writing_settings
from kdump.operations.cluster_rules import ClusterRules
from kdump.operations.open_log import NotAppendableError
from kdump.releases import KafkaRelease
from kdump.settings.names import check_given
from kdump.settings.writing import WritingSettings
from kdump.storage.around import directory_around
from kdump.write.log_writer import LogWriter

from . import exit_codes
from .config_option import read_config
from .options import all_of
from .output import NO_SUCH, as_given, complain, error_text
from .session import say_refused
from .startup_options import startup_options

PER_BATCH, PER_APPEND = "batch", "append"
REFUSALS = (RefusedError, NotAppendableError)
"""What makes a command refuse to touch a log."""

write_options = all_of(
    startup_options,
    click.option(
        "--topic-config", "settings", multiple=True, metavar="NAME=VALUE",
        help="A setting of the topic, such as segment.bytes=1048576. May be repeated.",
    ),
    click.option(
        "--index-entries", type=click.Choice((PER_BATCH, PER_APPEND)),
        help="Write index entries by batch, as since Kafka 4.1, or by append. By default as the"
        " release does.",
    ),
    click.option(
        "--no-backup", is_flag=True,
        help="After an unclean shutdown, keep nothing of the indexes and snapshots that have to be rebuilt.",
    ),
    click.option(
        "--ignore-lock", "force", metavar="DIRECTORY",
        help="Write even though a broker seems to run. Give the name of the partition directory.",
    ),
)  # fmt: skip
"""The options that `chosen_config` and `chosen_opening` take."""


def chosen_config(
    config_file: str | None,
    settings: tuple[str, ...],
    index_entries: str | None,
    kafka: KafkaRelease | None,
    rules: ClusterRules,
    version: Mapping[str, str] | None = None,
) -> WritingSettings:
    """Return the configuration that the options name; the `rules`, and `version`, count where these are silent.

    Raises click.BadParameter.
    """
    properties = {**(version or {}), **(read_config(config_file, WritingSettings) if config_file is not None else {})}
    given: dict[str, str] = {}
    for setting in settings:
        name, equals, value = setting.partition("=")
        name = name.strip()
        if not equals:
            raise click.BadParameter(f"{safe(setting)!r}: expected NAME=VALUE", param_hint="--topic-config")
        given[name] = value
    try:
        check_given(given, WritingSettings.counting())
    except ConfigError as error:
        raise click.BadParameter(safe(str(error)), param_hint="--topic-config") from None
    try:
        per_batch = None if index_entries is None else index_entries == PER_BATCH
        return writing_settings(rules, properties, given, kafka, index_per_batch=per_batch)
    except ConfigError as error:
        raise click.UsageError(f"{safe(str(error))}.") from None


def chosen_opening(
    clean: bool | None,
    recovery_point: int | None,
    log_start_offset: int | None,
    now: int | None,
    no_backup: bool,
    force: str | None,
    create: NewLog | None = None,
    rules: ClusterRules | None = None,
    any_producer_id: bool = False,
) -> Opening:
    """Return how the options ask a log to be opened."""
    return Opening(
        clean,
        recovery_point,
        log_start_offset,
        clock=wall_clock if now is None else lambda: now,
        create=create,
        ignore_lock=force and force.rstrip("/"),
        backup=not no_backup,
        rules=rules,
        any_producer_id=any_producer_id,
    )


def known_rules(path: str) -> ClusterRules:
    """Return what the cluster's metadata says of the partition; say why where that is of no use. Raises OSError."""
    rules = rules_beside(path)
    if rules.problem is not None:
        problem = f"{safe_path(rules.problem.path)}: {safe(rules.problem.text)}"
        complain(f"note: the settings of the topic in the cluster's metadata are not used: {problem}")
    return rules


def say_backup(log: LogWriter) -> None:
    """Say where what had to be replaced is kept, if anything was."""
    if log.change:
        complain(
            f"note: {safe(log.partition)}: indexes and snapshots were rebuilt, as after an unclean shutdown; the old"
            f" ones are kept: {command_line('kdump', 'undo', log.path, '--change', log.change)}"
        )


def refused(error: RefusedError | NotAppendableError, path: str) -> int:
    """Say why the log at this path, as it was given, is not touched; the exit code."""
    absolute = os.path.abspath(path)
    given = {absolute: path, os.path.dirname(absolute): directory_around(path)}
    say_refused(error, safe(as_given(error_text(error), given)))
    return exit_codes.REFUSED


def check_partition(path: str, *, may_be_new: bool = False) -> None:
    """Raise FileNotFoundError for what is not there, unless it is to be made, and for what is no partition directory.

    One that is to be made needs the name of one: anything else is wrong usage.
    """
    from kdump.formats.names import parse_partition_dir

    try:
        parse_partition_dir(os.path.basename(os.path.abspath(path)))
    except NameFormatError:
        text = "expected a partition directory, whose name is <topic>-<partition>"
        if may_be_new:
            raise click.UsageError(f"{safe_path(path)}: {text}") from None
        raise FileNotFoundError(2, text if is_named(path) else NO_SUCH, path) from None
    if not may_be_new and not is_named(path):
        raise FileNotFoundError(2, NO_SUCH, path)

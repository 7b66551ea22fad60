"""The operations that write a log as its leader does."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from io import TextIOBase
from typing import TYPE_CHECKING, BinaryIO

from kdump.errors import check_type, check_word

if TYPE_CHECKING:
    from kdump.interchange.lines import Reading
    from kdump.operations.append import Opening, Rolled
    from kdump.operations.append_input import Appended, AppendOptions
    from kdump.operations.cluster_rules import ClusterRules
    from kdump.settings.writing import WritingSettings
    from kdump.write.log_writer import LogWriter

from kdump.library.arguments import properties_of, release_of
from kdump.storage.open import Path, open_log, path_text


def append(
    path: Path,
    *,
    config: Path | Mapping[str, str] | None = None,
    release: str | None = None,
    index_per_batch: bool | None = None,
    opening: Opening | None = None,
) -> AbstractContextManager[LogWriter]:
    """Open a partition directory for appending as its leader does; it is closed cleanly when the `with` ends.

    `config` is a properties file, or settings of the topic that must matter here; it wins over what the cluster's
    metadata has. `release` is the one of Kafka that writes ("4.1"), that of the cluster unless given; with
    `index_per_batch` it writes index entries by batch, as since 4.1, else by append. `opening` says what else to know.
    The log directory is locked meanwhile. The `with` raises RefusedError, NotAppendableError, OSError; the call
    OSError, NameFormatError, ConfigError, ValueError.
    """
    from kdump.operations.append import opened

    _, settings, opening = _settings(path, config, release, index_per_batch, opening)
    return opened(path_text(path), settings, opening)


def append_from(
    path: Path,
    source: BinaryIO,
    *,
    format: str = "jsonl",
    reading: Reading | None = None,
    options: AppendOptions | None = None,
    config: Path | Mapping[str, str] | None = None,
    release: str | None = None,
    index_per_batch: bool | None = None,
    opening: Opening | None = None,
) -> Appended:
    """Append what a stream has: "jsonl" or "csv" as `kdump dump` prints them, or "lines", a value each.

    `reading` says how it is read, `options` how records become batches; the rest is as for `append`. What was appended
    before an error stays. Raises as the call and the `with` of `append` do, and KdumpError, with the line, for input
    that cannot be appended.
    """
    from kdump.interchange.lines import Lines, Reading
    from kdump.operations.append import opened
    from kdump.operations.append_input import READERS, Appender, AppendOptions

    check_word("format", format, READERS)
    check_type("options", options, AppendOptions, may_be_none=True)
    options = options or AppendOptions()
    rules, settings, opening = _settings(path, config, release, index_per_batch, opening)
    check_type("reading", reading, Reading, may_be_none=True)
    reading = reading or Reading(opening.clock)
    reading.check()
    _check_stream(source)
    with opened(path_text(path), settings, opening) as log:
        lines = Lines(source, str(getattr(source, "name", "<input>")))
        appender = Appender(log, lines, options.for_log(settings.record_version, rules))
        appender.run(READERS[format](lines, reading))
        return appender.appended()


def roll(
    path: Path,
    *,
    config: Path | Mapping[str, str] | None = None,
    release: str | None = None,
    index_per_batch: bool | None = None,
    opening: Opening | None = None,
) -> Rolled:
    """Begin a new segment at the end of a log, as a broker does when the last one is full; an empty one stays.

    All is as for `append`. Raises as its call and its `with` do.
    """
    from kdump.operations.append import opened, roll_active

    _, settings, opening = _settings(path, config, release, index_per_batch, opening)
    with opened(path_text(path), settings, opening) as log:
        return roll_active(log)


def _settings(
    path: Path,
    config: Path | Mapping[str, str] | None,
    release: str | None,
    index_per_batch: bool | None,
    opening: Opening | None,
) -> tuple[ClusterRules, WritingSettings, Opening]:
    """Return what the cluster says, what a log is written with, and how it is opened. Raises as `append` does."""
    from kdump.operations.append import Opening, rules_beside, writing_settings

    check_type("opening", opening, Opening, may_be_none=True)
    check_type("index_per_batch", index_per_batch, bool, may_be_none=True)
    opening = opening or Opening()
    path = path_text(path)
    if opening.create is None:
        open_log(path)
    rules = opening.rules or rules_beside(path)
    properties = properties_of(config)
    given = properties if isinstance(config, Mapping) else {}
    known = release_of(release)
    settings = writing_settings(rules, {} if given else properties, given, known, index_per_batch=index_per_batch)
    return rules, settings, replace(opening, rules=rules)


def _check_stream(source: object) -> None:
    """Raise TypeError for what is no stream of bytes, before the log is opened."""
    if not hasattr(source, "readline") or isinstance(source, TextIOBase):
        raise TypeError(f"source is {source!r}: expected a stream of bytes, as open(path, 'rb') is one")

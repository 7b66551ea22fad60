"""Whether log directories are sound."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kdump.findings.limit import MAX_PER_CODE
from kdump.formats.codecs import DEFAULT_LIMIT
from kdump.library.arguments import check_no_text, optional, properties_of
from kdump.operations.verify import VerifyRequest, VerifyRun
from kdump.storage.open import Path, path_text
from kdump.verify.options import Options
from kdump.verify.tasks import check_path


def verify(
    *paths: Path,
    deep: bool = False,
    jobs: int = 1,
    now: int | None = None,
    retention_ms: int | None = None,
    config: Path | Mapping[str, str] | None = None,
    max_timeout_ms: int | None = None,
    since_checkpoint: bool = False,
    drops_pages: bool = False,
    limit: int = DEFAULT_LIMIT,
    select: Iterable[str] = (),
    ignore: Iterable[str] = (),
    severities: Mapping[str, str] | None = None,
    max_per_code: int = MAX_PER_CODE,
    max_rate: int | None = None,
    max_duration: float | None = None,
    resume: Path | None = None,
    state: Path | None = None,
) -> VerifyRun:
    """Give the findings of log directories, partition directories and files one by one, and their totals.

    The keywords are the fields of Options and of VerifyRequest; `config` is a properties file, or properties, of the
    server, which count as those of its topics. Raises ValueError, ConfigError for options that make no sense,
    OSError and NameFormatError for a path that is not there or is nothing of Kafka's, RefusedError for a `resume` or
    `state` among Kafka's files, KdumpError for one that cannot be written or is something else. Nothing else is read
    before a finding is asked for. What cannot be read below a path is a finding (KD-READ).
    """
    check_no_text("select", select)
    check_no_text("ignore", ignore)
    options = Options(
        deep=deep,
        jobs=jobs,
        now=now,
        retention_ms=retention_ms,
        properties=None if config is None else properties_of(config),
        max_timeout_ms=max_timeout_ms,
        since_checkpoint=since_checkpoint,
        drops_pages=drops_pages,
        limit=limit,
        select=tuple(select),
        ignore=tuple(ignore),
        severities=tuple((severities or {}).items()),
        max_per_code=max_per_code,
        max_rate=max_rate,
    )
    options.check()
    found = [path_text(path) for path in paths]
    if not found:
        raise ValueError("no path is given")
    for path in found:
        check_path(path)
    return VerifyRun(found, options, VerifyRequest(max_duration, optional(resume), optional(state)))

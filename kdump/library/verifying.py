"""Whether log directories are sound."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kdump.findings.filter import FindingFilter
from kdump.findings.limit import MAX_PER_CODE
from kdump.formats.codecs import DEFAULT_LIMIT
from kdump.library.arguments import check_texts, check_words, optional, properties_of
from kdump.operations.verify import VerifyRequest, VerifyRun
from kdump.storage.open import Path, path_texts
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
    weights = {} if severities is None else severities
    check_texts("severities", weights)
    wanted: dict[str, Any] = {
        "select": check_words("select", select),
        "ignore": check_words("ignore", ignore),
        "severities": tuple(weights.items()),
    }
    for name, given in wanted.items():
        try:
            FindingFilter(**{name: given}).check()
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None
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
        max_per_code=max_per_code,
        max_rate=max_rate,
        **wanted,
    )
    options.check()
    found = path_texts(paths)
    for path in found:
        check_path(path)
    return VerifyRun(found, options, VerifyRequest(max_duration, optional(resume, "resume"), optional(state, "state")))

"""Whether log directories are sound, what is wrong with them, what it means, and what to do first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from kdump.check.options import Options
from kdump.check.tasks import check_path
from kdump.errors import NameFormatError, OnError, Problem, check_number, check_several, check_type
from kdump.findings.filter import FindingFilter
from kdump.findings.limit import MAX_PER_CODE
from kdump.formats.codecs import DEFAULT_LIMIT
from kdump.library.arguments import check_texts, check_words, judge, optional, places_of, properties_of, startup_options
from kdump.operations.verify import VerifyRequest, VerifyRun
from kdump.storage.open import Path, path_texts

if TYPE_CHECKING:
    from kdump.findings.explained import Explained, Recognized
    from kdump.findings.server_log import Entry
    from kdump.operations.doctor import Health

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


def doctor(
    *paths: Path,
    max_duration: float | None = 60.0,
    jobs: int = 1,
    now: int | None = None,
    config: Path | Mapping[str, str] | None = None,
    release: str | None = None,
    errors: str = OnError.RAISE,
) -> Health:
    """Say whether the broker of log directories starts, what needs somebody, and what to do about each, worst first.

    Logs are verified, the newest first, for `max_duration` seconds (None: all of them). `now` (ms) is the time at which
    ages are computed, by default when the logs were written to last. `config` is a properties file, or properties, of
    the server: of its log.dirs one may be absent. `release` is the one of Kafka that starts, as for `startup`. With
    `errors="skip"` what could not be read is only counted. Raises OSError, NameFormatError, ConfigError, ValueError.
    """
    from kdump.operations.doctor import Checkup, Doctor

    policy = OnError.beside_one_result(errors)
    check_number("jobs", jobs, 0)
    check_number("max_duration", max_duration, 0.0, may_be_none=True)
    problems: list[Problem] = []
    chosen: list[str] = []
    absent: list[tuple[str, OSError | NameFormatError]] = []
    for path in path_texts(paths):
        try:
            chosen += (place.path for place in places_of([path]) if place.path not in chosen)
        except (OSError, NameFormatError) as error:
            absent.append((path, error))
    circumstances = startup_options(now=now, config=config, release=release)
    checked = Doctor(chosen, Checkup(now, max_duration, jobs), circumstances, problems.append)
    for path, why in absent:
        if not checked.is_absent(path):
            raise why
    health = checked.run()
    for problem in problems:
        judge(problem, policy, [])
    return health


def explain(text: str = "") -> list[Explained | Recognized]:
    """Explain findings' codes, or a line that a broker or consumer printed: meaning, effect, causes, what to do.

    `text` is a code, a pattern such as "KD-IDX-*" or several of them ("": all codes), for each of which there is an
    Explained; or a line, which may be folded, with the Recognized message in it. The list is empty where the line is
    none that kdump knows. Raises KdumpError for a code that no finding has.
    """
    from kdump.findings.explained import explained, kinds_named, recognized

    check_type("text", text, str)
    kinds = kinds_named(text.split())
    if kinds:
        return [explained(kind) for kind in kinds]
    found = recognized(text)
    return [] if found is None else [found]


def explain_log(lines: Iterable[str]) -> list[Entry]:
    """List what a server.log says about log directories, once a place; first what needs somebody (`message.do`).

    Of an open file no more than the beginning of a line is held, however long that is.
    """
    from kdump.findings.server_log import ServerLog

    check_several("lines", lines)
    log = ServerLog()
    log.read(lines)
    return log.entries()

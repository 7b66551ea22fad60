"""What is wrong with log directories, what it means, and what to do first; nothing is changed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from kdump.errors import NameFormatError, OnError, Problem, check_number, check_several, check_type

if TYPE_CHECKING:
    from kdump.findings.explained import Explained, Recognized
    from kdump.findings.server_log import Entry
    from kdump.operations.doctor import Health

from kdump.library.arguments import judge, places_of, startup_options
from kdump.storage.open import Path, path_texts


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

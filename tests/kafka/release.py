"""The job `./dev release`: everything in which a release of Kafka differs from what kdump knows, as a list of work.

    ./dev release [VERSION] [--since VERSION] [--write]

It brings the release's jars (and locks them, if they are not), reads what they say of feature levels, settings, limits,
messages and texts, and prints how that differs from the newest release before it, or from the one of --since. Without
VERSION it only says whether Maven has a newer release than the newest tested one. --write writes the tables that kdump
has from the jars of all tested releases and of this one.

Exit codes: 0 nothing differs; 1 something does; 3 the jars could not be brought or read.
"""

from __future__ import annotations

import argparse
import sys

from tests.kafka.facts import FactsError, facts_of
from tests.kafka.jars import RELEASES, JarError, lock, newest_on_maven
from tests.kafka.tables import ROOT, differences, written


def main() -> int:
    assert __doc__ is not None
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(prog="./dev release", description=__doc__, formatter_class=form)
    parser.add_argument("version", nargs="?")
    parser.add_argument("--since", help="compare with this release")
    parser.add_argument("--write", action="store_true", help="write the tables")
    options = parser.parse_args()
    try:
        if options.version is None:
            return _newest()
        return _compare(options.version, options.since, writes=options.write)
    except (JarError, FactsError) as error:
        print(error, file=sys.stderr)
        return 3


def _newest() -> int:
    newest = newest_on_maven()
    if _number(newest) <= _number(RELEASES[-1]):
        print(f"Kafka {RELEASES[-1]} is tested, and Maven has none that is newer.")
        return 0
    print(f"Maven has Kafka {newest}, and the newest tested release is {RELEASES[-1]}: ./dev release {newest}")
    return 1


def _compare(version: str, since: str | None, *, writes: bool) -> int:
    earlier = [release for release in RELEASES if _number(release) < _number(version)]
    before = since or earlier[-1]
    for release in (before, version):
        lock(release)
    new = facts_of(version)
    work = list(differences(facts_of(before), new))
    print(f"Kafka {version}, compared with {before}: {len(work)} differences")
    for line in work:
        print(line)
    if writes:
        for path, text in written([*map(facts_of, earlier), new]).items():
            path.write_text(text)
            print(f"written: {path.relative_to(ROOT)}")
    return 1 if work else 0


def _number(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


if __name__ == "__main__":
    sys.exit(main())

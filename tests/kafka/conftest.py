"""Options of the `kafka` job, and what its tests share: directories of real brokers, and the count of comparisons."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kafka.directories import Rich, State, rich
from tests.kafka.jars import RELEASES
from tests.kafka.tally import Tally

_TALLY = pytest.StashKey[Tally]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("kafka", "tests with real Kafka brokers")
    group.addoption("--release", action="append", default=[], choices=RELEASES, help="only these releases of Kafka")
    group.addoption("--other", action="append", default=[], choices=RELEASES, help="what is held against those")
    group.addoption("--rounds", type=int, default=12, help="random damages of each release [12]")
    group.addoption("--seed", type=int, default=1, help="of the random damages [1]")
    group.addoption("--seconds", type=int, default=60, help="that the soaks of all releases take together [60]")
    group.addoption("--results", type=Path, help="write the counts of comparisons to this file")


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_TALLY] = Tally()


def pytest_sessionfinish(session: pytest.Session) -> None:
    if path := session.config.getoption("--results"):
        session.config.stash[_TALLY].write(path)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    releases = [one for one in RELEASES if one in (metafunc.config.getoption("--release") or RELEASES)]
    if "directory" in metafunc.fixturenames:
        pairs = [(release, state) for release in releases for state in State]
        names = [f"{release}-{state}" for release, state in pairs]
        metafunc.parametrize("directory", pairs, ids=names, indirect=True, scope="session")
    elif "other" in metafunc.fixturenames:
        others = metafunc.config.getoption("--other") or releases
        two = [(release, other) for release in releases for other in others if other != release]
        metafunc.parametrize(("release", "other"), two, scope="session")
    elif "release" in metafunc.fixturenames:
        metafunc.parametrize("release", releases, scope="session")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        item.add_marker(pytest.mark.kafka)


@pytest.fixture(scope="session")
def directory(request: pytest.FixtureRequest) -> Rich:
    """The directories of a release in a state, and what the broker said of them. Not to be changed."""
    return rich(*request.param)


@pytest.fixture
def tally(request: pytest.FixtureRequest) -> Tally:
    return request.config.stash[_TALLY]

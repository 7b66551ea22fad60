"""The pytest plugin: log directories and clusters for tests, a server for them, and an assertion that they are sound.

`kafka_log_dir` builds log directories for tests, `kafka_server` serves them to Kafka clients, `kdump_cluster` builds
what real brokers start on, `assert_sound` fails with what verify finds.

    def test_orders(kafka_log_dir, assert_sound):
        data = kafka_log_dir(spec="orders.yaml")
        my_tool.compact(data / "orders-0")
        assert_sound(data)

    def test_a_torn_tail(kafka_log_dir):
        data = kafka_log_dir(spec="orders.yaml", faults=["truncate-tail:topic=orders"])
        ...

    def test_my_consumer(kafka_server):
        server = kafka_server("orders.yaml", faults=["flip-payload-bit:topic=orders"], on_damage="skip")
        assert my_consumer.run(bootstrap_servers=server) == ...

    def test_with_a_real_broker(kdump_cluster):
        cluster = kdump_cluster("orders.yaml", kafka="4.3")
        my_broker.start(cluster.server_properties(1))

pytest loads it by itself once kdump is installed. What it needs is imported when a fixture is used.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pytest

if TYPE_CHECKING:
    from kdump.fixture.brokers import BuiltCluster

_MAX_SHOWN = 50

Spec = str | os.PathLike[str] | Mapping[str, Any] | None
"""A specification's path, YAML text or Python values, or none."""
Faults = Iterable[str | Mapping[str, Any]]
"""Names, NAME:FIELD=VALUE,... or mappings."""


class KafkaLogDir(Protocol):
    """What the fixture `kafka_log_dir` is."""

    def __call__(self, spec: Spec = None, faults: Faults = (), *, seed: str | int | None = None) -> Path:
        """Build a log directory in a temporary folder; its path.

        `spec` is a file (relative to the test's module, or else to pytest's root directory), YAML text, Python values,
        or None for a small specification that most faults fit into. `faults` are names, NAME:FIELD=VALUE,... or
        mappings; `seed` replaces that of the specification. Where it names log directories, the path is that of the
        folder that they are in.
        """


@pytest.fixture
def kafka_log_dir(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> KafkaLogDir:
    """Build Kafka log directories out of specifications, sound or with faults."""

    def build(spec: Spec = None, faults: Faults = (), *, seed: str | int | None = None) -> Path:
        __tracebackhide__ = True
        from kdump.fixture.document import SpecError
        from kdump.fixture.make import make

        source, wanted = _located(spec, request), [faults] if isinstance(faults, str) else faults
        out = tmp_path_factory.mktemp("kafka-log-dir")
        try:
            return Path(make(source, out, wanted, seed).path)
        except SpecError as error:
            raise pytest.fail.Exception(str(error), pytrace=False) from None

    return build


class KdumpCluster(Protocol):
    """What the fixture `kdump_cluster` is."""

    def __call__(
        self, spec: Spec = None, faults: Faults = (), *, kafka: str | None = None, seed: str | int | None = None
    ) -> BuiltCluster:
        """Build log directories with the metadata of a cluster, on which brokers of release `kafka` start.

        `spec`, `faults` and `seed` are as for `kafka_log_dir`. The same ones are built once and copied after that.
        """


@pytest.fixture(scope="session")
def _built_clusters() -> dict[str, tuple[Path, BuiltCluster]]:
    """Return what `kdump_cluster` has built, by what it was built of."""
    return {}


@pytest.fixture
def kdump_cluster(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    _built_clusters: dict[str, tuple[Path, BuiltCluster]],
) -> KdumpCluster:
    """Build clusters out of specifications: log directories, and server.properties for real brokers on them."""

    def build(
        spec: Spec = None, faults: Faults = (), *, kafka: str | None = None, seed: str | int | None = None
    ) -> BuiltCluster:
        __tracebackhide__ = True
        from kdump.disk.copies import copy_tree
        from kdump.fixture.document import SpecError
        from kdump.fixture.make import content_of_source, make

        source, wanted = _located(spec, request), [faults] if isinstance(faults, str) else list(faults)
        try:
            content = repr((content_of_source(source), wanted, kafka, seed))
            if content not in _built_clusters:
                out = tmp_path_factory.mktemp("kdump-cluster")
                built = make(source, out, wanted, seed, kafka, cluster=True)
                assert built.cluster is not None
                _built_clusters[content] = out, built.cluster
        except SpecError as error:
            raise pytest.fail.Exception(str(error), pytrace=False) from None
        made, cluster = _built_clusters[content]
        copy = tmp_path_factory.mktemp("kdump-cluster")
        copy_tree(str(made), str(copy))
        return cluster.moved(str(made), str(copy))

    return build


class KafkaServer(Protocol):
    """What the fixture `kafka_server` is."""

    def __call__(
        self,
        spec_or_directory: Spec = None,
        faults: Faults = (),
        *,
        on_damage: str = "stop",
        commits: str = "memory",
        seed: str | int | None = None,
    ) -> str:
        """Serve log directories to Kafka clients, read-only, until the test ends; its bootstrap address.

        A directory is served as it is: a log directory, or a folder of them, which are one cluster. All else is a
        specification for `kafka_log_dir`. `on_damage` is stop, skip or serve and `commits` memory or refuse, as for
        `kdump serve`.
        """


@pytest.fixture
def kafka_server(kafka_log_dir: KafkaLogDir) -> Iterator[KafkaServer]:
    """Serve Kafka log directories to any client, in a thread of this process."""
    with ExitStack() as running:

        def serve(
            spec_or_directory: Spec = None,
            faults: Faults = (),
            *,
            on_damage: str = "stop",
            commits: str = "memory",
            seed: str | int | None = None,
        ) -> str:
            __tracebackhide__ = True
            from kdump.server import background
            from kdump.server.groups import Commits
            from kdump.server.server import ServeOptions

            path = spec_or_directory
            if not isinstance(path, str | os.PathLike) or not os.path.isdir(path):
                path = kafka_log_dir(path, faults, seed=seed)
            options = ServeOptions(port=0, commits=Commits(commits))
            server = background.serve(*_log_dirs(os.fspath(path)), on_damage=on_damage, options=options)
            return running.enter_context(server)

        yield serve


def _located(spec: Spec, request: pytest.FixtureRequest) -> str | Mapping[str, Any] | None:
    """Return the specification's path, or the text or values that it is."""
    if not isinstance(spec, str | os.PathLike):
        return spec
    text = os.fspath(spec)
    if "\n" in text:
        return text
    beside = request.path.parent / text
    return str(beside if beside.exists() else request.config.rootpath / text)


@pytest.fixture(name="assert_sound")
def assert_sound_fixture() -> Callable[..., None]:
    """Return the function `assert_sound`, for tests that would rather not import it."""
    return assert_sound


def assert_sound(
    path: str | os.PathLike[str],
    *,
    strict: bool = False,
    deep: bool = True,
    now: int | None = None,
    ignore: Iterable[str] = (),
) -> None:
    """Fail, with the findings as the message, unless `kdump verify` finds no error in a log or partition directory.

    A folder of log directories stands for all of them. `strict`: warnings fail it, too. `now` is the clock (ms), this
    machine's unless given; `ignore` are patterns of codes that do not matter.
    """
    __tracebackhide__ = True
    from kdump.findings.kind import ERROR, WARNING
    from kdump.library.verifying import verify

    severities = (ERROR, WARNING) if strict else (ERROR,)
    found = [
        finding
        for finding in verify(*_log_dirs(os.fspath(path)), deep=deep, now=now, ignore=ignore)
        if finding.severity in severities
    ]
    if found:
        lines = [f"{os.fspath(path)} has findings:"]
        for finding in found[:_MAX_SHOWN]:
            where = "" if finding.position is None else f": byte {finding.position}"
            lines.append(f"  {finding.code} {finding.severity}: {finding.path}{where}: {finding.message}")
        if len(found) > _MAX_SHOWN:
            lines.append(f"  ... and {len(found) - _MAX_SHOWN} more")
        raise AssertionError("\n".join(lines))


def _log_dirs(path: str) -> list[str]:
    """Return the log directories in a folder that is none itself, or else the path."""
    from kdump.storage.directory import LogDirectory
    from kdump.storage.open import log_directories_in

    inside = log_directories_in(LogDirectory(path)) if os.path.isdir(path) else []
    return [os.path.join(path, name) for name in inside] or [path]

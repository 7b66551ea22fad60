"""A server in a thread of its own, for tests and other programs in Python."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager

from kdump.errors import Problem, check_callable, check_truths, check_type, check_word
from kdump.server.cluster import ServedCluster
from kdump.server.connection import Access
from kdump.server.pieces import OnDamage
from kdump.server.sasl import Users
from kdump.server.served_log import Log
from kdump.server.server import ServeOptions, Server
from kdump.storage.open import Path, open_directory, path_texts


def serve(
    *paths: Path,
    on_damage: str = OnDamage.STOP,
    options: ServeOptions | None = None,
    passwords: Mapping[str, str] | None = None,
    has_metadata_users: bool = False,
    ignores_lock: bool = False,
    say: Log = lambda _line: None,
    log: Callable[[Access], object] | None = None,
) -> AbstractContextManager[str]:
    """Serve log directories of one cluster, or partition directories, to any Kafka client while the `with` lasts.

    It gives the bootstrap address, as HOST:PORT,...; the port is a free one unless `options` names one. Batches that
    fail their CRC end the partition before them ("stop"), are skipped ("skip") or sent ("serve"). Only users with
    `passwords` by name, and with `has_metadata_users` those of the cluster's metadata, may connect; by default
    everybody. `say` is given a line about what is met on the way, `log` each request. With `ignores_lock` a directory
    is served that a running broker uses. Nothing is written. The call raises OSError, NameFormatError, InUseError,
    KdumpError, ValueError; the `with` OSError.
    """
    check_word("on_damage", on_damage, OnDamage)
    check_type("options", options, ServeOptions, may_be_none=True)
    check_truths(has_metadata_users=has_metadata_users, ignores_lock=ignores_lock)
    check_type("passwords", passwords, Mapping, may_be_none=True)
    for user, password in (passwords or {}).items():
        check_type("a name in passwords", user, str)
        check_type("passwords", password, str)
    check_callable("say", say)
    check_callable("log", log, may_be_none=True)
    damage = OnDamage(on_damage)
    problems: list[Problem] = []
    places = map(open_directory, path_texts(paths))
    cluster = ServedCluster(places, damage, problems.append, say, ignores_lock=ignores_lock)
    for problem in problems:
        say(f"{problem.path}: {problem.text}")
    users = Users.of(cluster.image, passwords, has_metadata_users=has_metadata_users)
    return _running(Server(cluster, options or ServeOptions(port=0), say, log, users))


@contextmanager
def _running(server: Server) -> Iterator[str]:
    ready: threading.Event = threading.Event()
    found: list[str | BaseException] = []
    loop = asyncio.new_event_loop()

    async def run() -> None:
        try:
            addresses = await server.start()
            found.append(",".join(str(address) for _, address in addresses))
        except OSError as error:
            found.append(error)
            return
        finally:
            ready.set()
        await server.wait()
        await server.close()

    thread = threading.Thread(target=lambda: loop.run_until_complete(run()), name="kdump-serve", daemon=True)
    thread.start()
    ready.wait()
    try:
        if isinstance(found[0], BaseException):
            raise found[0]
        yield found[0]
    finally:
        loop.call_soon_threadsafe(server.stop)
        thread.join()
        loop.close()

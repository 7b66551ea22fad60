"""A server in a thread of its own, for tests and other programs in Python."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from kdump.errors import Problem
from kdump.serve.cluster import ServedCluster
from kdump.serve.pieces import OnDamage
from kdump.serve.sasl import Users
from kdump.serve.served_log import Log
from kdump.serve.server import ServeOptions, Server
from kdump.storage.open import open_directory


@contextmanager
def served(
    paths: Iterable[str],
    *,
    on_damage: OnDamage = OnDamage.STOP,
    options: ServeOptions | None = None,
    users: Users | None = None,
    say: Log = lambda line: None,
    ignores_lock: bool = False,
) -> Iterator[str]:
    """Serve log or partition directories while the `with` lasts; gives the bootstrap address, as HOST:PORT,...

    Ports are free ones unless `options` names one; with `users` nobody else is let in. `say` is given a line about
    each damage that is met, and about connections. A directory on which a broker runs is refused unless `ignores_lock`.
    Raises KdumpError, OSError.
    """
    problems: list[Problem] = []
    cluster = ServedCluster(map(open_directory, paths), on_damage, problems.append, say, ignores_lock=ignores_lock)
    for problem in problems:
        say(f"{problem.path}: {problem.text}")
    server = Server(cluster, options or ServeOptions(port=0), say, users=users)
    ready: threading.Event = threading.Event()
    found: list[str | BaseException] = []
    loop = asyncio.new_event_loop()

    async def run() -> None:
        try:
            addresses = await server.start()
            found.append(",".join(f"{address.host}:{address.port}" for _, address in addresses))
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

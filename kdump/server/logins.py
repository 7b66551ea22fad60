"""Logins: a wrong one costs the client that tries it, and nobody else."""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from ipaddress import ip_address

from kdump.server.sasl import Exchange

LOGIN_SECONDS = 10.0
"""Within which a client has logged in; its connection ends else."""
MAX_PENDING = 100
"""Connections without a login. One more takes the place of the oldest one of the address that has most of them."""
CROWDED_SECONDS = 0.005
"""Between two new connections while so many wait for a login."""
FIRST_PAUSE = 0.5
LONGEST_PAUSE = 2.0
"""Seconds after which a wrong password is answered: twice as many for each one that an address has tried."""
_FORGOTTEN_SECONDS = 600.0
_MAX_ORIGINS = 10_000


class Logins:
    """Answers the messages of logins, one at a time in a thread: deriving keys takes milliseconds."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, "kdump-login")
        self._failures: dict[str, tuple[int, float]] = {}

    async def answer(self, exchange: Exchange, token: bytes) -> bytes:
        """Return what to answer to a message. Raises AuthenticationError."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, exchange.answer, token)

    def failed(self, host: str) -> float:
        """Return how long (s) the client at an address waits for the answer to its wrong login."""
        origin, now = origin_of(host), time.monotonic()
        count, last = self._failures.pop(origin, (0, now))
        if now - last > _FORGOTTEN_SECONDS:
            count = 0
        if len(self._failures) >= _MAX_ORIGINS:
            self._failures.pop(next(iter(self._failures)))  # the one whose last failure is the longest ago
        self._failures[origin] = count + 1, now
        return min(FIRST_PAUSE * 2.0 ** min(count, 10), LONGEST_PAUSE)

    def succeeded(self, host: str) -> None:
        """Forget the wrong logins of an address."""
        self._failures.pop(origin_of(host), None)

    def close(self) -> None:
        """End the thread."""
        self._thread.shutdown(wait=False, cancel_futures=True)


def origin_of(host: str) -> str:
    """Return what one client can have no two of: its address, of IPv6 the network that providers give to a customer."""
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        return host
    mapped = getattr(address, "ipv4_mapped", None)
    return str(mapped) if mapped else host if address.version == 4 else address.packed[:8].hex(":", 2)

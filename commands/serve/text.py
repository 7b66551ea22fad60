"""`kdump serve` for people: the address on stdout, all else on stderr."""

from __future__ import annotations

from kdump.formats.printable import safe
from kdump.formats.words import number_words
from kdump.server.cluster import Address, ServedCluster
from kdump.server.connection import Access

from ..shell.output import Output, say_line


class Text:
    """Prints what happens."""

    def __init__(self, out: Output) -> None:
        self._out = out

    def listening(self, cluster: ServedCluster, addresses: list[tuple[int, Address]]) -> None:
        """Tell where clients find the nodes."""
        bootstrap = ",".join(str(address) for _, address in addresses)
        what = f"{number_words(len(cluster.topics), 'topic')}, {number_words(cluster.partitions, 'partition')}"
        self._out.write(f"Listening on {bootstrap}: {what}, read-only.\n")
        self._out.flush()

    def say(self, text: str) -> None:
        """Take a line about what is served, or about a connection."""
        say_line(f"kdump: {safe(text)}")

    def access(self, access: Access) -> None:
        """Take a line about a request."""
        errors = f" {','.join(access.errors)}" if access.errors else ""
        user = f" user={safe(access.user)}" if access.user else ""
        say_line(
            f"{access.client} {safe(access.client_id or '-')}{user} {access.api} v{access.version}"
            f" in={access.request_bytes} out={access.response_bytes} {access.milliseconds:.1f} ms{errors}"
        )

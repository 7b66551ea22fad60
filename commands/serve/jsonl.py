"""`kdump serve --format jsonl`: everything is a row on stdout."""

from __future__ import annotations

import threading

from kdump.server.cluster import Address, ServedCluster
from kdump.server.connection import Access

from ..shell.output import Output
from ..shell.rows import RowPrinter, fields_of


class JsonLines(RowPrinter):
    """Prints what happens, at once."""

    def __init__(self, out: Output) -> None:
        super().__init__(self._put)
        self._out = out
        self._lock = threading.Lock()  # threads that read files tell of damage

    def listening(self, cluster: ServedCluster, addresses: list[tuple[int, Address]]) -> None:
        """Tell where clients find the nodes."""
        fields = {
            "bootstrapServers": ",".join(str(address) for _, address in addresses),
            "clusterId": cluster.cluster_id,
            "nodes": [{"nodeId": node, "address": str(address)} for node, address in addresses],
            "topics": len(cluster.topics),
            "partitions": cluster.partitions,
        }
        self.row("listening", fields)

    def say(self, text: str) -> None:
        """Take a line about what is served, or about a connection."""
        self.row("note", {"message": text})

    def access(self, access: Access) -> None:
        """Take a line about a request."""
        fields = fields_of(access, "client node user client_id api version correlation_id request_bytes response_bytes")
        self.row("request", {**fields, "elapsedMs": round(access.milliseconds, 3), "errors": access.errors})

    def _put(self, text: str) -> None:
        with self._lock:
            self._out.write(text)
            self._out.flush()

"""Serve until somebody ends it, and say what happens."""

from __future__ import annotations

import asyncio
import signal
import ssl
import threading
from collections.abc import Iterable
from dataclasses import asdict, dataclass

import click

from kdump.errors import BrokerRunsError, KdumpError, KdumpRunsError, NameFormatError
from kdump.formats.printable import safe, safe_path
from kdump.formats.words import number_words
from kdump.serve.cluster import Address, ServedCluster
from kdump.serve.connection import Access
from kdump.serve.groups import Commits
from kdump.serve.pieces import OnDamage
from kdump.serve.sasl import Users
from kdump.serve.server import ServeOptions, Server

from ..shell import exit_codes
from ..shell.output import tell
from ..shell.paths import directories
from ..shell.rows import json_line, output_for
from ..shell.session import Diagnostics

_ANYBODY = ("0.0.0.0", "::")


@dataclass(frozen=True, slots=True)
class ServeArgs:
    """What the command line asks for."""

    address: tuple[str, int]
    advertise: str | None
    on_damage: OnDamage
    commits: Commits
    tls_cert: str | None
    tls_key: str | None
    passwords: dict[str, str] | None
    has_metadata_users: bool
    max_connections: int
    max_request_bytes: int
    ignores_lock: bool
    verbose: bool


def serve(paths: Iterable[str], asked: ServeArgs, format_: str) -> int:
    """Serve until a signal ends it; the exit code. Raises click.UsageError, KdumpError, OSError."""
    printer = _Printer(format_)
    troubles = Diagnostics()
    places = directories(paths)
    try:
        cluster = ServedCluster(places, asked.on_damage, troubles, printer.say, ignores_lock=asked.ignores_lock)
    except NameFormatError as error:
        raise click.UsageError(safe_path(str(error))) from None
    except (BrokerRunsError, KdumpRunsError) as error:
        tell(f"Refused: {safe(str(error))}")
        first = "Clients can ask that broker." if isinstance(error, BrokerRunsError) else "Wait until it has ended."
        tell(f"  {first} --ignore-lock serves the directory while it runs.")
        return exit_codes.REFUSED
    server = Server(
        cluster,
        ServeOptions(
            *asked.address,
            advertised=asked.advertise,
            max_connections=asked.max_connections,
            max_request_bytes=asked.max_request_bytes,
            commits=asked.commits,
            tls=_tls(asked),
        ),
        printer.say,
        printer.access if asked.verbose else None,
        _users(asked, cluster),
    )
    asyncio.run(_run(server, asked, printer))
    return exit_codes.OK


def _tls(asked: ServeArgs) -> ssl.SSLContext | None:
    if asked.tls_cert is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        # without a password nobody is asked for one: a key that needs one is refused
        context.load_cert_chain(asked.tls_cert, asked.tls_key, password="")
    except (ssl.SSLError, ValueError) as error:
        raise click.UsageError(f"--tls-cert {safe_path(asked.tls_cert)}: {error}") from None
    return context


def _users(asked: ServeArgs, cluster: ServedCluster) -> Users | None:
    """Return who may connect; None for everybody. Raises KdumpError."""
    if asked.passwords is None and not asked.has_metadata_users:
        return None
    logged = cluster.image.scram if cluster.image is not None and asked.has_metadata_users else {}
    users = Users(asked.passwords or {}, logged)
    if not len(users):
        raise KdumpError("--metadata-users: there is no cluster metadata here, or it has no SCRAM credentials")
    return users


async def _run(server: Server, asked: ServeArgs, printer: _Printer) -> None:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, server.stop)
    try:
        addresses = await server.start()
    except OSError as error:
        host, port = asked.address
        raise KdumpError(f"cannot listen on {safe(host)}:{port}: {error.strerror or error}") from None
    if asked.address[0] in _ANYBODY and server.users is None:
        printer.say("anybody who can reach this machine can read everything; --users FILE lets in only these users")
    printer.listening(server.cluster, addresses)
    await server.wait()
    await server.close()


class _Printer:
    """What is said: the address on stdout, all else on stderr; in JSON everything is a row on stdout."""

    def __init__(self, format_: str) -> None:
        self._is_text = format_ == "text"
        self._out = output_for(format_)
        self._lock = threading.Lock()  # threads that read files tell of damage

    def listening(self, cluster: ServedCluster, addresses: list[tuple[int, Address]]) -> None:
        """Tell where clients find the nodes."""
        shown = [(node, f"[{host}]:{port}" if ":" in host else f"{host}:{port}") for node, (host, port) in addresses]
        bootstrap = ",".join(address for _, address in shown)
        topics = len(cluster.topics)
        partitions = sum(place.leader >= 0 for topic in cluster.topics.values() for place in topic.places)
        if self._is_text:
            what = f"{number_words(topics, 'topic')}, {number_words(partitions, 'partition')}"
            self._put(f"Listening on {bootstrap}: {what}, read-only.\n")
            return
        nodes = [{"nodeId": node, "address": address} for node, address in shown]
        fields = {"bootstrapServers": bootstrap, "clusterId": cluster.cluster_id, "nodes": nodes}
        self._put(json_line("listening", fields | {"topics": topics, "partitions": partitions}))

    def say(self, text: str) -> None:
        """Take a line about what is served, or about a connection."""
        if self._is_text:
            click.echo(f"kdump: {safe(text)}", err=True)
        else:
            self._put(json_line("note", {"message": text}))

    def access(self, access: Access) -> None:
        """Take a line about a request."""
        if not self._is_text:
            names = {"client_id": "clientId", "correlation_id": "correlationId", "request_bytes": "requestBytes"}
            names |= {"response_bytes": "responseBytes", "milliseconds": "elapsedMs"}
            fields = {names.get(name, name): value for name, value in asdict(access).items()}
            self._put(json_line("request", fields | {"elapsedMs": round(access.milliseconds, 3)}))
            return
        errors = f" {','.join(access.errors)}" if access.errors else ""
        user = f" user={safe(access.user)}" if access.user else ""
        click.echo(
            f"{access.client} {safe(access.client_id or '-')}{user} {access.api} v{access.version}"
            f" in={access.request_bytes} out={access.response_bytes} {access.milliseconds:.1f} ms{errors}",
            err=True,
        )

    def _put(self, text: str) -> None:
        with self._lock:
            self._out.write(text)
            self._out.flush()

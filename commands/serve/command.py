"""`kdump serve`: any Kafka client reads log directories, without a broker."""

from __future__ import annotations

import asyncio
import signal
import ssl
from collections.abc import Iterator
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import click

from kdump.errors import BrokerRunsError, KdumpError, KdumpRunsError, NameFormatError
from kdump.formats.printable import command_line, safe, safe_path
from kdump.server.cluster import ServedCluster
from kdump.server.groups import Commits
from kdump.server.pieces import OnDamage
from kdump.server.sasl import Users, is_open_to_others, read_users
from kdump.server.server import ServeOptions, Server

from ..shell import exit_codes
from ..shell.options import verbose_option
from ..shell.output import say
from ..shell.paths import directories
from ..shell.rows import OutputFormat, format_option, output_for, printer_of
from ..shell.session import Diagnostics
from ..shell.values import read_by, size

if TYPE_CHECKING:
    from .jsonl import JsonLines
    from .text import Text

    Printer: TypeAlias = JsonLines | Text

DEFAULT_PORT = 9092
_MAX_PORT = 65535
_ANYBODY = ("0.0.0.0", "::")


class UsersFile(NamedTuple):
    """The passwords of --users by name, and the file that they are in."""

    users: dict[str, str]
    path: str


def _users_in(path: str) -> UsersFile:
    return UsersFile(read_users(path), path)


def _address(text: str) -> tuple[str, int]:
    """Return host and port of `HOST:PORT`, `HOST` or `:PORT`; an IPv6 address stands in brackets."""
    host, colon, port = text.rpartition(":")
    if not colon or "]" in port:
        host, port = text, ""
    host = host.removeprefix("[").removesuffix("]")
    if port and (not port.isascii() or not port.isdigit() or int(port) > _MAX_PORT):
        raise ValueError(f"{text!r}: expected HOST:PORT, with a port from 0 to 65535")
    return host or "127.0.0.1", int(port) if port else DEFAULT_PORT


@click.command("serve")
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option("--listen", "address", default=f"127.0.0.1:{DEFAULT_PORT}", show_default=True, metavar="HOST:PORT",
    callback=read_by(_address), help="Where to listen; port 0 takes a free one. With several brokers the next ports"
    " are the other nodes'.")
@click.option("--advertise", metavar="HOST",
    help="The host that clients are given; by default the one that they reached.")
@click.option("--on-damage", type=click.Choice([each.value for each in OnDamage]), default=OnDamage.STOP.value,
    show_default=True, callback=read_by(OnDamage),
    help="Batches that fail their CRC: stop ends the partition before them, skip skips them,"
    " serve sends them, and some clients crash.")
@click.option("--commits", type=click.Choice([each.value for each in Commits]), default=Commits.KEEP.value,
    show_default=True, callback=read_by(Commits),
    help="Offsets that clients commit: keep them in memory until the end, or refuse them.")
@click.option("--tls-cert", type=click.Path(exists=True, dir_okay=False), metavar="FILE",
    help="Serve with TLS: the certificate chain in PEM.")
@click.option("--tls-key", type=click.Path(exists=True, dir_okay=False), metavar="FILE",
    help="The certificate's private key in PEM; by default in the same file.")
@click.option("--users", "passwords", type=click.Path(exists=True, dir_okay=False), metavar="FILE",
    callback=read_by(_users_in),
    help="Only these users may connect, by SASL PLAIN or SCRAM: a line NAME:PASSWORD each.")
@click.option("--metadata-users", "has_metadata_users", is_flag=True,
    help="The users with SCRAM credentials in the cluster's metadata may connect.")
@click.option("--max-connections", type=click.IntRange(1, 100_000), default=1000, show_default=True, metavar="N",
    help="Refuse more connections than these.")
@click.option("--max-request-size", "max_request_bytes", callback=read_by(size), default="2M", show_default=True,
    metavar="SIZE", help="Close the connection at a larger request.")
@click.option("--ignore-lock", "ignores_lock", is_flag=True,
    help="Serve a directory that a running broker uses. kdump follows what the broker appends and deletes.")
@verbose_option
@format_option
def command(
    paths: tuple[str, ...],
    address: tuple[str, int],
    advertise: str | None,
    on_damage: OnDamage,
    tls_cert: str | None,
    tls_key: str | None,
    passwords: UsersFile | None,
    has_metadata_users: bool,
    ignores_lock: bool,
    verbose: int,
    format_: OutputFormat,
    **limits: Any,
) -> int:
    """Let Kafka clients read log directories, without a broker.

    PATHs are log directories of one cluster (all disks of a broker, and of several brokers, each of which becomes a
    node), or partition directories. Consumers read the original offsets, timestamps, headers and batches; groups have
    their committed offsets. kdump refuses every request that would write, and writes nothing to the disks.

    The first line names the address. Ctrl-C or SIGTERM stops it.

    Exits with 0 when it was stopped, 2 when the command line is wrong, 3 when it cannot listen or a PATH cannot be
    read, 4 when a broker is running on a directory.

    \b
    Examples:
      kdump serve /disk1 /disk2
      kdump serve /copy/of/data --listen 127.0.0.1:0 --format jsonl
      kdump serve /data --listen 0.0.0.0:9092 --users users.txt \\
        --tls-cert server.pem
    """
    if tls_key is not None and tls_cert is None:
        raise click.UsageError("--tls-key goes with --tls-cert")
    printer: Printer = printer_of(__package__, format_, output_for(format_))
    places = directories(paths)
    try:
        cluster = ServedCluster(places, on_damage, Diagnostics(), printer.say, ignores_lock=ignores_lock)
    except NameFormatError as error:
        raise click.UsageError(safe_path(str(error))) from None
    except (BrokerRunsError, KdumpRunsError) as error:
        say(f"Refused: {safe(str(error))}")
        first = "Clients can ask that broker." if isinstance(error, BrokerRunsError) else "Wait until it has ended."
        say(f"  {first} --ignore-lock serves it all the same.")
        return exit_codes.REFUSED
    options = ServeOptions(*address, advertised=advertise, tls=_tls(tls_cert, tls_key), **limits)
    users = Users.of(cluster.image, passwords and passwords.users, has_metadata_users=has_metadata_users)
    server = Server(cluster, options, printer.say, printer.access if verbose else None, users)
    asyncio.run(_serve(server, address, printer, passwords))
    return exit_codes.OK


def _tls(cert: str | None, key: str | None) -> ssl.SSLContext | None:
    if cert is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        # without a password nobody is asked for one: a key that needs one is refused
        context.load_cert_chain(cert, key, password="")
    except (ssl.SSLError, ValueError):
        where = " and ".join(safe_path(path) for path in (cert, key) if path is not None)
        text = f"--tls-cert: no certificate in PEM with its private key, without a password, is in {where}"
        raise click.UsageError(text) from None
    return context


async def _serve(server: Server, address: tuple[str, int], printer: Printer, passwords: UsersFile | None) -> None:
    """Serve until a signal ends it. Raises KdumpError."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, server.stop)
    host, port = address
    try:
        addresses = await server.start()
    except OSError as error:
        raise KdumpError(f"cannot listen on {safe(host)}:{port}: {error.strerror or error}") from None
    for warning in _warnings(server, host, passwords):
        printer.say(warning)
    printer.listening(server.cluster, addresses)
    await server.wait()
    await server.close()


def _warnings(server: Server, host: str, passwords: UsersFile | None) -> Iterator[str]:
    """Yield what others could read here that they should not. Raises OSError."""
    if host in _ANYBODY and server.users is None:
        yield "anybody who can reach this machine can read everything; --users FILE lets in only these users"
    if server.users is not None and server.options.tls is None and not _is_loopback(host):
        yield "warning: passwords and records cross the network as plain text; --tls-cert FILE encrypts them"
    if passwords is not None and is_open_to_others(passwords.path):
        close = command_line("chmod", "600", passwords.path)
        yield f"warning: others can read the passwords in {passwords.path}: {close}"


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return host == "localhost"

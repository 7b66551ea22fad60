"""SASL: who is at the other end, by PLAIN (RFC 4616) or SCRAM (RFC 5802), as brokers have it (KIP-12, KIP-84)."""

from __future__ import annotations

import hashlib
import hmac
import os
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple

from kdump.disk.reading import read_small
from kdump.errors import ConfigError, KdumpError
from kdump.topics.cluster_image import SCRAM_MECHANISMS

if TYPE_CHECKING:
    from kdump.topics.cluster_image import ClusterImage

ITERATIONS = 4096
_SALT_BYTES = 16
_MAX_TOKEN = 4096
_WRONG = "Authentication failed: unknown user or wrong password"
_HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}


class Mechanism(StrEnum):
    """The mechanisms that are offered."""

    PLAIN = "PLAIN"
    SCRAM_SHA_256 = "SCRAM-SHA-256"
    SCRAM_SHA_512 = "SCRAM-SHA-512"


class AuthenticationError(KdumpError):
    """Somebody is not who they say, or does not say it in the right way."""


class Credential(NamedTuple):
    """What is kept of a user's password for one mechanism of SCRAM."""

    salt: bytes
    iterations: int
    stored_key: bytes
    server_key: bytes


class Users:
    """The users who may connect, each with the credentials that there are."""

    def __init__(self, passwords: Mapping[str, str], logged: Mapping[tuple[str, int], Mapping[str, Any]]) -> None:
        """`passwords` are given to us, `logged` is what the cluster's metadata has (UserScramCredentialRecord)."""
        self._known: dict[tuple[str, Mechanism], Credential] = {}
        self._secret = os.urandom(32)
        for (name, number), fields in logged.items():
            mechanism = SCRAM_MECHANISMS.get(number)
            if mechanism is not None:
                credential = Credential(
                    fields["salt"], fields["iterations"], fields["storedKey"], fields["serverKey"]
                )
                self._known[name, Mechanism(mechanism)] = credential
        for name, password in passwords.items():
            for mechanism in _HASHES:
                self._known[name, Mechanism(mechanism)] = make_credential(mechanism, password)

    @classmethod
    def of(
        cls, image: ClusterImage | None, passwords: Mapping[str, str] | None, *, has_metadata_users: bool
    ) -> Users | None:
        """Return those with passwords, and with `has_metadata_users` those of a cluster's metadata; None: everybody.

        Raises KdumpError where there is nobody.
        """
        if passwords is None and not has_metadata_users:
            return None
        users = cls(passwords or {}, image.scram if image is not None and has_metadata_users else {})
        if not len(users):
            raise KdumpError("--metadata-users: there is no cluster metadata here, or it has no SCRAM credentials")
        return users

    def __len__(self) -> int:
        return len({name for name, _ in self._known})

    @property
    def mechanisms(self) -> list[Mechanism]:
        """The mechanisms that somebody can use."""
        used = {mechanism for _, mechanism in self._known}
        return [Mechanism.PLAIN, *(each for each in Mechanism if each in used)]

    def credential(self, name: str, mechanism: Mechanism) -> Credential:
        """Return the credential of a user; of an unknown one another, with which every login fails as late as any."""
        return self._known.get((name, mechanism)) or self._of_nobody(name, mechanism)

    def _of_nobody(self, name: str, mechanism: Mechanism) -> Credential:
        """Return a credential that fits no password, as those of others look, and the same each time."""
        salt, iterations = next(
            ((each.salt, each.iterations) for (_, used), each in self._known.items() if used is mechanism),
            (bytes(_SALT_BYTES), ITERATIONS),
        )
        drawn = hmac.digest(self._secret, f"{mechanism} {name}".encode("utf-8", "replace"), "sha512")
        return Credential(drawn[: len(salt)], iterations, os.urandom(64), os.urandom(64))

    def check_password(self, name: str, password: str) -> None:
        """Raise AuthenticationError for a wrong password."""
        used = {mechanism for _, mechanism in self._known}
        scram = [Mechanism(each) for each in _HASHES if each in used]
        mechanism = next((each for each in scram if (name, each) in self._known), scram[0])
        credential = self.credential(name, mechanism)
        derived = _derive(mechanism, password, credential.salt, credential.iterations)
        if not hmac.compare_digest(derived.stored_key, credential.stored_key):
            raise AuthenticationError(_WRONG)


def read_users(path: str) -> dict[str, str]:
    """Return the passwords in a file (`kdump serve --users`) by name: a line NAME:PASSWORD each.

    Empty lines and those that begin with # do not count. A name has no white space, so that a log, whose lines have
    colons too, is not taken for such a file. Raises ConfigError, OSError.
    """
    users: dict[str, str] = {}
    try:
        lines = read_small(path).decode().splitlines()
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: not UTF-8") from None
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.startswith("#"):
            continue
        name, _, password = line.partition(":")
        if name.split() != [name] or not password:
            raise ConfigError(f"{path}: line {number}: expected NAME:PASSWORD, the name without spaces")
        users[name] = password
    if not users:
        raise ConfigError(f"{path}: there is no user in it")
    return users


def is_open_to_others(path: str) -> bool:
    """Return whether others than its owner may read a file. Raises OSError."""
    return os.stat(path).st_mode & 0o044 != 0


def make_credential(mechanism: str, password: str) -> Credential:
    """Return a credential with a new salt."""
    return _derive(mechanism, password, os.urandom(_SALT_BYTES), ITERATIONS)


def _derive(mechanism: str, password: str, salt: bytes, iterations: int) -> Credential:
    name = _HASHES[mechanism]
    salted = hashlib.pbkdf2_hmac(name, password.encode(), salt, iterations)
    client_key = hmac.digest(salted, b"Client Key", name)
    stored_key = hashlib.new(name, client_key).digest()
    return Credential(salt, iterations, stored_key, hmac.digest(salted, b"Server Key", name))


@dataclass(slots=True)
class _Scram:
    """What the first message of an exchange has settled."""

    name: str
    credential: Credential
    nonce: str
    first_bare: str
    server_first: str


class Exchange:
    """The messages of one client. `user` is set when it is known who it is."""

    def __init__(self, users: Users, mechanism: Mechanism) -> None:
        self.user: str | None = None
        self._users = users
        self._mechanism = mechanism
        self._scram: _Scram | None = None

    def answer(self, token: bytes) -> bytes:
        """Return what to answer to a message. Raises AuthenticationError."""
        if self.user is not None or len(token) > _MAX_TOKEN:
            raise AuthenticationError("Authentication failed: unexpected message")
        try:
            if self._mechanism is Mechanism.PLAIN:
                return self._plain(token.decode())
            return self._scram_final(token.decode()) if self._scram else self._scram_first(token.decode())
        except (UnicodeDecodeError, Base64Error, ValueError, KeyError):
            raise AuthenticationError("Authentication failed: the message cannot be read") from None

    def _plain(self, text: str) -> bytes:
        _, name, password = text.split("\0")
        self._users.check_password(name, password)
        self.user = name
        return b""

    def _scram_first(self, text: str) -> bytes:
        header, _, bare = text.partition(",")
        _, _, bare = bare.partition(",")
        if header not in ("n", "y"):
            raise AuthenticationError("Authentication failed: channel binding is not supported")
        fields = _fields(bare)
        name = fields["n"].replace("=2C", ",").replace("=3D", "=")
        credential = self._users.credential(name, self._mechanism)
        nonce = fields["r"] + b64encode(os.urandom(18)).decode()
        answer = f"r={nonce},s={b64encode(credential.salt).decode()},i={credential.iterations}"
        self._scram = _Scram(name, credential, nonce, bare, answer)
        return answer.encode()

    def _scram_final(self, text: str) -> bytes:
        begun = self._scram
        if begun is None:
            raise AuthenticationError("Authentication failed: unexpected message")
        without_proof, _, _ = text.rpartition(",p=")
        fields = _fields(text)
        name = _HASHES[self._mechanism]
        if fields["r"] != begun.nonce:
            raise AuthenticationError("Authentication failed: wrong nonce")
        message = f"{begun.first_bare},{begun.server_first},{without_proof}".encode()
        signature = hmac.digest(begun.credential.stored_key, message, name)
        proof = b64decode(fields["p"], validate=True)
        if len(proof) != len(signature):
            raise AuthenticationError(_WRONG)
        client_key = bytes(a ^ b for a, b in zip(proof, signature, strict=True))
        if not hmac.compare_digest(hashlib.new(name, client_key).digest(), begun.credential.stored_key):
            raise AuthenticationError(_WRONG)
        self.user = begun.name
        return b"v=" + b64encode(hmac.digest(begun.credential.server_key, message, name))


def _fields(text: str) -> dict[str, str]:
    pairs = (part.partition("=") for part in text.split(","))
    return {name: value for name, _, value in pairs}

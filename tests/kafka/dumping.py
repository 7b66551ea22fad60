"""What is tried with a release's own kafka-dump-log, and how its answers are compared with those of `dump-log`."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tests.commands.golden import in_process
from tests.kafka.kit import Kit
from tests.kafka.tally import Comparison

DECODERS = {
    "__consumer_offsets": "--offsets-decoder",
    "__transaction_state": "--transaction-log-decoder",
    "__cluster_metadata": "--cluster-metadata-decoder",
    "__share_group_state": "--share-group-state-decoder",
}

BYTES = "org.apache.kafka.tools.api.DefaultDecoder"

LOG_MODES: Sequence[Sequence[str]] = (
    (),
    ("--deep-iteration",),
    ("--print-data-log",),
    ("--print-data-log", "--skip-record-metadata"),
    ("--deep-iteration", "--max-bytes", "3000"),
    ("--print-data-log", "--key-decoder-class", BYTES, "--value-decoder-class", BYTES),
)

INDEX_MODES: Sequence[Sequence[str]] = (
    (),
    ("--index-sanity-check",),
    ("--verify-index-only",),
    ("--verify-index-only", "--max-message-size", "200"),
)

_OUT_OF_MEMORY = b'Exception in thread "main" java.lang.OutOfMemoryError'


def without_identities(out: bytes) -> bytes:
    """DefaultDecoder's bytes are printed as what Java says of an array: the identity of the object."""
    return re.sub(rb"\[B@[0-9a-f]+", b"[B@", out)


def without_frames(err: bytes) -> bytes:
    """What a tool complains of, without the frames of Java's exceptions and what its logging says of itself."""
    lines = err.rstrip(b"\n").splitlines()
    return b"\n".join(line for line in lines if not line.startswith((b"\tat ", b"\t... ", b"log4j:")))


def first_difference(ours: bytes, theirs: bytes) -> tuple[bytes, bytes]:
    if ours == theirs:
        return b"", b""
    for ours_line, theirs_line in zip(ours.splitlines(), theirs.splitlines(), strict=False):
        if ours_line != theirs_line:
            return ours_line, theirs_line
    return ours[-200:], theirs[-200:]


def compare_one(compare: Comparison, kit: Kit, what: str, *arguments: str) -> None:
    """One call of both tools: exit code, stdout, stderr. Kafka's may change files, so it comes second.

    Where Java has no memory for the size that a damaged field gives, there is nothing to compare.
    """
    ours = in_process(list(arguments), kit.release)
    theirs = kit.dump_log(*arguments)
    if theirs.err.startswith(_OUT_OF_MEMORY):
        return
    compare.same(f"{what}: exit code", ours.code, theirs.exit_code)
    compare.same(f"{what}: stdout", *first_difference(*map(without_identities, (ours.out, theirs.out))))
    compare.same(f"{what}: stderr", *first_difference(*map(without_frames, (ours.err, theirs.err))))

"""The contradictions that are known today: who mends one takes its line away, for the test then passes, which fails."""

from __future__ import annotations

from typing import NamedTuple

from tests.agreement.directories import KILLED


class Known(NamedTuple):
    """A rule that directories break, and what the two commands say."""

    rule: str
    directories: tuple[str, ...]
    why: str


def both(*faults: str) -> tuple[str, ...]:
    """The directories with these faults, however the broker stopped."""
    return tuple(fault + state for fault in faults for state in ("", KILLED))


def killed(*faults: str) -> tuple[str, ...]:
    return tuple(fault + KILLED for fault in faults)


KNOWN = (
    Known(
        "verify_says_that_a_broker_refuses", ("zero-tail",),
        "startup: after a clean shutdown the broker does not start (record size 0); verify: it truncates",
    ),
    Known(
        "startup_foretells_what_verify_says_a_broker_refuses", both("dangling-link"),
        "verify: a link that leads nowhere keeps a broker from starting; startup does not mention it",
    ),
    Known(
        "lookup_answers_lie_in_the_log", both("log-start-ahead", "log-start-above-high-watermark"),
        "lookup: latest is 220, or max is 219; ls: the log starts behind that",
    ),
    Known(
        "dump_meets_damage_where_verify_does",
        ("preallocated-log", *killed("preallocated-log", "zero-tail"), "corpus/h-prealloc-log"),
        "dump: zeros after the last batch of a killed broker are damage, exit 1; verify, ls, stats: they are not",
    ),
    Known(
        "segments_are_the_same",
        (
            *both("truncate-tail", "garbage-tail"),
            *(f"corpus/i-{case}" for case in ("garbage-append5-active", "trunc-mid-batch-active", "zstd-trunc")),
        ),
        "retain: an incomplete batch or garbage at the end is used; ls: it is not",
    ),
    Known(
        "a_repair_that_fails_counts_what_failed",
        (
            "flip-payload-bit", "wrong-crc", "wrong-size", "zero-batch",
            *(f"corpus/i-{case}" for case in ("crc-payload-active", "size-0-first", "zero-batch-mid-active")),
        ),
        "trim exits with 3, as good batches follow the damage; its summary: 0 partitions failed",
    ),
    Known(
        "advice_helps", ("offset-overflow",),
        "verify: start the broker, or kdump rebuild-index; startup: no split if it was closed; rebuild-index: exit 3",
    ),
    Known(
        "advice_helps", ("wrong-control-record",),
        "verify: kdump rebuild-index mends the .txnindex; rebuild-index: exit 3, the log has a marker of no known type",
    ),
    Known(
        "a_second_repair_has_nothing_to_do", killed("deleted-directory"),
        "repair: after an unclean shutdown a directory that waits for its deletion gets its indexes again and again",
    ),
    Known(
        "a_sound_partition_needs_no_repair", ("corpus/z-3-29",),
        "verify: nothing; repair, salvage: a partition directory without segments gets an empty one",
    ),
    Known(
        "verify_says_that_a_broker_refuses", ("checkpoint-garbage",),
        "startup: the broker takes the log directory offline; verify: KD-CKPT-FORMAT, the broker ignores it",
    ),
    Known(
        "advice_helps", both("epoch-backwards"),
        "verify: kdump repair writes leader-epoch-checkpoint from the log; repair: the log itself needs a decision",
    ),
)  # fmt: skip

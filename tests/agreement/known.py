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
        "startup_foretells_what_verify_says_a_broker_refuses", both("offset-below-base"),
        "verify: KD-LOG-BASE keeps a broker from starting; startup: the log loads",
    ),
    Known(
        "startup_foretells_what_verify_says_a_broker_refuses", both("wrong-topic-id"),
        "verify: KD-META-TOPIC-ID keeps a broker from starting; startup: the log loads",
    ),
    Known(
        "startup_foretells_what_verify_says_a_broker_refuses", both("other-node"),
        "verify: no broker starts with log directories of two nodes; startup: all is well",
    ),
    Known(
        "startup_foretells_what_verify_says_a_broker_refuses",
        (*both("quorum-state-garbage", "broken-metadata-snapshot", "metadata-misfit"), "corpus/f-cluster-metadata"),
        "verify: KD-KRAFT-… and KD-META-CLUSTER keep a broker from starting; startup looks at the log alone",
    ),
    Known(
        "startup_foretells_what_verify_says_a_broker_refuses", both("dangling-link"),
        "verify: a link that leads nowhere keeps a broker from starting; startup does not mention it",
    ),
    Known(
        "stray_partitions_are_the_same", both("stray-partition", "other-topic-id"),
        "ls, verify: the broker renames the directory to -stray; startup: loads it and serves it",
    ),
    Known(
        "no_log_starts_behind_its_end", both("log-start-ahead"),
        "ls, lookup: the log starts at 320 and ends at 220; startup: it starts and ends at 320",
    ),
    Known(
        "the_log_end_offset_is_the_same", both("log-start-ahead"),
        "ls, lookup: the log ends at 220; txns: at 320; retain: only an error",
    ),
    Known(
        "lookup_answers_lie_in_the_log", both("log-start-ahead", "log-start-above-high-watermark"),
        "lookup: latest is 220, or max is 219; ls: the log starts behind that",
    ),
    Known(
        "the_log_end_offset_is_the_same", ("corpus/z-3-29",),
        "ls: a directory without segments has no log end offset; startup, lookup, retain, txns: 0",
    ),
    Known(
        "the_log_start_offset_is_the_same", ("corpus/z-3-29",),
        "ls: a directory without segments has no log start offset; startup, lookup, retain, txns: 0",
    ),
    Known(
        "a_start_that_cuts_nothing_keeps_the_offsets", ("corpus/z-3-29",),
        "ls: a directory without segments has no offsets; startup: 0 and 0",
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
        "retain_warns_where_a_start_comes_first",
        (
            "zero-tail", *killed("far-offset", "wrong-control-record", "mixed-transaction"),
            *both("misnamed-log", "epoch-checkpoint-garbage", "txnindex-version", "partition-metadata-garbage"),
        ),
        "startup: the log does not load; retain: deletes as if it did",
    ),
    Known(
        "retain_warns_where_a_start_comes_first",
        (
            *(f"corpus/i-{case}-active" for case in ("crc-payload", "garbage-append5", "trunc-mid-batch")),
            "corpus/i-zero-batch-mid-active", "corpus/i-zstd-trunc",
        ),
        "startup: the last segment is cut first; retain: names no problem",
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
        "a_sound_partition_needs_only_what_a_broker_does",
        (
            "drop-batch",
            *(f"corpus/{case}" for case in ("d-only-control", "e-base-max", "e-leader-epochs", "e-sparse-edge")),
            *(f"corpus/{case}" for case in ("f-consumer-offsets", "f-transaction-state", "g-plain-1-cleaned")),
            *(f"corpus/s-src-{codec}" for codec in ("gzip", "lz4", "none", "snappy", "v0-lz4", "v1-gzip")),
            *(f"corpus/s-src-{codec}" for codec in ("v1-snappy", "zstd")),
        ),
        "verify: nothing to repair; repair --strategy salvage: builds good indexes again, exit 1",
    ),
    Known(
        "advice_helps", ("truncate-tail", "garbage-tail"),
        "verify: kdump repair cuts them off; repair: not after a clean shutdown",
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
        "advice_helps", both("epoch-backwards", "epoch-checkpoint-wrong", "epoch-checkpoint-garbage"),
        "verify: kdump repair writes leader-epoch-checkpoint from the log; repair: leaves it, or exit 3",
    ),
    Known(
        "a_repair_brings_no_new_error", ("truncate-tail", "timeindex-swap", "timeindex-offset"),
        "trim: cuts the .timeindex and is done; verify: KD-TIDX-LAST, its last entry is not the largest timestamp",
    ),
    Known(
        "a_repair_brings_no_new_error", ("timeindex-missing",),
        "repair: makes an empty .timeindex, as a broker; verify: missing is a warning, empty an error",
    ),
    Known(
        "a_repair_brings_no_new_error", ("specs/replicas",),
        "trim: leaves an entry of zeros in a preallocated .timeindex; verify: KD-TIDX-TIMESTAMP",
    ),
    Known(
        "a_second_repair_has_nothing_to_do", ("offset-overflow",),
        "repair: a second run removes a snapshot that the first one left",
    ),
)  # fmt: skip

"""`kdump metadata` for people."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from kdump.formats.printable import safe, safe_path
from kdump.formats.words import count_text, number_words

from ..shell.tables import aligned
from ..shell.times import iso_time
from .jsonl import Fields, Row

_REPLICAS = ("replicas", "isr", "eligibleLeaderReplicas")


MAX_ROWS, FIRST, MIN_ROWS = 40, 8, 2
"""Of more objects than that, of a type only those with remarks are listed, or so many of the first; fewer of the later
types.
"""


def text_lines(rows: Sequence[Row], *, is_all: bool) -> Iterator[str]:
    """Yield a section for each type of object that there is; with `is_all` each has every object, however many."""
    by_type: dict[str, list[Fields]] = {}
    for row in rows:
        by_type.setdefault(row.type, []).append(row.fields)
    yield from _cluster(by_type["cluster"][0])
    tables = [(heading, [cells(fields) for fields in by_type.get(kind, ())]) for kind, heading, cells in _SECTIONS]
    shows_all = is_all or sum(len(table) for _, table in tables) <= MAX_ROWS
    room = MAX_ROWS - MIN_ROWS * len([table for _, table in tables if table])
    for heading, table in tables:
        if not table:
            continue
        shown = table if shows_all else _some(heading, table, max(room, MIN_ROWS))
        room -= len(shown)
        yield "\n"
        yield from aligned(heading, shown, right=_RIGHT)
        if more := len(table) - len(shown):
            yield f"{count_text(more)} more, {count_text(len(table))} in all: -v lists them.\n"


def _some(heading: tuple[str, ...], table: list[tuple[str, ...]], room: int) -> list[tuple[str, ...]]:
    """Return the rows that have something to look at as far as there is room, or else the first ones."""
    first = table[: min(FIRST, room)]
    if "REMARKS" not in heading:
        return first
    leader, remarks = heading.index("LEADER"), heading.index("REMARKS")
    special = [row for row in table if row[remarks] or row[leader] == "none"]
    return special[:room] or first


def _cluster(fields: Fields) -> Iterator[str]:
    when = "" if fields["timestamp"] is None else f", {iso_time(fields['timestamp'])}"
    yield f"state before offset {fields['endOffset']}, epoch {fields['epoch']}{when}\n"
    snapshot = fields["snapshot"]
    yield f"from {safe_path(snapshot)}\n" if snapshot else "from the beginning of the log, without a snapshot\n"
    level = fields["metadataVersion"]
    name = fields["metadataVersionName"]
    version = "not set" if level is None else f"{level}{f' ({name})' if name else ''}"
    counts = (number_words(fields[f"{thing}s"], thing) for thing in ("topic", "partition", "broker"))
    yield f"metadata.version {version}; {', '.join(counts)}\n"
    if fields["release"] is not None:
        yield f"written by Kafka {fields['release']}\n"
    if fields["newerRecords"]:
        yield f"{number_words(fields['newerRecords'], 'record')} newer than this kdump, skipped\n"
    voters = ", ".join(str(voter["voterId"]) for voter in fields["voters"]) or "unknown"
    leader = "unknown" if fields["leader"] is None else fields["leader"]
    yield f"quorum leader {leader}, voters {voters}, kraft.version {fields['kraftVersion']}\n"
    if fields["nextProducerId"] is not None:
        yield f"next producer id {fields['nextProducerId']}\n"
    if fields["zkMigrationState"] not in (None, "NONE"):
        yield f"ZooKeeper migration: {fields['zkMigrationState']}\n"
    if fields["heldBackSince"] is not None:
        yield (
            f"a metadata transaction is open since offset {fields['heldBackSince']}:"
            f" {number_words(fields['heldBackRecords'], 'record')} will count when it ends\n"
        )


def _broker(fields: Fields) -> tuple[str, ...]:
    state, cordoned = "fenced" if fields["fenced"] else "active", fields["cordonedLogDirs"]
    if fields["inControlledShutdown"]:
        state += ", shutting down"
    return (
        str(fields["brokerId"]),
        str(fields["brokerEpoch"]),
        state,
        safe(fields["rack"]) if fields["rack"] is not None else "-",
        _endpoints(fields),
        " ".join(f"{name} (cordoned)" if name in cordoned else name for name in fields["logDirs"]) or "-",
        fields["release"] or "-",
    )


def _controller(fields: Fields) -> tuple[str, ...]:
    return str(fields["controllerId"]), _endpoints(fields), _features(fields)


def _endpoints(fields: Fields) -> str:
    ends = fields["endpoints"]
    shown = (f"{safe(end['name'])}://{safe(end['host'])}:{end['port']} ({end['securityProtocol']})" for end in ends)
    return " ".join(shown) or "-"


def _features(fields: Fields) -> str:
    found = fields["features"]
    shown = (f"{safe(each['name'])}:{each['minSupportedVersion']}-{each['maxSupportedVersion']}" for each in found)
    return " ".join(shown) or "-"


def _feature(fields: Fields) -> tuple[str, ...]:
    return safe(fields["name"]), str(fields["level"])


def _topic(fields: Fields) -> tuple[str, ...]:
    return safe(fields["topic"]), fields["topicId"], str(fields["partitions"])


def _partition(fields: Fields) -> tuple[str, ...]:
    leader = "none" if fields["leader"] is None else str(fields["leader"])
    remarks = (
        (fields["isUnderReplicated"], "under-replicated"),
        (fields["isUnderMinIsr"], f"below min.insync.replicas ({fields['minInsyncReplicas']})"),
        (fields["leaderRecoveryState"] != "RECOVERED", fields["leaderRecoveryState"].lower()),
        (fields["addingReplicas"], f"adding {_numbers(fields['addingReplicas'])}"),
        (fields["removingReplicas"], f"removing {_numbers(fields['removingReplicas'])}"),
        (fields["lastKnownElr"], f"last known ELR {_numbers(fields['lastKnownElr'])}"),
    )
    return (
        safe(fields["topic"]),
        str(fields["partition"]),
        leader,
        "none" if fields["nextLeader"] is None else str(fields["nextLeader"]),
        str(fields["leaderEpoch"]),
        str(fields["partitionEpoch"]),
        *(_numbers(fields[name]) for name in _REPLICAS),
        ", ".join(remark for is_so, remark in remarks if is_so),
    )


def _numbers(numbers: list[int]) -> str:
    return ",".join(map(str, numbers)) or "-"


def _config(fields: Fields) -> tuple[str, ...]:
    hidden = fields["hiddenLength"]
    value = safe(fields["value"]) if hidden is None else f"(hidden, {hidden} characters)"
    return fields["resourceType"], safe(fields["resource"]) or "(default)", safe(fields["name"]), value


def _quota(fields: Fields) -> tuple[str, ...]:
    entity = ((part["type"], "(default)" if part["name"] is None else part["name"]) for part in fields["entity"])
    who = ", ".join(f"{safe(kind)} {safe(name)}" for kind, name in entity)
    return who, safe(fields["key"]), str(fields["value"])


def _scram(fields: Fields) -> tuple[str, ...]:
    sizes = f"salt {fields['saltBytes']} bytes, keys {fields['storedKeyBytes']} and {fields['serverKeyBytes']} bytes"
    return safe(fields["user"]), fields["mechanism"], str(fields["iterations"]), sizes


def _token(fields: Fields) -> tuple[str, ...]:
    renewers = " ".join(map(safe, fields["renewers"])) or "-"
    return safe(fields["tokenId"]), safe(fields["owner"]), renewers, iso_time(fields["expirationTimestamp"])


def _acl(fields: Fields) -> tuple[str, ...]:
    resource = f"{fields['resourceType']} {safe(fields['resource'])}"
    who = safe(fields["principal"]), safe(fields["host"])
    return fields["permission"], *who, fields["operation"], resource, fields["patternType"]


_RIGHT = (
    *("LEVEL", "PARTITIONS", "PARTITION", "LEADER", "NEXT", "LEADER EPOCH", "PARTITION EPOCH", "BROKER EPOCH"),
    "ITERATIONS",
)
_PARTITION = ("TOPIC", "PARTITION", "LEADER", "NEXT", "LEADER EPOCH", "PARTITION EPOCH", "REPLICAS", "ISR", "ELR")
_SECTIONS: tuple[tuple[str, tuple[str, ...], Any], ...] = (
    ("feature", ("FEATURE", "LEVEL"), _feature),
    ("broker", ("BROKER", "BROKER EPOCH", "STATE", "RACK", "ENDPOINTS", "LOG DIRECTORIES", "KAFKA"), _broker),
    ("controller", ("CONTROLLER", "ENDPOINTS", "FEATURES"), _controller),
    ("topic", ("TOPIC", "ID", "PARTITIONS"), _topic),
    ("partition", (*_PARTITION, "REMARKS"), _partition),
    ("config", ("CONFIGURATION OF", "NAME", "SETTING", "VALUE"), _config),
    ("quota", ("QUOTA OF", "SETTING", "VALUE"), _quota),
    ("scramCredential", ("SCRAM USER", "MECHANISM", "ITERATIONS", "STORED"), _scram),
    ("delegationToken", ("DELEGATION TOKEN", "OWNER", "RENEWERS", "EXPIRES"), _token),
    ("acl", ("ACCESS", "PRINCIPAL", "HOST", "OPERATION", "RESOURCE", "PATTERN"), _acl),
)

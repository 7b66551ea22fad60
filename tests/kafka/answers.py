"""What kdump answers of log directories, held against what a broker on them said (see java/Truth.java)."""

from __future__ import annotations

import base64
import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

from kdump.topics.lag import BEYOND_END
from tests.kafka.command import Ran, jsonl, kdump
from tests.kafka.server_log import Loaded
from tests.kafka.tally import Comparison

Truth = dict[str, Any]

_DETAILS = {"client": "clientId", "host": "clientHost", "instance": "instanceId", "rack": "rack", "epoch": "epoch"}
"""What a client tells of a member, and where kdump says it."""

_SETTLED = {"PrepareCommit": "CompleteCommit", "PrepareAbort": "CompleteAbort"}

EXPIRING = ("expired", "busy-expired", "small")
"""Topics of which a broker may delete segments meanwhile."""


class Answers(NamedTuple):
    """Log directories of one broker, what it said of them, and where the comparisons go."""

    log_dirs: Sequence[Path]
    truth: Truth
    compare: Comparison
    loaded: Mapping[str, Loaded] | None = None
    """Where the broker has been started on a copy of the log directories: each log as it was then loaded, before
    coordinators wrote on."""

    cleaned: Collection[str] = ()
    """Partitions that the cleaner came to before the broker said what it said."""

    def ask(self, command: str, *arguments: object) -> Ran:
        """Run a reading command on all log directories; that it ends with 0 is compared too."""
        done = jsonl(command, *arguments, *self.log_dirs)
        # A committed offset behind the end of its log is a finding, whoever committed it.
        late = any(row["place"] == BEYOND_END for row in done.of_type("commit"))
        self._must_be_well(command, done, 1 if late else 0)
        return done

    def _must_be_well(self, command: str, done: Ran, code: int = 0) -> None:
        complaint = [line for line in done.err.splitlines() if not line.startswith("Note: ")]
        self.compare.same(f"{command}: exit code", done.exit_code, code)
        self.compare.same(f"{command}: complaints", complaint[:3], [])

    def partition_dirs(self) -> Iterator[Path]:
        for log_dir in self.log_dirs:
            for path in sorted(log_dir.iterdir()):
                if path.name in self.truth["offsets"]:
                    yield path

    # Offsets

    def check_offsets(self) -> None:
        """`kdump ls`: where logs begin and end."""
        rows = {f"{row['topic']}-{row['partition']}": row for row in self.ask("ls").of_type("partition")}
        for name in self.truth["offsets"]:
            row = rows.get(name, {"logStartOffset": None, "logEndOffset": None})
            if not name.startswith(EXPIRING):
                self.compare.same(f"ls: log start offset of {name}", row["logStartOffset"], self._start(name))
            self.compare.same(f"ls: log end offset of {name}", row["logEndOffset"], self._end(name))

    def _start(self, name: str) -> int:
        offset: int = self.truth["offsets"][name]["earliest"]
        return offset if self.loaded is None else self.loaded[name].start

    def _end(self, name: str) -> int:
        offset: int = self.truth["offsets"][name]["latest"]
        return offset if self.loaded is None else self.loaded[name].end

    def _went_on(self, name: str) -> bool:
        """Whether the broker wrote on to this log before it said all that is the truth here."""
        return bool(self._end(name) != self.truth["offsets"][name]["latest"])

    def check_times(self) -> None:
        """`kdump lookup`: the offset for a time, as listOffsets gives it."""
        paths = [path for path in self.partition_dirs() if not path.name.startswith(EXPIRING)]
        paths = [path for path in paths if not self._went_on(path.name) and path.name not in self.cleaned]
        with ThreadPoolExecutor(2) as threads:
            for path, (requests, done) in zip(paths, threads.map(self._look_up, paths), strict=True):
                self.compare.same(f"lookup: exit code for {path.name}", done.exit_code, 0)
                for (time, wanted), row in zip(requests, done.rows, strict=True):
                    result = row["result"]
                    got = None if result is None else [result["offset"], result["timestamp"]]
                    if path.name.startswith("__") and got is not None and got[0] >= self._end(path.name):
                        continue  # a coordinator has written it since
                    self.compare.same(f"lookup: {path.name} at {time}", got, wanted)

    def _look_up(self, path: Path) -> tuple[list[tuple[int, list[int] | None]], Ran]:
        offsets = self.truth["offsets"][path.name]
        requests = [(time, None if offset < 0 else [offset, at]) for time, offset, at in offsets["times"]]
        if offsets["max"][0] >= 0:
            requests.append((-3, offsets["max"]))
        times: Iterable[object] = ({"timestamp": time} for time, _ in requests)
        return requests, kdump("lookup", path, "--batch", "-", requests=times)

    # Groups

    def check_groups(self) -> None:
        """`kdump groups`: types, states, members and what they have, committed offsets."""
        done = self.ask("groups")
        groups = {row["group"]: row for row in done.of_type("group") if row["state"] != "Dead"}
        members, commits = _by_group(done.of_type("member")), _by_group(done.of_type("commit"))
        listed = self.truth.get("listed") or self.truth["groups"]
        self.compare.same("groups: names", sorted(groups), sorted(listed))
        for name in sorted(listed.keys() & groups.keys()):
            row = groups[name]
            self.compare.same(f"groups: type of {name}", row["groupType"], listed[name]["type"])
            if row["groupType"] != "streams":
                self.compare.same(f"groups: state of {name}", row["state"], listed[name]["state"])
        for name, group in self.truth["groups"].items():
            self._check_members(name, group, members[name])
            ours = {
                f"{row['topic']}-{row['partition']}": [row["offset"], row["metadata"], row["leaderEpoch"]]
                for row in commits[name]
                if row["pendingProducerId"] is None
            }
            self.compare.same(f"groups: commits of {name}", ours, group["commits"])
            self.compare.agreed(len(ours))
        for name, group in {**self.truth.get("shareGroups", {}), **self.truth.get("streamsGroups", {})}.items():
            ids = sorted(row["memberId"] for row in members[name])
            self.compare.same(f"groups: members of {name}", ids, sorted(group["members"]))
        for name, group in self.truth.get("shareGroups", {}).items():
            starts = {
                f"{row['topic']}-{row['partition']}": row["startOffset"]
                for row in done.of_type("shareStart")
                if row["group"] == name
            }
            for partition, offset in group.get("starts", {}).items():
                self.compare.same(f"groups: start of {partition} in {name}", starts.get(partition), offset)
        for kind in ("groups", "shareGroups", "streamsGroups"):
            for name, group in self.truth.get(kind, {}).items():
                self._check_details(groups.get(name, {}), members[name], group)

    def _check_details(self, ours: dict[str, Any], rows: list[dict[str, Any]], group: Truth) -> None:
        """Epochs, clients, hosts, instances, racks, what is assigned: of each that a client of this release tells."""
        for name, field in (("epoch", "epoch"), ("assignmentEpoch", "assignmentEpoch")):
            if group.get(name) is not None and ours.get("groupType") != "classic":
                # Where no assignment was made yet, brokers tell what they begin with: from 4.3 on 1.
                wanted = None if ours[field] is None and group[name] in (0, 1) else group[name]
                self.compare.same(f"groups: {name} of {ours['group']}", ours[field], wanted)
        for member, wanted in group["members"].items():
            row = _the(rows, memberId=member)
            fields = {
                "client": "clientId",
                "host": "clientHost",
                "instance": "instanceId",
                "rack": "rack",
                "epoch": "epoch",
            }
            for told, field in fields.items():
                if told in wanted and (told != "epoch" or wanted[told] is not None):
                    self.compare.same(f"groups: {field} of {member}", row.get(field), wanted[told])
            if "tasks" in wanted:
                tasks = {entry["topic"]: entry["partitions"] for entry in row.get("assignment") or ()}
                self.compare.same(f"groups: tasks of {member}", tasks, wanted["tasks"])
            if "assignment" in wanted:
                self.compare.same(f"groups: assignment of {member}", _assigned(row), wanted["assignment"])

    def _check_members(self, name: str, group: Truth, rows: list[dict[str, Any]]) -> None:
        self.compare.same(
            f"groups: members of {name}", sorted(row["memberId"] for row in rows), sorted(group["members"])
        )

    # Metadata

    def check_metadata(self) -> None:
        """`kdump metadata`: topics, partitions, settings, features, quotas, access."""
        done = jsonl("metadata", self.log_dirs[0])
        self._must_be_well("metadata", done)
        topics = self.truth["topics"]
        ours = {row["topic"]: row["topicId"] for row in done.of_type("topic")}
        self.compare.same("metadata: topic ids", ours, {name: topic["id"] for name, topic in topics.items()})
        rows = {f"{row['topic']}-{row['partition']}": row for row in done.of_type("partition")}
        for topic in topics:
            for partition, wanted in topics[topic]["partitions"].items():
                row = rows.get(f"{topic}-{partition}", {})
                # A broker that stops in order leaves the ISR, and stays eligible where that is kept.
                in_sync = row.get("isr") or row.get("eligibleLeaderReplicas")
                got, kafkas = (row.get("replicas"), in_sync), (wanted["replicas"], wanted["isr"])
                self.compare.same(f"metadata: replicas of {topic}-{partition}", got, kafkas)
        settings: dict[str, dict[str, str]] = defaultdict(dict)
        for row in done.of_type("config"):
            if row["resourceType"] == "TOPIC":
                settings[row["resource"]][row["name"]] = row["value"]
        for name, topic in topics.items():
            self.compare.same(f"metadata: settings of {name}", settings[name], topic["configs"])
        self._check_cluster(done)

    def _check_cluster(self, done: Ran) -> None:
        cluster = done.of_type("cluster")[0]
        levels = {row["name"]: row["level"] for row in done.of_type("feature")}
        levels["metadata.version"] = cluster["metadataVersion"]
        wanted = self.truth["features"]
        if cluster["kraftVersion"] == 0:
            wanted = {name: level for name, level in wanted.items() if name != "kraft.version"}
        self.compare.same("metadata: features", levels, wanted)
        self.compare.same("metadata: brokers", [row["brokerId"] for row in done.of_type("broker")], [1])
        fields = ("resourceType", "resource", "patternType", "principal", "host", "operation", "permission")
        acls = sorted(" ".join(row[field] for field in fields) for row in done.of_type("acl"))
        self.compare.same("metadata: ACLs", acls, sorted(self.truth["acls"]))
        quotas = [
            ({entity["type"]: entity["name"] for entity in row["entity"]}, row["key"], row["value"])
            for row in done.of_type("quota")
        ]
        theirs = [(row["entity"], row["key"], row["value"]) for row in self.truth["quotas"]]
        self.compare.same("metadata: quotas", sorted(map(repr, quotas)), sorted(map(repr, theirs)))
        scram = {row["user"]: [f"{row['mechanism']} {row['iterations']}"] for row in done.of_type("scramCredential")}
        self.compare.same("metadata: SCRAM credentials", scram, self.truth["scram"])

    # Transactions

    def check_transactions(self) -> None:
        """`kdump txns`: last stable offsets, open transactions, the states of transactional ids."""
        done = self.ask("txns", "--all", "--max-timeout-ms", 2147483647)
        rows = {f"{row['topic']}-{row['partition']}": row for row in done.of_type("partition")}
        for name, offsets in self.truth["offsets"].items():
            if not self._went_on(name) and not name.startswith("__transaction_state"):
                row = rows.get(name, {"lastStableOffset": None, "highWatermark": None, "logStartOffset": 0})
                # A leader without followers takes the end of its log for the high watermark when it starts; retention
                # may have gone beyond the one in the checkpoint.
                mark = row["highWatermark"] or 0
                stable = max(min(offsets["lastStable"], mark), row["logStartOffset"])
                if mark >= offsets["latest"] or row["lastStableOffset"] is None:
                    self.compare.same(f"txns: last stable offset of {name}", row["lastStableOffset"], stable)
                else:
                    # A transaction whose marker lies behind the mark in the checkpoint is not over by that.
                    what = f"txns: last stable offset of {name}, {row['lastStableOffset']}, up to {stable}"
                    self.compare.holds(what, row["lastStableOffset"] <= stable)
        ours = sorted(
            (f"{row['topic']}-{row['partition']}", row["producerId"], row["firstOffset"])
            for row in done.of_type("openTransaction")
            if not self._went_on(f"{row['topic']}-{row['partition']}")
        )
        theirs = sorted(
            (name, producer["producerId"], producer["openSince"])
            for name, producers in self.truth["producers"].items()
            for producer in producers
            if producer["openSince"] is not None and not self._went_on(name)
        )
        self.compare.same("txns: open transactions", ours, theirs)
        rows = {row["transactionalId"]: row for row in done.of_type("transactionalId")}
        self.compare.same("txns: transactional ids", sorted(rows), sorted(self.truth["transactions"]))
        for name in sorted(rows.keys() & self.truth["transactions"].keys()):
            row, wanted = rows[name], self.truth["transactions"][name]
            if self.loaded is not None and row["state"] in _SETTLED:
                # A coordinator that starts ends what it finds prepared.
                row |= {"state": _SETTLED[row["state"]], "partitions": []}
            covered = sorted(f"{e['topic']}-{number}" for e in row["partitions"] for number in e["partitions"])
            got = (row["state"], row["producerId"], row["producerEpoch"], row["timeoutMs"], covered)
            kafkas = (wanted["state"], wanted["producerId"], wanted["epoch"], wanted["timeout"], wanted["partitions"])
            self.compare.same(f"txns: {name}", got, kafkas)

    # Records

    def check_records(self, records: Iterable[dict[str, Any]]) -> None:
        """`kdump dump`: every record that consumers get, with all that they see of it."""
        starts = {name: offsets["earliest"] for name, offsets in self.truth["offsets"].items()}
        ours: dict[str, dict[int, str]] = defaultdict(dict)
        done = jsonl("dump", "--raw", *self.partition_dirs())
        self._must_be_well("dump", done)
        for line in done.out.splitlines():
            row = json.loads(line)
            if row["type"] == "record" and not row["isControl"]:
                ours[f"{row['topic']}-{row['partition']}"][row["offset"]] = _seen_by_kdump(row)
        kafkas: dict[str, dict[int, str]] = defaultdict(dict)
        for row in records:
            kafkas[row["partition"]][row["offset"]] = _seen_by_consumers(row)
        for name, start in starts.items():
            got = {offset: text for offset, text in ours[name].items() if offset >= start}
            theirs = set(kafkas[name])
            if name in self.cleaned:
                got = {offset: text for offset, text in got.items() if offset in theirs}
            if name.startswith("__"):
                # Coordinators may have written on, before or after the consumers read.
                last = min(max(ours[name], default=-1), max(theirs, default=-1))
                theirs = {offset for offset in theirs if offset <= last}
                got = {offset: text for offset, text in got.items() if offset <= last}
            self.compare.same(f"dump: offsets of {name}", sorted(got), sorted(theirs))
            for offset in got.keys() & kafkas[name].keys():
                self.compare.same(f"dump: {name} at {offset}", got[offset], kafkas[name][offset])


def check_nothing_found(compare: Comparison, done: Ran) -> None:
    """That `kdump verify --fail-on warning` has no error and no warning to report; each segment counts."""
    compare.same("verify: exit code", done.exit_code, 0)
    found = [row for row in done.of_type("finding") if row["severity"] != "info"]
    for code, rows in groupby(sorted(found, key=itemgetter("code")), itemgetter("code")):
        alike = list(rows)
        first = alike[0]
        compare.holds(f"{len(alike)} {code}, one {first['path']} {first['position']}: {first['message']}", False)
    compare.agreed(done.of_type("summary")[0]["segments"])


def _by_group(rows: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    groups: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        groups[row["group"]].append(row)
    return groups


def _the(rows: list[dict[str, Any]], **wanted: object) -> dict[str, Any]:
    return next((row for row in rows if all(row[name] == value for name, value in wanted.items())), {})


def _assigned(member: dict[str, Any]) -> list[str]:
    return sorted(f"{e['topic']}-{number}" for e in member.get("assignment", []) for number in e["partitions"])


def _seen_by_kdump(row: dict[str, Any]) -> str:
    headers = [[header["key"], _payload(header, "value")] for header in row["headers"]]
    kind = row["timestampType"]
    return repr((row["timestamp"], kind, row["leaderEpoch"], _payload(row, "key"), _payload(row, "value"), headers))


def _payload(row: dict[str, Any], name: str) -> str | None:
    """In base64, as Truth.java gives it; kdump gives text where it is UTF-8."""
    if row[name] is None:
        twin: str | None = row.get(f"{name}Base64")
        return twin
    return base64.b64encode(row[name].encode()).decode()


def _seen_by_consumers(row: dict[str, Any]) -> str:
    kind = {"CreateTime": "CreateTime", "LogAppendTime": "LogAppendTime"}[row["timestampType"]]
    return repr((row["timestamp"], kind, row["leaderEpoch"], row["key"], row["value"], row["headers"]))

"""What no two commands may say differently about the same log directories.

Each rule is a function that yields the contradictions that it finds, as sentences that name both sides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tests.agreement.answers import (
    CLOCK,
    HIDES,
    LOG_DAMAGE,
    LOG_ZEROS,
    REFUSES,
    SAFE,
    SALVAGE,
    TRUNCATE,
    TRUNCATES,
    Answers,
    advised,
    by_path,
    file_name,
    is_in,
    operations,
    parent,
    relative,
)
from tests.agreement.running import Row, Said

Rule = Callable[[Answers], Iterator[str]]
METADATA = "__cluster_metadata-0"
MAX_TIMESTAMP = -3
"""Asks `lookup` for the offset of the largest timestamp."""
OFFSETS = ("logStartOffset", "logEndOffset")
LOST = ("bytes", "batches", "records", "firstOffset", "lastOffset")
CUTS = {"truncate", "drop", "empty", "split"}
REMOVES = {"delete", "rename"}
CHECKPOINT_CODES = ("KD-CKPT-HIGH-WATERMARK", "KD-CKPT-RECOVERY", "KD-CKPT-LOG-START", "KD-CKPT-BEHIND")
LEFTOVER_CODES = {"KD-FILE-DELETED", "KD-FILE-CLEANED", "KD-FILE-SWAP", "KD-FILE-TMP", "KD-IDX-ORPHAN"}
NOT_MENDED = {"quorum-state"}
MENDED = ("KD-LOG-", "KD-IDX-", "KD-TIDX-", "KD-TXN-", "KD-SNAP-", "KD-EPOCH-")
"""How the codes of what a repair mends begin; others are about sound batches, other copies, or identities."""
STRAY_CODES = {"KD-DIR-UNASSIGNED", "KD-META-TOPIC-CLUSTER"}


def no_command_dies(answers: Answers) -> Iterator[str]:
    """Every command ends with a code that docs name, prints JSON lines and no traceback, and takes its own options."""
    asked = [
        answers.verify, answers.startup, answers.worst_startup, answers.ls, answers.retain, answers.dump,
        answers.stats, answers.txns, answers.doctor, *map(answers.plan, answers.repairs),
        answers.ask("compact", *CLOCK), answers.ask("groups", *CLOCK),
    ]  # fmt: skip
    for said in asked:
        if said.code not in (0, 1, 3, 4):
            yield f"{said} exits with {said.code}: {said.err}"
        if "Traceback" in said.err or "an error in kdump itself" in said.err:
            yield f"{said} fails: {said.err}"
        if not all(isinstance(row, dict) for row in said.rows):
            yield f"{said} prints a line that is no object"


def exit_codes_are_those_of_the_output(answers: Answers) -> Iterator[str]:
    """1 where there are findings, losses or work, 3 where something could not be read or mended, else 0."""
    errors = any(row["severity"] == "error" for row in answers.findings)
    unread = answers.verify.rows[-1]["unread"]
    yield from _expected(answers.verify, 3 if unread else int(errors), f"{unread} unread, errors: {errors}")
    bad = [path for path, row in answers.outcomes.items() if row["hasLoss"] or not row["isLoaded"]]
    bad += [path for path, row in answers.outcomes.items() if row["stray"] or row["expiring"]]
    bad += [row["path"] for row in answers.startup.of_type("logDirectory") if not row["isOnline"]]
    bad += [row["message"] for row in answers.startup.of_type("failure")]
    bad += [failure["message"] for row in answers.startup.of_type("broker") for failure in row["failures"]]
    if answers.startup.code != 3:
        yield from _expected(answers.startup, int(bool(bad)), f"losses and failures: {bad}")
    for repair in answers.repairs:
        plan = answers.plan(repair)
        failed = [path for path, row in by_path(plan, "partition").items() if not row["isComplete"] or row["problems"]]
        work = plan.of_type("operation") + plan.of_type("decision")
        yield from _expected(plan, 3 if failed else int(bool(work)), f"failed: {failed}, {len(work)} things to do")
    deletes = [row["path"] for row in answers.retain.of_type("partition") if row["deletes"] or row["checkpoints"]]
    if answers.retain.code != 3:
        yield from _expected(answers.retain, int(bool(deletes)), f"deletes in {deletes}")


def _expected(said: Said, code: int, why: str) -> Iterator[str]:
    if said.code != code:
        yield f"{said} exits with {said.code}, its output says {code} ({why})"


def what_ends_with_3_says_why(answers: Answers) -> Iterator[str]:
    """A command that could not do everything says so on stderr, too."""
    for said in (answers.verify, answers.startup, answers.ls, answers.retain, *map(answers.plan, answers.repairs)):
        if said.code == 3 and not said.err:
            yield f"{said} exits with 3, its stderr is empty"


def a_repair_that_fails_counts_what_failed(answers: Answers) -> Iterator[str]:
    """The summary of a repair counts failed partitions exactly where it exits with 3."""
    for repair in answers.repairs:
        plan = answers.plan(repair)
        summary = plan.rows[-1]
        if summary["type"] == "summary" and (plan.code == 3) != bool(summary["partitionsFailed"]):
            yield f"{plan} exits with {plan.code}, its summary has {summary['partitionsFailed']} failed partitions"
        worked = sum(bool(row["operations"]) for row in plan.of_type("partition"))
        if summary["type"] == "summary" and summary["partitionsWithWork"] != worked:
            yield f"{plan}: {worked} partitions have operations, its summary says {summary['partitionsWithWork']}"


def all_commands_see_the_same_partitions(answers: Answers) -> Iterator[str]:
    """What ls lists, startup loads; and the others leave none of those out that are served, without saying so."""
    known, loaded = set(answers.listed), set(answers.outcomes)
    if known != loaded and not answers.startup.of_type("failure"):
        yield f"only one of ls and startup has {known ^ loaded}"
    served = {path for path in answers.served if not path.endswith(METADATA)}
    for said in (answers.retain, answers.stats, *map(answers.plan, answers.repairs)):
        seen = set(by_path(said, "partition"))
        if seen - known:
            yield f"{said} has {seen - known}, ls has not"
        if served - seen and said.code != 3:
            yield f"{said} leaves out {served - seen}, which ls has"


def the_log_end_offset_is_the_same(answers: Answers) -> Iterator[str]:
    """ls, lookup, retain and txns name the same log end offset: the one before a broker starts."""
    yield from _same_offset(answers, "logEndOffset", "latest")


def the_log_start_offset_is_the_same(answers: Answers) -> Iterator[str]:
    """ls, lookup, retain and txns name the same log start offset: the one before a broker starts."""
    yield from _same_offset(answers, "logStartOffset", "earliest")


def _same_offset(answers: Answers, field: str, time: str) -> Iterator[str]:
    looked_up = answers.lookup(time)
    for path, row in answers.served.items():
        others = {
            f"lookup {time}": looked_up.get(path, row[field]),
            "retain": answers.retained.get(path, row)[field],
            "txns": answers.transactions.get(path, row)[field],
        }
        for command, offset in others.items():
            if offset != row[field]:
                yield f"{path}: {field} of ls is {row[field]}, of {command} {offset}"


def no_log_starts_behind_its_end(answers: Answers) -> Iterator[str]:
    """Each command that names both offsets has the start at or before the end."""
    rows = {"ls": answers.served, "startup": answers.outcomes, "retain": answers.retained, "txns": answers.transactions}
    for command, partitions in rows.items():
        for path, row in partitions.items():
            start, end = row["logStartOffset"], row["logEndOffset"]
            if start is not None and end is not None and start > end:
                yield f"{command}: {path} starts at {start} and ends at {end}"
    earliest, latest = answers.lookup("earliest"), answers.lookup("latest")
    for path in earliest.keys() & latest.keys():
        if (earliest[path] or 0) > (latest[path] or 0):
            yield f"lookup: {path} starts at {earliest[path]} and ends at {latest[path]}"


def a_start_that_cuts_nothing_keeps_the_offsets(answers: Answers) -> Iterator[str]:
    """Where startup cuts and removes no segment, the log starts and ends where ls says."""
    for path, row in answers.outcomes.items():
        is_cut = row["hasLoss"] or any(step["action"] in CUTS for step in answers.steps(answers.startup, path))
        if not row["isLoaded"] or is_cut or path not in answers.served:
            continue
        for field in OFFSETS:
            if answers.listed[path][field] != row[field]:
                listed = answers.listed[path][field]
                yield f"{path}: {field} of ls is {listed}, startup cuts nothing and has {row[field]}"


def lookup_answers_lie_in_the_log(answers: Answers) -> Iterator[str]:
    """An offset is found exactly between log start and log end; no time is answered with an offset outside.

    But for the largest timestamp, as with a broker: its record may be below a log start offset that moved inside a
    segment.
    """
    for path, pairs in answers.offsets.items():
        start, end = answers.listed[path]["logStartOffset"], answers.listed[path]["logEndOffset"]
        for request, answer in pairs:
            if "error" in answer:
                continue
            is_before = answer.get("isValid") and answer["batchLastOffset"] < request.get("offset", -1)
            if answer.get("isFound") and is_before:  # the header of a batch that fails its CRC may say anything
                yield f"{path}: lookup of {request} ends in a batch before it: {answer}"
            if "offset" in request and answer["isFound"] and request["offset"] >= end:
                yield f"{path}: lookup finds {request}, the log ends at {end}: {answer}"
            result = answer.get("result")
            least = -1 if request.get("timestamp") == MAX_TIMESTAMP else start
            if result and not least <= result["offset"] <= end:
                yield f"{path}: lookup of {request} gives {result['offset']}, the log has {start} to {end}"


def the_last_offset_of_a_sound_log_is_found(answers: Answers) -> Iterator[str]:
    """Where verify has no error, lookup finds the offset before the log end offset of ls."""
    for path, pairs in answers.offsets.items():
        start, end = answers.listed[path]["logStartOffset"], answers.listed[path]["logEndOffset"]
        if start == end or any(row["severity"] == "error" for row in answers.findings_of(path)):
            continue
        for request, answer in pairs:
            if request.get("offset") == end - 1 and not answer.get("isFound"):
                yield f"{path}: ls has offsets {start} to {end - 1}; lookup does not find the last: {answer}"


def checkpoints_are_the_same(answers: Answers) -> Iterator[str]:
    """ls, startup and retain read the same recovery point and high watermark."""
    for path, row in answers.listed.items():
        point, mark = row["checkpoints"]["recoveryPoint"], row["checkpoints"]["highWatermark"]
        outcome = answers.outcomes.get(path)
        is_trusted = not path.endswith(METADATA)  # a controller always recovers its log from the beginning
        if outcome and is_trusted and point is not None and outcome["recoveryPoint"] != point:
            yield f"{path}: the recovery point of ls is {point}, of startup {outcome['recoveryPoint']}"
        if outcome and outcome["highWatermark"] != mark:
            yield f"{path}: the high watermark of ls is {mark}, of startup {outcome['highWatermark']}"
        retained = answers.retained.get(path)
        if retained and mark is not None:
            within = min(max(mark, retained["logStartOffset"]), retained["logEndOffset"])
            if retained["highWatermark"] != within:
                yield f"{path}: the high watermark of ls is {mark}, retain makes {retained['highWatermark']} of it"


def verify_compares_checkpoints_with_the_same_end(answers: Answers) -> Iterator[str]:
    """verify finds a checkpoint beyond the log's end exactly where it lies beyond the end that ls names."""
    closed = {row["path"]: row["hasCleanShutdown"] for row in answers.ls.of_type("logDirectory")}
    for path, row in answers.served.items():
        end, checkpoints = row["logEndOffset"], row["checkpoints"]
        if end is None or "KD-CKPT-LOG-START" in answers.codes_of(path):
            continue  # a log start offset behind the log's end is both, after all segments have gone
        point, mark, start = (checkpoints[name] for name in ("recoveryPoint", "highWatermark", "logStart"))
        beyond = (
            mark is not None and mark > end,
            point is not None and point > end,
            start is not None and start > end,
            closed[row["logDirectory"]] and point is not None and point < end,
        )
        for code, expected in zip(CHECKPOINT_CODES, beyond, strict=True):
            if (code in answers.codes_of(path)) != expected:
                yield f"{path}: {code} of verify is {not expected}; ls: {checkpoints} with log end offset {end}"


def _failures(said: Said) -> dict[str, str]:
    """Where startup says that something does not load, by its path, with Kafka's exception."""
    found = {
        row["path"]: row["failure"]["exception"]
        for row in said.of_type("outcome")
        if not row["isLoaded"] and row["failure"]
    }
    for row in said.of_type("logDirectory"):
        if not row["isOnline"]:
            found[row["path"]] = ", ".join(failure["exception"] for failure in row["failures"])
    for row in said.of_type("failure"):
        found[row["file"]] = row["exception"]
    for row in said.of_type("broker"):  # a file of a partition that its log's loading does not read
        found |= {parent(each["file"]): each["exception"] for each in row["failures"] if each["file"].count("/") > 1}
    return found


def a_start_that_fails_is_an_error_of_verify(answers: Answers) -> Iterator[str]:
    """What startup says does not load, verify calls an error at that place, and exits with 1."""
    for place, exception in _failures(answers.startup).items():
        if answers.verify.code == 0:
            yield f"startup: {place} fails with {exception}; verify exits with 0"
        elif not any(row["severity"] == "error" for row in answers.findings_of(place)):
            yield f"startup: {place} fails with {exception}; verify has no error there"


def verify_says_that_a_broker_refuses(answers: Answers) -> Iterator[str]:
    """Where startup says that something does not load, verify says that a broker refuses it."""
    for place, exception in _failures(answers.startup).items():
        errors = [row for row in answers.findings_of(place) if row["severity"] == "error"]
        if errors and not any(row["broker"] in REFUSES for row in errors):
            said = {row["code"]: row["broker"] for row in errors}
            yield f"startup: {place} fails with {exception}; verify: {said}"


def startup_foretells_what_verify_says_a_broker_refuses(answers: Answers) -> Iterator[str]:
    """What verify says a broker refuses fails at the next start, or in the worst one."""
    failures = _failures(answers.startup) | _failures(answers.worst_startup)
    failures |= {row["path"]: "warning" for row in answers.startup.of_type("logDirectory") if row["warnings"]}
    for finding in answers.findings:
        path = finding["path"]
        if finding["broker"] in REFUSES and not any(is_in(path, each) or is_in(each, path) for each in failures):
            yield f"verify: {finding['code']} at {path}: a broker {finding['broker']}; startup loads it"


def what_a_start_loses_is_an_error_of_verify(answers: Answers) -> Iterator[str]:
    """Where startup loses data, verify has an error in that partition and says that a broker truncates, or hides it."""
    for path, row in answers.outcomes.items():
        if row["hasLoss"] and not any(
            finding["severity"] == "error" and finding["broker"] in {TRUNCATES, HIDES, *REFUSES}
            for finding in answers.findings_of(path)
        ):
            yield f"startup: {path} loses {row['lost']['bytes']} bytes; verify: {sorted(answers.codes_of(path))}"


def startup_cuts_where_verify_says_so(answers: Answers) -> Iterator[str]:
    """What verify says a broker truncates after an unclean shutdown is cut, emptied or removed in the worst start."""
    for finding in answers.findings:
        path = finding["path"]
        if finding["broker"] != TRUNCATES or finding["severity"] != "error" or not path.endswith(".log"):
            continue
        outcome = by_path(answers.worst_startup, "outcome").get(parent(path))
        steps = answers.steps(answers.worst_startup, parent(path))
        if (
            outcome
            and outcome["isLoaded"]
            and not any(step["action"] in CUTS | REMOVES and step["file"] == file_name(path) for step in steps)
        ):
            yield f"verify: {finding['code']} at {path}: a broker truncates; startup leaves the file"


def doctor_names_what_startup_and_verify_name(answers: Answers) -> Iterator[str]:
    """What a start harms needs somebody; and nobody is needed where neither startup nor verify has a word on it."""
    rows = answers.doctor.of_type("diagnosis")
    named = {relative(path) for row in rows for path in row["paths"]}
    harmed = {
        path
        for path, row in answers.outcomes.items()
        if row["hasLoss"] or not row["isLoaded"] or row["stray"] or row["expiring"]
    }
    if missing := harmed - named:
        yield f"startup: {missing} come to harm; doctor does not name them"
    known = {path for path in answers.outcomes if answers.codes_of(path)} | harmed
    for row in rows:
        for path in map(relative, row["paths"]):
            if row["failure"] is None and path in answers.outcomes and path not in known:
                yield f"{path}: {row['title']} by doctor; neither startup nor verify names it"
    if answers.startup.code == 1 and answers.doctor.code == 0:
        yield "startup exits with 1, doctor with 0"
    if answers.doctor.code != 3:
        yield from _expected(answers.doctor, int(bool(rows)), f"{len(rows)} things that need somebody")
    (summary,) = answers.doctor.of_type("summary")
    starts = [row["isStartable"] for row in answers.startup.of_type("broker")]
    if starts and starts != [summary["isStartable"]]:
        yield f"startup: the broker starts: {starts}; doctor: {summary['starts']}"


def directories_out_of_place_are_the_same(answers: Answers) -> Iterator[str]:
    """ls, verify and startup agree on directories that are no partition's and on partitions that are there twice."""
    names = {f"{row['path']}/{name}" for row in answers.ls.of_type("logDirectory") for name in row["notPartitions"]}
    found = {row["path"] for row in answers.findings if row["code"] == "KD-DIR-NAME"}
    if names != found:
        yield f"directories that are no partition's: {names} in ls, {found} in verify"
    if names and not _failures(answers.startup):
        yield f"ls: {names} keep a broker from starting; startup does not say so"
    twice = bool(answers.ls.of_type("duplicate"))
    for command, parsed in {
        "verify": any(row["code"] == "KD-DIR-DUPLICATE" for row in answers.findings),
        "startup": bool(answers.startup.of_type("failure")),
    }.items():
        if parsed != twice:
            yield f"a partition is there twice: {twice} in ls, {parsed} in {command}"


def checkpoint_lines_without_a_partition_are_the_same(answers: Answers) -> Iterator[str]:
    """ls and verify agree on whether checkpoints have lines for partitions that are not there."""
    missing = [row for each in answers.ls.of_type("logDirectory") for row in each["checkpointedButMissing"]]
    stale = any(row["code"] == "KD-CKPT-STALE" for row in answers.findings)
    if bool(missing) != stale:
        yield f"ls: {missing} are in checkpoints only; KD-CKPT-STALE of verify: {stale}"


def stray_partitions_are_the_same(answers: Answers) -> Iterator[str]:
    """ls and verify name the same partitions that a broker sets aside, and startup sets them aside."""
    listed = {path for path, row in answers.listed.items() if row["placement"] and row["placement"]["stray"]}
    found = {path for path in answers.listed if answers.codes_of(path) & STRAY_CODES}
    if listed != found:
        yield f"stray at start: {listed} in ls, {found} in verify"
    for path in listed:
        outcome = answers.outcomes.get(path)
        if outcome and outcome["isLoaded"] and not outcome["stray"]:
            yield f"ls: a broker renames {path} to -stray at start; startup does not say so"


def damage_is_at_the_same_place(answers: Answers) -> Iterator[str]:
    """ls, stats and verify see damage, and zeros after the last batch, in the same files."""
    for path in answers.served:
        segments = answers.segments(answers.ls, path)
        if not all(row["isComplete"] for row in segments.values()):
            continue  # of a large segment ls looks at the ends
        for field, codes in (("damage", LOG_DAMAGE), ("hasZeroTail", LOG_ZEROS)):
            listed = {name for name, row in segments.items() if row[field]}
            found = {file_name(row["path"]) for row in answers.in_segments(path) if row["code"] in codes}
            if listed != found:
                yield f"{path}: {field} of ls in {listed}, {sorted(codes)} of verify in {found}"
        counted = by_path(answers.stats, "partition").get(path)
        if "KD-LOG-ZEROS" in answers.codes_of(path):
            continue  # which are damage to stats in a segment that was rolled, as a broker writes to it no more
        named = {row["code"] for row in answers.in_segments(path)}
        if counted and bool(counted["damagedPlaces"]) != bool(LOG_DAMAGE & named):
            yield f"{path}: stats counts {counted['damagedPlaces']} damaged places; verify: {named}"


def dump_meets_damage_where_verify_does(answers: Answers) -> Iterator[str]:
    """dump and stats exit with 1 only where verify has an error, and always where a log is damaged."""
    is_damaged = any(row["code"] in LOG_DAMAGE for path in answers.served for row in answers.in_segments(path))
    for said in (answers.dump, answers.stats):
        if said.code == 1 and answers.verify.code == 0:
            yield f"{said} exits with 1: {said.err.strip()}; verify exits with 0"
        if said.code == 0 and is_damaged:
            yield f"{said} exits with 0; verify: the log is damaged"


def records_are_counted_alike(answers: Answers) -> Iterator[str]:
    """ls and stats count the same records in logs that are not damaged."""
    for path, row in by_path(answers.stats, "partition").items():
        listed = answers.listed[path]["records"]
        if None not in (listed, row["records"]) and listed != row["records"]:
            yield f"{path}: {listed} records in ls, {row['records']} in stats"


def leftovers_are_the_same(answers: Answers) -> Iterator[str]:
    """ls and verify name the same leftover files; startup removes or renames all but those that are being written."""
    for path, row in answers.listed.items():
        outcome = answers.outcomes.get(path)
        if not outcome or not outcome["isLoaded"]:
            continue
        leftovers = {each["name"] for each in row["leftovers"] + row["orphans"]}
        found = {
            file_name(each["path"])
            for each in answers.findings
            if each["code"] in LEFTOVER_CODES and parent(each["path"]) == path
        }
        if leftovers != found:
            yield f"{path}: leftover files: {leftovers} in ls, {found} in verify"
        handled = {step["file"] for step in answers.steps(answers.startup, path) if step["action"] in REMOVES}
        kept = {each["name"] for each in row["leftovers"] if each["state"] in ("deleted", "cleaned", "swap")} - handled
        if kept:
            yield f"{path}: ls calls {kept} leftover files; startup neither removes nor renames them"


def segments_are_the_same(answers: Answers) -> Iterator[str]:
    """ls and retain have the same segments; of the last one retain counts what is used, of the others the whole file.

    So does a broker: only of the last one it looks for the end of the batches.
    """
    for path in answers.retained:
        listed, retained = answers.segments(answers.ls, path), answers.segments(answers.retain, path)
        last = max(listed, default="")
        if listed.keys() != retained.keys():
            yield f"{path}: only one of ls and retain has {listed.keys() ^ retained.keys()}"
        for name in listed.keys() & retained.keys():
            field, size = "usedSize" if name == last else "size", retained[name]["size"]
            if listed[name][field] != size:
                yield f"{path}/{name}: {field} of ls is {listed[name][field]}, size of retain {size}"


def retain_warns_where_a_start_comes_first(answers: Answers) -> Iterator[str]:
    """Where a start of the broker fails or loses data, retain does not plan to delete without naming the problem."""
    for path, row in answers.retained.items():
        outcome = answers.outcomes.get(path)
        if not outcome or row["problems"]:
            continue
        if not outcome["isLoaded"]:
            yield f"startup: {path} does not load ({outcome['failure']['exception']}); retain names no problem"
        elif outcome["hasLoss"]:
            yield f"startup: {path} loses {outcome['lost']['bytes']} bytes; retain names no problem"


def retention_stays_inside_the_log(answers: Answers) -> Iterator[str]:
    """Retention moves the log start offset forward, and not beyond the high watermark."""
    for path, row in answers.retained.items():
        start, new, mark = row["logStartOffset"], row["newLogStartOffset"], row["highWatermark"]
        if not start <= new <= max(mark, start):
            yield f"{path}: retain moves the log start from {start} to {new}, the high watermark is {mark}"


def open_transactions_are_the_same(answers: Answers) -> Iterator[str]:
    """txns and verify find open and hanging transactions in the same partitions.

    But for damaged logs: a marker may have been in the bytes that are lost, and verify says only what is sure.
    """
    for path, row in answers.transactions.items():
        codes = answers.codes_of(path)
        if codes & (LOG_DAMAGE | {"KD-LOG-ZEROS", "KD-LOG-EMPTY"}):
            continue
        for what, count, expected in (
            ("open", row["open"], {"KD-TXN-OPEN", "KD-TXN-HANGING"}),
            ("hanging", row["hanging"], {"KD-TXN-HANGING"}),
        ):
            if bool(count) != bool(codes & expected):
                yield f"{path}: {count} {what} transactions in txns; verify: {sorted(codes)}"


def a_sound_partition_needs_no_repair(answers: Answers) -> Iterator[str]:
    """Where verify finds nothing to repair, and the broker was stopped orderly, nothing that repairs has work."""
    if not answers.directory.was_closed:
        return
    for path in answers.served:
        if any(row["severity"] != "note" or row["actions"] for row in answers.findings_of(path)):
            continue
        for repair in (SAFE, SALVAGE, "trim", "rebuild-index"):
            work = operations(answers.plan(repair), path)
            if work:
                yield f"verify finds nothing in {path}; {repair}: {work}"


def repair_decides_nothing(answers: Answers) -> Iterator[str]:
    """`repair` drops no valid batch: it leaves alone what needs a decision, and offers what loses least first."""
    plan = answers.plan(SAFE)
    for path, row in by_path(plan, "partition").items():
        if row["dropped"]["batches"]:
            yield f"{path}: repair drops {row['dropped']}"
        if row["isDecisionNeeded"] and row["operations"]:
            yield f"{path}: repair asks for a decision, and does {operations(plan, path)}"
        errors = [each for each in answers.findings_of(path) if each["severity"] == "error"]
        if row["isDecisionNeeded"] and not any(each["path"].endswith(".log") for each in errors):
            yield f"{path}: repair asks for a decision; verify: {sorted(answers.codes_of(path))}"
    for row in plan.of_type("decision"):
        losses = [offer["losesRecords"] for offer in row["offers"] if offer["losesRecords"] is not None]
        if losses != sorted(losses):
            yield f"{relative(row['path'])}: repair offers what loses more first: {row['offers']}"
    mended = answers.mended(SAFE)
    if mended and answers.batches - mended.batches:
        yield f"after repair the valid batches {sorted(answers.batches - mended.batches)} are gone"


def trim_decides_nothing(answers: Answers) -> Iterator[str]:
    """`trim` leaves a log alone in which a whole batch is damaged: `repair` asks what is to become of its records."""
    damaged = {row["path"] for row in answers.findings if row["code"] == "KD-LOG-CRC"}
    for row in answers.plan("trim").of_type("operation"):
        path = f"{relative(row['path'])}/{row['file']}"
        if path in damaged:
            yield f"{path}: verify finds a damaged batch, and trim's plan is to {row['action']} it"


def truncate_does_what_startup_foretells(answers: Answers) -> Iterator[str]:
    """`--strategy truncate` has the outcome of startup: whether the log loads, its offsets, what is lost.

    What startup does not look at, truncate does: after a clean shutdown the outcome is that of the worst start where
    that start loses something, or fails.
    """
    plan = by_path(answers.plan(TRUNCATE), "partition")
    if answers.startup.of_type("failure"):
        return
    worst = by_path(answers.worst_startup, "outcome")
    for path, row in answers.outcomes.items():
        planned = plan.get(path)
        if planned is None:
            yield f"startup has {path}, truncate has not"
            continue
        foretold = {_outcome(start, start["isLoaded"]) for start in (row, worst[path])}
        repaired = _outcome(planned, planned["isComplete"])
        if repaired not in foretold:
            yield f"{path}: startup foretells {foretold}, truncate plans {repaired}"


def _outcome(row: Row, is_loaded: bool) -> tuple[object, ...]:
    """Whether a log loads; if it does, its offsets and what is lost."""
    if not is_loaded:
        return (False,)
    return (True, *(row[field] for field in OFFSETS), *(row["lost"][field] for field in LOST))


def what_is_applied_was_planned(answers: Answers) -> Iterator[str]:
    """--apply does the operations that the plan has, all of them."""
    for repair in answers.repairs:
        mended = answers.mended(repair)
        if mended:
            for path in by_path(mended.applied, "partition"):
                planned, done = operations(answers.plan(repair), path), operations(mended.applied, path)
                if planned != done:
                    yield f"{path}: {repair} plans {planned}, --apply does {done}"


def advice_helps(answers: Answers) -> Iterator[str]:
    """An error whose advice names a command is gone after that command.

    But in a partition that this command does not repair, and says why: other files of it have to be mended first, or
    somebody has to decide what is to become of other damage.
    """
    for finding in answers.findings:
        if finding["severity"] != "error":
            continue
        for repair in advised(finding):
            if repair not in answers.repairs:
                continue
            plan = by_path(answers.plan(repair), "partition").get(parent(finding["path"]))
            if plan and (not plan["isComplete"] or plan["problems"] or plan["isDecisionNeeded"]):
                continue
            mended = answers.mended(repair)
            left = answers.findings if mended is None else mended.findings
            if any((row["code"], row["path"]) == (finding["code"], finding["path"]) for row in left):
                yield f"verify: {finding['code']} at {finding['path']}: {finding['repair']}; {repair} leaves it"


FROM_BATCHES = ("KD-EPOCH-", "KD-TXN-")
"""Codes of what a broker makes from the batches that it reads."""


def a_repair_brings_no_new_error(answers: Answers) -> Iterator[str]:
    """After a repair verify has no error that was not there before.

    But for `trim`: a .timeindex that was wrong before may be wrong in another way without its last entries. And for
    `truncate`, which does what a broker does, who takes over what stands in the wrong place, and the entries of a
    leader-epoch-checkpoint whose order was wrong: verify compares them with the batches once the last ones are gone.
    """
    before = {(row["code"], row["path"]) for row in answers.findings}
    wrong_times = {row["path"] for row in answers.findings if row["code"].startswith("KD-TIDX-")}
    for repair in answers.repairs:
        mended = answers.mended(repair)
        for row in mended.findings if mended else ():
            if repair == "trim" and row["code"].startswith("KD-TIDX-") and row["path"] in wrong_times:
                continue
            is_from_batches = repair == TRUNCATE and row["code"].startswith(FROM_BATCHES)
            if is_from_batches and answers.has_misplaced(parent(row["path"])):
                continue
            epochs = "KD-EPOCH-FORMAT", f"{parent(row['path'])}/leader-epoch-checkpoint"
            if repair == TRUNCATE and row["code"] == "KD-EPOCH-CHECKPOINT" and epochs in before:
                continue
            if row["severity"] == "error" and (row["code"], row["path"]) not in before:
                yield f"after {repair} verify has {row['code']} at {row['path']}: {row['message']}"


def after_a_repair_verify_is_clean(answers: Answers) -> Iterator[str]:
    """What a repair has changed has no error left in its log, indexes, snapshots and leader epochs.

    But for `truncate`, which does what a broker does: it reads no records, nor what it needs for none.
    """
    for repair in {SAFE, SALVAGE} & set(answers.repairs):
        mended = answers.mended(repair)
        if mended is None:
            continue
        changed = {path for path, row in by_path(answers.plan(repair), "partition").items() if row["operations"]}
        for row in mended.findings:
            is_changed = any(is_in(row["path"], each) for each in changed)
            if row["severity"] == "error" and is_changed and row["code"].startswith(MENDED):
                yield f"after {repair} verify still has {row['code']} at {row['path']}: {row['message']}"


def a_second_repair_has_nothing_to_do(answers: Answers) -> Iterator[str]:
    """A repair that was applied plans nothing when it is run again.

    But for logs that start where they end, or whose batches are out of order: docs/repair.md says why a broker's own
    loading is not at rest there.
    """
    for repair in answers.repairs:
        mended = answers.mended(repair)
        if mended is None:
            continue
        for row in mended.again.of_type("partition"):
            is_empty = repair == TRUNCATE and row["isComplete"] and row["logStartOffset"] == row["logEndOffset"]
            path = relative(row["path"])
            again = operations(mended.again, path)
            if repair == TRUNCATE and all(_is_learnt_anew(answers, row, name) for _, name in again):
                continue
            if row["operations"] and not is_empty:
                yield f"{repair} again: {path}: {again}"


def _is_learnt_anew(answers: Answers, row: Row, name: str) -> bool:
    """Whether a file is one that each loading of Kafka may make anew, of a log of this kind (docs/repair.md)."""
    if name == "leader-epoch-checkpoint":
        return answers.has_misplaced(relative(row["path"]))
    dropped = ("remove", f"{row['logStartOffset']:020d}.snapshot")
    first = operations(answers.plan(TRUNCATE), relative(row["path"]))
    return name.endswith((".snapshot", ".txnindex")) and dropped in first


def a_broker_loads_what_was_repaired(answers: Answers) -> Iterator[str]:
    """After `repair`, with each strategy, a start loses nothing, and the log starts and ends where the plan says."""
    for repair in [each for each in answers.repairs if each.startswith("repair")]:
        mended = answers.mended(repair)
        if mended is None:
            continue
        for path, row in by_path(mended.applied, "partition").items():
            outcome = mended.outcomes.get(path)
            if not row["isComplete"] or outcome is None:
                continue
            if not outcome["isLoaded"] and outcome["failure"]["file"] in NOT_MENDED:
                continue  # docs/repair.md: what a quorum knows is not to be made up
            if not outcome["isLoaded"] or outcome["hasLoss"]:
                yield f"after {repair} startup: {path}: loads: {outcome['isLoaded']}, loses {outcome['lost']}"
                continue
            for field in OFFSETS:
                if outcome[field] != row[field]:
                    yield f"after {repair} {field} of {path} is {row[field]}, of startup {outcome[field]}"


RULES: tuple[Rule, ...] = (
    no_command_dies,
    exit_codes_are_those_of_the_output,
    what_ends_with_3_says_why,
    a_repair_that_fails_counts_what_failed,
    all_commands_see_the_same_partitions,
    the_log_end_offset_is_the_same,
    the_log_start_offset_is_the_same,
    no_log_starts_behind_its_end,
    a_start_that_cuts_nothing_keeps_the_offsets,
    lookup_answers_lie_in_the_log,
    the_last_offset_of_a_sound_log_is_found,
    checkpoints_are_the_same,
    verify_compares_checkpoints_with_the_same_end,
    a_start_that_fails_is_an_error_of_verify,
    verify_says_that_a_broker_refuses,
    startup_foretells_what_verify_says_a_broker_refuses,
    what_a_start_loses_is_an_error_of_verify,
    startup_cuts_where_verify_says_so,
    doctor_names_what_startup_and_verify_name,
    directories_out_of_place_are_the_same,
    checkpoint_lines_without_a_partition_are_the_same,
    stray_partitions_are_the_same,
    damage_is_at_the_same_place,
    dump_meets_damage_where_verify_does,
    records_are_counted_alike,
    leftovers_are_the_same,
    segments_are_the_same,
    retain_warns_where_a_start_comes_first,
    retention_stays_inside_the_log,
    open_transactions_are_the_same,
    a_sound_partition_needs_no_repair,
    repair_decides_nothing,
    trim_decides_nothing,
    truncate_does_what_startup_foretells,
    what_is_applied_was_planned,
    advice_helps,
    a_repair_brings_no_new_error,
    after_a_repair_verify_is_clean,
    a_second_repair_has_nothing_to_do,
    a_broker_loads_what_was_repaired,
)

"""The ways out of findings, in the order in which they are to be tried: what loses nothing comes first.

The fixed order is: another in-sync replica, the files of another copy, a single flipped bit, salvage, truncation.
"""

from __future__ import annotations

from kdump.findings.kind import NOTHING, Remedy

NO_VALID_BATCH = "no valid batch"


def _run(words: str, note: str = "", loses: str = NOTHING) -> Remedy:
    """Return the way out that is a command of kdump with its options."""
    command, *arguments = words.split()
    return Remedy(command, tuple(arguments), note, loses)


def _do(note: str, loses: str = NOTHING) -> Remedy:
    """Return the way out that a person takes."""
    return Remedy(None, (), note, loses)


REPLICA = _do(
    "if another in-sync replica runs, move the partition directory away: the broker copies it from the leader"
)
FETCH = _do("if another in-sync replica runs, start this broker: it fetches the missing records again")
COPY = _run("repair --from OTHER", "if you have another replica's files: restores the damaged part from them")
FIX_BIT = _run("repair --fix-bit", "if one flipped bit explains the damage")
SALVAGE = _run("repair --strategy salvage", "if this is the only copy: keeps every valid batch", "the damaged batch")
TRUNCATE = _run("repair --strategy truncate", "as the broker's recovery does", "this batch and all that follow")
REPAIR = _run("repair")
CUT = _run("repair", "cuts the incomplete batch", NO_VALID_BATCH)
REBUILD_INDEX = _run("rebuild-index --apply")
REBUILD_ALL = _run("rebuild-index --all --apply")
TRIM = _run("trim --apply")
RESTORE_LINE = _do("correct the line of the partition while the broker is stopped")
DELETED_AT_START = _do("leave it: the broker deletes it at its next start")
COMPARE = _do("compare the partition with its other replicas before anything else")
SHOW_COPIES = _do("run kdump replicas with the same PATHs: it says who may lead and what each choice of leader loses")

COPIES = (SHOW_COPIES,)
ABSENT_COPY = (
    SHOW_COPIES,
    _do("run kdump repair LOG_DIRECTORY --from the other copy: it makes the directory and fills it"),
)
COPIED = (REPLICA,)
COMPARED = (COMPARE,)
CORRECTED = (RESTORE_LINE,)
LEFT_ALONE = (DELETED_AT_START,)
DAMAGED_BATCH = (REPLICA, COPY, FIX_BIT, SALVAGE, TRUNCATE)
WRONG_BATCH = (REPLICA, COPY, SALVAGE)
INCOMPLETE_BATCH = (FETCH, CUT)
INDEX = (REBUILD_INDEX,)
SPARSE_INDEX = (REBUILD_ALL,)
TRIMMED = (TRIM,)
REPAIRED = (REPAIR,)
AFTER_LOG = (_do("repair the log first, as its own finding says: this file is built from it"),)
MISSING_RECORDS = (
    FETCH,
    _run("repair --only checkpoints", "if there is no other copy: sets the line to the log end offset"),
)
TIMESTAMPS = (_do("set message.timestamp.after.max.ms for the topic and bound it with retention.bytes"),)
FEWER_PRODUCERS = (
    _do("before the upgrade lower producer.id.expiration.ms, and let clients keep their producers, until fewer are"
        " left"),
)
SPLIT = (_run("repair --unclean", "splits the segment as the broker's recovery does"),)
SET_FILE_ASIDE = (_do("move the file out of the partition directory and keep it"),)
SET_DIRECTORY_ASIDE = (_do("move the directory out of the log directory and keep it"),)
HANGING = (
    _run("txns", "start the broker and look again: the coordinator may end it"),
    _do("still open: kafka-transactions.sh abort", "its records for read_committed consumers"),
)
LEAVE_CHECKPOINT = _do("leave it: the broker treats all its offsets as 0 and writes it again")
MOVE_CHECKPOINT = _do("move the file out of the log directory and keep it: the broker treats all its offsets as 0")
CHECKPOINT_FILE = (RESTORE_LINE, LEAVE_CHECKPOINT)
LOG_START = (
    _run("repair --only checkpoints", "removes the partition's line: the log then starts at its first segment"),
)
CLEANER = (_run("repair --only checkpoints", "the cleaner begins again"),)
CLEANER_TWICE = (
    _do("while the broker is stopped, delete the line in the log directory that does not have the partition, and lower"
        " the count in the file's second line by 1"),
)  # fmt: skip
DUPLICATE = (_run("ls", "shows what both have: move the one with less out of the log directory and keep it"),)
STRAY = (_do("keep it until you know that nobody needs its records"),)
UNASSIGNED = (
    _do("leave it: the broker sets the directory aside as -stray and keeps its records"),
    _do("if the replica belongs here: once the broker runs, assign it with kafka-reassign-partitions.sh"),
)
SWAP = (_run("startup", "shows what the broker does: it finishes the replacement"),)
DAMAGED_SWAP = (
    _run("repair", "before the start: lists the ways, and what each loses"),
    REPLICA,
)
PARTITION_METADATA = (
    _run("repair --apply", "writes the topic id that the cluster metadata or the topic's other partitions have"),
    _do("if none of them has it: write version: 0 and topic_id: ID, with the TopicId of kafka-topics.sh --describe"),
)
TOPIC_ID = (
    _run("repair --apply", "if only some bits of the id are wrong: writes the right one"),
    _do("find out which topic the records belong to: kdump repair --topic-id writes its id"),
    _do("leave it: the broker sets the directory aside as -stray and keeps its records"),
)
CLUSTER_METADATA = (
    _run("metadata", "shows what is wrong"),
    _do("if other controllers run, move __cluster_metadata-0 away: the node fetches it again"),
)
META_PROPERTIES = (_do("write it again: cluster.id and node.id as in another log directory, directory.id its own"),)
NOT_FORMATTED = (
    _do("mount its disk, and start then"),
    _do("the disk is lost: take the directory out of log.dirs, and the broker starts without it",
        "what no other replica has"),
)  # fmt: skip
OTHER_CLUSTER = (
    _run("ls", "shows what is in it: take it out of log.dirs and keep it until you know whose records these are"),
)
QUORUM_STATE = (_do("if the other voters run, move it away: the node may forget that it has voted"),)
BOOTSTRAP = (_do("move it away: only a cluster that has never run needs it"),)
KRAFT_SNAPSHOT = (_do("move it away before the start: the node takes an older snapshot, or the log alone"),)
OLDER_SNAPSHOT = (_do("leave it: a node reads the newest snapshot, which is another one"),)
COMMIT_BEYOND = (
    _run("doctor", "another in-sync replica may have the lost records: let it lead before consumers start"),
    _do("none has them: stop the group's consumers, then kafka-consumer-groups.sh --reset-offsets to the offset that"
        " you choose"),
)  # fmt: skip
UNREAD = (_run("verify", "run it as the broker's user; if that fails, restore permissions or the device first"),)
UNFINISHED = (
    _do("run the interrupted command again: it finishes the change"),
    _run("undo", "shows how to take it back"),
)

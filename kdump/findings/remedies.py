"""The ways out of findings, in the order in which they are to be tried: what loses nothing comes first.

The fixed order is: another in-sync replica, the files of another copy, a single flipped bit, salvage, truncation.
"""

from __future__ import annotations

from kdump.findings.kind import Remedy

NO_VALID_BATCH = "no valid batch"

REPLICA = Remedy(
    None, (), "if another in-sync replica runs, move the partition directory away: the broker copies it from the leader"
)
FETCH = Remedy(None, (), "if another in-sync replica runs, start this broker: it fetches the missing records again")
COPY = Remedy("repair", ("--from", "OTHER"), "if you have another replica's files: restores the damaged part from them")
FIX_BIT = Remedy("repair", ("--fix-bit",), "if one flipped bit explains the damage")
SALVAGE = Remedy(
    "repair", ("--strategy", "salvage"), "if this is the only copy: keeps every valid batch", "the damaged batch"
)
TRUNCATE = Remedy(
    "repair", ("--strategy", "truncate"), "as the broker's recovery does", "this batch and all that follow"
)
REPAIR = Remedy("repair", (), "")
CUT = Remedy("repair", (), "cuts the incomplete batch", NO_VALID_BATCH)
REBUILD_INDEX = Remedy("rebuild-index", ("--apply",), "")
REBUILD_ALL = Remedy("rebuild-index", ("--all", "--apply"), "")
TRIM = Remedy("trim", ("--apply",), "")
RESTORE_LINE = Remedy(None, (), "correct the line of the partition while the broker is stopped")
DELETED_AT_START = Remedy(None, (), "leave it: the broker deletes it at its next start")
COMPARE = Remedy(None, (), "compare the partition with its other replicas before anything else")

SHOW_COPIES = Remedy(
    None, (), "run kdump replicas with the same PATHs: it says who may lead and what each choice of leader loses"
)

COPIES = (SHOW_COPIES,)
ABSENT_COPY = (
    SHOW_COPIES,
    Remedy(None, (), "run kdump repair LOG_DIRECTORY --from the other copy: it makes the directory and fills it"),
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
AFTER_LOG = (Remedy(None, (), "repair the log first, as its own finding says: this file is built from it"),)
MISSING_RECORDS = (
    FETCH,
    Remedy("repair", ("--only", "checkpoints"), "if there is no other copy: sets the line to the log end offset"),
)
TIMESTAMPS = (Remedy(None, (), "set message.timestamp.after.max.ms for the topic and bound it with retention.bytes"),)

SPLIT = (Remedy("repair", ("--unclean",), "splits the segment as the broker's recovery does"),)
SET_FILE_ASIDE = (Remedy(None, (), "move the file out of the partition directory and keep it"),)
SET_DIRECTORY_ASIDE = (Remedy(None, (), "move the directory out of the log directory and keep it"),)
HANGING = (
    Remedy("txns", (), "start the broker and look again: the coordinator may end it"),
    Remedy(None, (), "still open: kafka-transactions.sh abort", "its records for read_committed consumers"),
)
LEAVE_CHECKPOINT = Remedy(None, (), "leave it: the broker treats all its offsets as 0 and writes it again")
MOVE_CHECKPOINT = Remedy(
    None, (), "move the file out of the log directory and keep it: the broker treats all its offsets as 0"
)
CHECKPOINT_FILE = (RESTORE_LINE, LEAVE_CHECKPOINT)
LOG_START = (
    Remedy(
        "repair", ("--only", "checkpoints"), "removes the partition's line: the log then starts at its first segment"
    ),
)
CLEANER = (Remedy("repair", ("--only", "checkpoints"), "the cleaner begins again"),)
CLEANER_TWICE = (
    Remedy(
        None,
        (),
        "while the broker is stopped, delete the line in the log directory that does not have the partition, and lower"
        " the count in the file's second line by 1",
    ),
)
DUPLICATE = (Remedy("ls", (), "shows what both have: move the one with less out of the log directory and keep it"),)
STRAY = (Remedy(None, (), "keep it until you know that nobody needs its records"),)
UNASSIGNED = (
    Remedy(
        "metadata", (), "if it was not moved or deleted on purpose, correct what the message names before the start"
    ),
)
SWAP = (Remedy("startup", (), "shows what the broker does: it finishes the replacement"),)
DAMAGED_SWAP = (
    REPLICA,
    Remedy("repair", (), "if the segments that it would replace are here and valid: keeps these"),
)
PARTITION_METADATA = (
    Remedy(None, (), "copy the file from another partition of the topic while the broker is stopped"),
)
TOPIC_ID = (Remedy("metadata", (), "shows the topics and their ids: find out which topic the records belong to"),)
CLUSTER_METADATA = (
    Remedy("metadata", (), "shows what is wrong"),
    Remedy(None, (), "if other controllers run, move __cluster_metadata-0 away: the node fetches it again"),
)
META_PROPERTIES = (
    Remedy(None, (), "write it again: cluster.id and node.id as in another log directory, directory.id its own"),
)
NOT_FORMATTED = (
    Remedy(None, (), "mount its disk, and start then"),
    Remedy(None, (), "the disk is lost: take the directory out of log.dirs, and the broker starts without it",
        "what no other replica has"),
)  # fmt: skip
OTHER_CLUSTER = (
    Remedy("ls", (), "shows what is in it: take it out of log.dirs and keep it until you know whose records these are"),
)
QUORUM_STATE = (Remedy(None, (), "if the other voters run, move it away: the node may forget that it has voted"),)
BOOTSTRAP = (Remedy(None, (), "move it away: only a cluster that has never run needs it"),)
KRAFT_SNAPSHOT = (
    Remedy(None, (), "move it away before the start: the node takes an older snapshot, or the log alone"),
)
OLDER_SNAPSHOT = (Remedy(None, (), "leave it: a node reads the newest snapshot, which is another one"),)
COMMIT_BEYOND = (
    Remedy("doctor", (), "another in-sync replica may have the lost records: let it lead before consumers start"),
    Remedy(None, (), "none has them: stop the group's consumers, then kafka-consumer-groups.sh --reset-offsets to the"
        " offset that you choose"),
)  # fmt: skip
UNREAD = (Remedy("verify", (), "run it as the broker's user; if that fails, restore permissions or the device first"),)
UNFINISHED = (
    Remedy(None, (), "run the interrupted command again: it finishes the change"),
    Remedy("undo", (), "shows how to take it back"),
)

"""What a controller does with the files beside the cluster metadata log once the log itself is loaded."""

from __future__ import annotations

from kdump.errors import ILLEGAL_STATE, UNCHECKED_IO, CheckpointError, LoadError
from kdump.formats import names
from kdump.formats.metadata_files import parse_quorum_state
from kdump.formats.names import parse_file_name
from kdump.recovery.outcome import DELETE, WARN, Step
from kdump.storage.planned import PlannedPartition


def recover_kraft_snapshots(
    directory: PlannedPartition, log_start_offset: int, log_end_offset: int, steps: list[Step]
) -> None:
    """Delete the snapshots that are partial, deleted or older than the log.

    Raises LoadError where the log does not begin at 0 and no snapshot holds what came before.
    """
    kept: dict[int, str] = {}
    for name in directory.names():
        parsed = parse_file_name(name)
        if parsed.kind != names.KRAFT_SNAPSHOT or parsed.offset is None:
            continue
        if parsed.state == names.LIVE and parsed.offset >= log_start_offset:
            kept[parsed.offset] = name
            continue
        older = f"it is older than the log start offset {log_start_offset}"
        unfit = {names.PART: "it is not complete", names.DELETED: "it was scheduled for deletion"}
        why = unfit.get(parsed.state, older)
        directory.delete(name, why)
        steps.append(Step(DELETE, name, why))
    if log_start_offset > 0 and not kept:
        text = (
            "Inconsistent snapshot state: there must be a snapshot at an offset larger then the current log start"
            f" offset {log_start_offset}, but the latest snapshot is Optional.empty"
        )
        raise LoadError(ILLEGAL_STATE, text, names.CLUSTER_METADATA_DIR)
    newest = max(kept, default=0)
    if newest > log_end_offset:
        why = f"it ends above the log end offset {log_end_offset}: the log is removed and continues after the snapshot"
        steps.append(Step(WARN, kept[newest], why))


def check_quorum_state(directory: PlannedPartition) -> None:
    """Read quorum-state as the Raft client does (FileQuorumStateStore). Raises LoadError where it cannot be parsed."""
    name = names.QUORUM_STATE
    if not directory.exists(name):
        return
    path = directory.full(name)
    if name in directory.directories:
        raise LoadError(UNCHECKED_IO, f"Error while reading the Quorum status from the file {path}", name)
    try:
        parse_quorum_state(directory.read(name), path)
    except CheckpointError as error:
        if error.is_io:
            text = f"Error while reading the Quorum status from the file {path}"
            raise LoadError(UNCHECKED_IO, text, name) from None
        raise LoadError(error.exception, error.kafka_text, name) from None

"""What consumers get of a partition: all records, or those that are committed (`isolation.level`).

A read_committed consumer gets the records of the log up to the last stable offset, without those of aborted
transactions, and without markers (KIP-98). Where aborted transactions begin is what the transaction index says, as for
the consumer (`TransactionStates`).
"""

from __future__ import annotations

from collections.abc import Iterator

from kdump.blocks import BatchBlock
from kdump.formats.batch import CONTROL, TRANSACTIONAL
from kdump.query.selection import Selection
from kdump.storage.damage import Damage
from kdump.storage.decoded import BadBatch, walk
from kdump.storage.partition import PartitionLog
from kdump.storage.records import Record, records_of
from kdump.storage.replica import replicas
from kdump.storage.scan import MAX_OFFSET, Run
from kdump.storage.txn_state import TxnState
from kdump.txns.isolation_level import Isolation
from kdump.txns.states import TransactionStates


class CommittedRows:
    """The batches of a partition that a read_committed consumer gets; `stop_offset` is the last stable offset."""

    def __init__(self, states: TransactionStates) -> None:
        """Walk the batch headers of the partition. Raises OSError."""
        self._states = states
        self.stop_offset = states.last_stable_offset()

    def has(self, block: BatchBlock, row: int) -> bool:
        """Return whether the batch is one of them. Raises OSError."""
        if block.last_offset[row] >= self.stop_offset:
            return False
        if block.magic[row] < 2:
            return True
        attributes = block.attributes[row]
        if attributes & CONTROL:
            return False
        if not attributes & TRANSACTIONAL:
            return True
        state = self._states.state_of(block.producer_id[row], block.last_offset[row])
        return state in (TxnState.NONE, TxnState.COMMITTED)


def consumed(
    log: PartitionLog, isolation: Isolation, start_offset: int | None = None, stop_offset: int | None = None
) -> Iterator[Record | BadBatch | Damage]:
    """Yield the records in [start_offset, stop_offset) (absolute) that a consumer gets, and the damage between them.

    Markers of Kafka's own are no consumer's, whatever its isolation level. Raises OSError.
    """
    from kdump.storage.control_batches import is_control

    selection = isolated(Selection(start_offset, stop_offset), log, isolation)
    first, last = selection.start_offset or 0, MAX_OFFSET if stop_offset is None else stop_offset
    for segment in selection.segments(log):
        with segment.open_log() as file:
            for part in walk(file, segment.base_offset, selection.start(segment, file), choice=selection):
                if isinstance(part, Damage):
                    yield part
                elif isinstance(part, Run):
                    for record in records_of(*part):
                        if isinstance(record, BadBatch):
                            yield record._replace(path=segment.log_path)
                        elif first <= record.offset < last and not is_control(part.block, record.row):
                            yield record


def isolated(
    selection: Selection, log: PartitionLog, isolation: Isolation, states: TransactionStates | None = None
) -> Selection:
    """Return what a consumer with this isolation level gets of what is selected.

    With read_committed that is nothing before the log start offset, as its checkpoint has it. `states` are those of
    the partition, where somebody has them already. Raises OSError.
    """
    if isolation is not Isolation.READ_COMMITTED:
        return selection
    start = next(iter(replicas([log], lambda _problem: None))).log_start_offset
    first = max(start, selection.start_offset or 0)
    return selection._replace(start_offset=first or None, visible=CommittedRows(states or TransactionStates(log)))

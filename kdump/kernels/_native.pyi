from array import array
from collections.abc import Iterable, Sequence
from typing import Any

from kdump.blocks import BatchBlock, RecordBlock
from kdump.formats.checksums import Buffer
from kdump.formats.faults import Fault
from kdump.kernels.portable.column_stats import ColumnStats
from kdump.kernels.portable.columns import Buffers
from kdump.kernels.portable.compaction import Rewritten
from kdump.kernels.portable.encode import NewRecords
from kdump.kernels.portable.records import Payloads
from kdump.kernels.portable.rows import RowColumn
from kdump.kernels.portable.text import ControlText, Write

FAULT_NUMBERS: dict[str, int]
VERDICT_NUMBERS: dict[str, int]
BATCH_VERDICT_NUMBERS: dict[str, int]

def crc32c_method() -> str: ...
def crc32(data: Buffer, value: int = 0) -> int: ...
def crc32c(data: Buffer, value: int = 0) -> int: ...
def walk(block: BatchBlock, position: int, end: int, file_end: int, row: int = 0) -> int: ...
def decode(block: BatchBlock, records: RecordBlock, first: int, stop: int, payloads: Payloads) -> bool: ...
def check(block: BatchBlock, row: int, payload: bytes | None) -> Fault | None: ...
def column_stats(column: array[int]) -> ColumnStats: ...
def differences(lower: array[int], upper: array[int]) -> tuple[int, int]: ...
def skip_entries(data: bytes | bytearray, start: int, stop: int, end: int) -> int: ...
def find_batch(data: bytes | bytearray, start: int, stop: int, left: int, lowest: int, highest: int) -> int: ...
def encode(columns: NewRecords, first: int, stop: int, limit: int, reserve: int) -> tuple[bytearray, int]: ...

class LogText:
    @property
    def gaps(self) -> array[int]: ...
    @property
    def first_offset(self) -> int | None: ...
    @property
    def last_offset(self) -> int: ...
    @property
    def held(self) -> int: ...
    def __init__(
        self, deep: bool, print_data: bool, skip_metadata: bool, control: ControlText, *, hold: bool = False
    ) -> None: ...
    def restart(self, last_offset: int = -1) -> None: ...
    def flush(self, write: Write) -> None: ...
    def render(
        self, block: BatchBlock, first: int, stop: int, payloads: Sequence[bytes | None], write: Write
    ) -> Fault | None: ...

class RecordColumns:
    @property
    def length(self) -> int: ...
    @property
    def size(self) -> int: ...
    def __init__(
        self,
        numbers: Sequence[str],
        key: bool,
        value: bool,
        headers: bool,
        *,
        control: bool,
        most_rows: int,
        most_bytes: int,
    ) -> None: ...
    def add(
        self,
        block: BatchBlock,
        records: RecordBlock,
        first: int,
        payloads: Payloads,
        picks: range | Sequence[int],
        skip: int = 0,
    ) -> int: ...
    def take(self) -> Buffers: ...

def encode_kept(
    block: BatchBlock,
    records: RecordBlock,
    start: int,
    stop: int,
    verdicts: bytes | bytearray,
    payload: bytes | None,
    base_offset: int,
    base_timestamp: int | None,
) -> tuple[bytearray, int, int]: ...
def rewrite(
    block: BatchBlock, records: RecordBlock, first: int, stop: int, verdicts: bytes | bytearray, horizon: int
) -> Rewritten: ...

class OffsetMap:
    @property
    def slots(self) -> int: ...
    @property
    def size(self) -> int: ...
    @property
    def limit(self) -> int: ...
    def __init__(self, memory: int, limit: int) -> None: ...
    def put(self, key: bytes, offset: int) -> bool: ...
    def get(self, key: bytes) -> int: ...
    def take(
        self,
        block: BatchBlock,
        records: RecordBlock,
        first: int,
        payloads: Payloads,
        wanted: bytes | bytearray,
        start_offset: int,
    ) -> int: ...
    def classify(
        self,
        block: BatchBlock,
        records: RecordBlock,
        first: int,
        payloads: Payloads,
        latest_offset: int,
        now: int,
        keeps_legacy_tombstones: bool,
        taken_row: int,
        taken_stop: int,
    ) -> bytearray: ...

def murmur2(data: Buffer, offsets: Buffer) -> bytearray: ...

class RowText:
    def __init__(self, columns: Sequence[RowColumn], is_csv: bool) -> None: ...
    def render(self, length: int, columns: Sequence[tuple[Any, ...]], write: Write) -> None: ...

def arrow_schema(kind: Any) -> Any: ...
def arrow_stream(kind: Any, rows: Iterable[Any]) -> Any: ...

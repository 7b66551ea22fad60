from array import array
from collections.abc import Sequence

from kdump.blocks import BatchBlock, RecordBlock
from kdump.formats.checksums import Buffer
from kdump.formats.faults import Fault
from kdump.kernels.portable.columns import Buffers
from kdump.kernels.portable.records import Payloads
from kdump.kernels.portable.text import ControlText, Write

FAULT_NUMBERS: dict[str, int]

def crc32c_method() -> str: ...
def crc32(data: Buffer, value: int = 0) -> int: ...
def crc32c(data: Buffer, value: int = 0) -> int: ...
def walk(block: BatchBlock, position: int, end: int, file_end: int) -> int: ...
def decode(block: BatchBlock, records: RecordBlock, first: int, stop: int, payloads: Payloads) -> bool: ...
def check(block: BatchBlock, row: int, payload: bytes | None) -> Fault | None: ...
def find_batch(data: bytes | bytearray, start: int, stop: int, left: int, lowest: int, highest: int) -> int: ...

class LogText:
    @property
    def gaps(self) -> array[int]: ...
    def __init__(self, deep: bool, print_data: bool, skip_metadata: bool, control: ControlText) -> None: ...
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

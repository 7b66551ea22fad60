"""Logs whose offsets go back, in maps with little room: all sets of kernels leave the same records."""

from __future__ import annotations

import tempfile
from pathlib import Path
from types import ModuleType
from unittest.mock import patch

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kdump import kernels
from kdump.clean.cleaning import clean
from kdump.clean.staging import Staging
from kdump.errors import CleaningError
from kdump.kernels.portable import kernels as portable
from kdump.settings.cleaning import CleaningSettings
from tests.clean.building import CONFIG, NOW, batch, files_of, name, state_of
from tests.kernels.reading import NATIVE, only_native

APART = 20
"""How far the base offsets of two segments are apart."""
PAIRS = st.lists(
    st.tuples(st.sampled_from((b"a", b"b", b"c", b"d")), st.sampled_from((b"1", None))), min_size=1, max_size=3
)
SEGMENT = st.lists(st.tuples(st.integers(0, APART - 4), PAIRS), min_size=1, max_size=6)
"""Batches: how far the first offset is behind the segment's base offset, keys and values."""
Log = list[list[tuple[int, list[tuple[bytes, bytes | None]]]]]


def cleaned(kernel: ModuleType, partition: Path, config: CleaningSettings) -> dict[str, bytes] | str:
    """The files that a pass writes with the offset map of one set of kernels; why it fails where Kafka's would, too."""
    with tempfile.TemporaryDirectory() as out, patch.object(kernels, "OffsetMap", kernel.OffsetMap):
        try:
            staging = Staging(lambda file: str(Path(out, file)))
            clean(state_of(partition, config), config, NOW, staging, compares_keys=False)
        except CleaningError as error:
            return str(error)
        return files_of(Path(out))


def check(log: Log, keys: int, buffer: int) -> None:
    """All sets of kernels leave the same of a log, with a map for so many keys."""
    assert NATIVE is not None
    config = CONFIG._replace(map_bytes=24 * keys, load_factor=1.0, buffer_bytes=buffer)
    with tempfile.TemporaryDirectory() as folder:
        partition = Path(folder) / "users-0"
        partition.mkdir()
        end: Log = [[(0, [(b"end", b"1")])]]
        for number, batches in enumerate([*log, *end]):
            base_offset = APART * number
            content = b"".join(batch(base_offset + offset, *pairs) for offset, pairs in batches)
            (partition / name(base_offset, "log")).write_bytes(content)
        assert cleaned(NATIVE, partition, config) == cleaned(portable, partition, config)


@only_native
@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(st.lists(SEGMENT, min_size=1, max_size=4), st.integers(1, 4), st.integers(100, 400))
def test_a_record_behind_a_full_map_is_judged_by_its_own_key(log: Log, keys: int, buffer: int) -> None:
    """The offset of such a record may be one that was taken for another key."""
    check(log, keys, buffer)


@only_native
def test_one_that_is_in_a_batch_of_which_only_the_first_records_were_taken() -> None:
    log: Log = [
        [(0, [(b"a", b"1")])],
        [(0, [(b"b", b"1"), (b"a", b"1"), (b"c", b"1")]), (3, [(b"a", b"1")]), (0, [(b"a", b"1")])],
    ]
    check(log, 3, 100)

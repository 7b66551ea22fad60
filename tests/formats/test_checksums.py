"""The checksums: known values, an independent implementation, and what happens where a library is missing."""

from __future__ import annotations

import sys
import zlib
from collections.abc import Callable, Iterator

import crcmod
import crcmod.predefined
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdump import kernels
from kdump.errors import KdumpError
from kdump.formats import checksums
from kdump.formats.checksums import crc32, crc32c, crc32c_engine, library_crc32c

Checksum = Callable[..., int]

reference: Checksum = crcmod.predefined.mkPredefinedCrcFun("crc-32c")
both = pytest.mark.parametrize("checksum", [crc32, crc32c, library_crc32c])


@pytest.fixture
def unpicked(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """No engine picked yet; the one that serves the other tests is picked again afterwards."""
    checksums._library.cache_clear()
    yield monkeypatch
    checksums._library.cache_clear()


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", 0),
        (b"123456789", 0xE3069283),
        (bytes(32), 0x8A9136AA),
        (b"\xff" * 32, 0x62A8AB43),
        (bytes(range(32)), 0x46DD794E),
    ],
)
def test_crc32c_of_known_data(data: bytes, expected: int) -> None:
    assert crc32c(data) == expected


def test_crc32_of_known_data() -> None:
    assert crc32(b"") == 0
    assert crc32(b"123456789") == 0xCBF43926


@given(st.binary(max_size=300))
def test_same_as_the_references(data: bytes) -> None:
    assert crc32c(data) == library_crc32c(data) == reference(data)
    assert crc32(data) == zlib.crc32(data)


@both
@given(data=st.binary(max_size=300), cut=st.integers(0, 300))
def test_goes_on_from_an_earlier_value(checksum: Checksum, data: bytes, cut: int) -> None:
    assert checksum(data[cut:], checksum(data[:cut])) == checksum(data)


@both
@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview, lambda data: memoryview(bytearray(b"__" + data))[2:]])
def test_takes_any_buffer(checksum: Checksum, kind: Callable[[bytes], bytes]) -> None:
    assert checksum(kind(b"some data"), 17) == checksum(b"some data", 17)


def test_fastcrc_is_preferred() -> None:
    pytest.importorskip("fastcrc")
    assert crc32c_engine() == "fastcrc"


@pytest.mark.parametrize(("compiled", "engine"), [(True, "crcmod"), (False, "crcmod (pure Python)")])
def test_crcmod_serves_without_fastcrc(unpicked: pytest.MonkeyPatch, compiled: bool, engine: str) -> None:
    unpicked.setitem(sys.modules, "fastcrc.crc32", None)
    if compiled:
        pytest.importorskip("crcmod._crcfunext")
    else:
        unpicked.setattr(crcmod, "crcmod", crcmod.crcmod)  # which importing it again replaces
        unpicked.delitem(sys.modules, "crcmod.crcmod")
        unpicked.setitem(sys.modules, "crcmod._crcfunext", None)
    assert crc32c_engine() == engine
    data = b"123456789"
    assert library_crc32c(data) == 0xE3069283
    assert library_crc32c(memoryview(data)[4:], library_crc32c(bytearray(data[:4]))) == 0xE3069283


def test_without_any_library(unpicked: pytest.MonkeyPatch) -> None:
    unpicked.setitem(sys.modules, "fastcrc.crc32", None)
    unpicked.setitem(sys.modules, "crcmod.crcmod", None)
    with pytest.raises(KdumpError, match="pip install fastcrc"):
        library_crc32c(b"123456789")


@pytest.mark.skipif(kernels.active != "native", reason="the portable kernels use a library")
def test_the_compiled_kernel_needs_no_library(unpicked: pytest.MonkeyPatch) -> None:
    unpicked.setitem(sys.modules, "fastcrc.crc32", None)
    unpicked.setitem(sys.modules, "crcmod.crcmod", None)
    assert crc32c(b"123456789") == 0xE3069283

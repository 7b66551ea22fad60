"""Rendering of rows: what the kernels refuse, and that they read nothing but their buffers."""

from __future__ import annotations

import ctypes
import mmap
from array import array
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest

from kdump.kernels.portable.rows import RowColumn
from kdump.kernels.row_kinds import ROW_BOOL, ROW_BYTES, ROW_HEADERS, ROW_INT32, ROW_INT64, ROW_JSON, ROW_TEXT
from tests.kernels.reading import KERNELS, NATIVE, only_native

PAGE = mmap.PAGESIZE
NOTHING = 0  # PROT_NONE


@pytest.fixture(params=KERNELS, ids=lambda module: module.__name__.rpartition(".")[2])
def kernel(request: pytest.FixtureRequest) -> ModuleType:
    module: ModuleType = request.param
    return module


def render(kernel: ModuleType, kind: int, buffers: tuple[Any, ...], length: int, *, is_csv: bool = False) -> bytes:
    """The lines of a single column."""
    leads = (b"", b",") if is_csv else (b'{"v":', b',"vBase64":')
    written = bytearray()
    kernel.RowText([RowColumn(kind, *leads)], is_csv).render(length, [buffers], written.extend)
    return bytes(written)


def ends(*numbers: int) -> array[int]:
    """The ends of texts."""
    return array("i", numbers)


NAMES = (0, None, ends(0, 1), b"n")


@pytest.mark.parametrize(
    ("kind", "buffers"),
    [
        (ROW_TEXT, (0, None, ends(0), b"abc")),
        (ROW_TEXT, (0, None, ends(-1, 2), b"abc")),
        (ROW_TEXT, (0, None, ends(2, 1), b"abc")),
        (ROW_TEXT, (0, None, ends(0, 4), b"abc")),
        (ROW_TEXT, (1, None, ends(0, 1), b"abc")),
        (ROW_TEXT, (-1, None, ends(0, 1), b"abc")),
        (ROW_TEXT, (1 << 40, None, ends(0, 1), b"abc")),
        (ROW_BYTES, (0, b"", ends(0, 1), b"abc")),
        (ROW_INT64, (0, None, bytes(7))),
        (ROW_INT32, (1, None, bytes(7))),
        (ROW_BOOL, (8, None, b"\1")),
        (ROW_TEXT, (0, None, ends(0, 1), b"\xff")),
        (ROW_JSON, (0, None, ends(0, 1), b"\xff")),
        (ROW_HEADERS, (0, None, ends(0, 2), NAMES, NAMES)),
        (ROW_HEADERS, (0, None, ends(1, 0), NAMES, NAMES)),
        (ROW_HEADERS, (0, None, ends(-1, 1), NAMES, NAMES)),
        (ROW_HEADERS, (0, None, ends(0, 1), (0, None, ends(0, 1), b"\xff"), NAMES)),
    ],
)
@pytest.mark.parametrize("is_csv", [False, True])
def test_buffers_have_to_hold_the_rows(kernel: ModuleType, kind: int, buffers: tuple[Any, ...], is_csv: bool) -> None:
    with pytest.raises(ValueError, match=r"offsets are not|shorter than|does not begin|not UTF-8"):
        render(kernel, kind, buffers, 1, is_csv=is_csv)


def test_columns_have_to_be_those_of_the_renderer(kernel: ModuleType) -> None:
    text = kernel.RowText([RowColumn(ROW_INT64, b"")], True)
    for length, columns in ((1, []), (1, [(0, None, bytes(8))] * 2), (-1, [(0, None, bytes(8))])):
        with pytest.raises(ValueError, match="not the columns"):
            text.render(length, columns, bytearray().extend)


def test_a_failed_write_is_raised_and_the_next_rows_are_rendered(kernel: ModuleType) -> None:
    def fail(_: memoryview) -> None:
        raise OSError("full")

    text = kernel.RowText([RowColumn(ROW_INT64, b"")], True)
    number = (0, None, (7).to_bytes(8, "little"))
    with pytest.raises(OSError, match="full"):
        text.render(1, [number], fail)
    written = bytearray()
    text.render(1, [number], written.extend)
    assert written == b"7\n"


@pytest.fixture
def page() -> Iterator[memoryview]:
    """A page behind which there is one that nobody may read."""
    pages = mmap.mmap(-1, 2 * PAGE)
    address = ctypes.addressof(ctypes.c_char.from_buffer(pages))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mprotect(ctypes.c_void_p(address + PAGE), ctypes.c_size_t(PAGE), NOTHING):
        pytest.skip("pages cannot be protected here")
    yield memoryview(pages)[:PAGE]
    libc.mprotect(ctypes.c_void_p(address + PAGE), ctypes.c_size_t(PAGE), mmap.PROT_READ | mmap.PROT_WRITE)


@only_native
@pytest.mark.parametrize("piece", [b"a", b'"', "é".encode(), b"\xff", "\u2028".encode(), b"a,"])
def test_nothing_behind_a_buffer_is_read(page: memoryview, piece: bytes) -> None:
    assert NATIVE is not None
    for size in (*range(140), PAGE):
        content = (piece * size)[:size]
        page[PAGE - size :] = content
        at_the_end = page[PAGE - size :]
        for kind in (ROW_BYTES, ROW_TEXT, ROW_JSON):
            for is_csv in (False, True):
                columns = [(0, None, ends(0, size), each) for each in (at_the_end, content + bytes(100))]
                found = []
                for column in columns:
                    try:
                        found.append(render(NATIVE, kind, column, 1, is_csv=is_csv))
                    except ValueError:
                        found.append(b"")
                assert found[0] == found[1]

"""Which errors are a lack of memory, and that none of them holds on to what had filled it."""

from __future__ import annotations

import errno
import gc
import os
import weakref

import pytest

from kdump.commands import cli
from kdump.commands.shell import exit_codes
from kdump.errors import CodecLimitError, is_out_of_memory
from kdump.formats.codecs import ZSTD
from kdump.formats.encode import NewBatch, NewRecord, encode_batch
from kdump.kernels.portable import kernels as portable
from kdump.statistics.partition import CodecSample
from kdump.storage import payloads
from kdump.storage.payloads import inflate
from tests.kernels.reading import walked

UNTOLD = 70


def _raised_in(outer: type[Exception], inner: Exception) -> Exception:
    try:
        try:
            raise inner
        except Exception:
            raise outer("while that was handled")  # noqa: B904
    except outer as error:
        return error


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        SystemError("error return without exception set"),
        OSError(errno.ENOMEM, "Cannot allocate memory"),
        ImportError("binascii.so: failed to map segment from shared object"),
        ImportError("libcrypto.so.3: cannot create shared object descriptor: Cannot allocate memory"),
        _raised_in(ValueError, MemoryError()),
    ],
    ids=repr,
)
def test_no_memory(error: Exception) -> None:
    assert is_out_of_memory(error)


@pytest.mark.parametrize(
    "error",
    [None, OSError(errno.ENOSPC, "No space left on device"), ImportError("No module named 'x'"), ValueError("memory")],
    ids=repr,
)
def test_something_else(error: Exception | None) -> None:
    assert not is_out_of_memory(error)


class _Large:
    """Stands for the megabytes that a decoder has made when memory ends."""


def test_what_filled_the_memory_is_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    held: list[weakref.ref[_Large]] = []

    def ends(*_: object, **__: object) -> bytes:
        large = _Large()
        held.append(weakref.ref(large))
        raise MemoryError

    monkeypatch.setattr(payloads, "decompress", ends)
    block = walked(portable, encode_batch([NewRecord(0, 1, b"k", b"v" * 100)], NewBatch(ZSTD)))
    gc.disable()
    try:
        error = inflate(block, 0).error
        assert isinstance(error, CodecLimitError)
        assert held[0]() is None
    finally:
        gc.enable()


def test_a_sample_of_batches_does_not_leave_out_those_for_which_there_is_no_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def ends(*_: object, **__: object) -> bytes:
        raise MemoryError

    monkeypatch.setattr(payloads, "decompress", ends)
    block = walked(portable, encode_batch([NewRecord(0, 1, b"k", b"v" * 100)], NewBatch(ZSTD)))
    with pytest.raises(MemoryError):
        CodecSample().add(block, 0)


def test_memory_that_ends_while_the_reason_is_asked_for_ends_the_command_in_order(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def ends(*_: object) -> bool:
        raise MemoryError

    monkeypatch.setattr(cli, "_exit_code_of", ends)
    monkeypatch.setattr(cli, "is_out_of_memory", ends)
    child = os.fork()
    if not child:
        try:
            cli.main()
        finally:
            os._exit(UNTOLD)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == exit_codes.INCOMPLETE
    assert capfd.readouterr().err == f"kdump: {cli.NO_MEMORY}\n"

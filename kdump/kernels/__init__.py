"""The hot loops over batches and records, compiled or portable.

They walk a buffer into a BatchBlock, decode records into a RecordBlock, render dump text, gather records into columns,
compact.

They exist twice: compiled (`_native`, built from Cython where a C compiler was at hand at installation) and in plain
Python (`portable`), with the same functions and the same results on good and on damaged input. This module picks: the
compiled ones where they can be loaded, or what the environment variable KDUMP_KERNELS (`native` or `portable`) names.

An object of a kernel serves one call at a time: two threads take two of them. The compiled ones let go of the GIL over
memory of their own, and refuse a second call meanwhile with RuntimeError.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from kdump.errors import KdumpError
from kdump.formats.checksums import compiled_crc32c, crc32c_engine


class KernelError(KdumpError):
    """The kernels that KDUMP_KERNELS asks for cannot be had."""


def _choose() -> str:
    wanted = os.environ.get("KDUMP_KERNELS", "")
    if wanted not in ("", "native", "portable"):
        raise KernelError(f"KDUMP_KERNELS is {wanted!r}: expected 'native' or 'portable'")
    if wanted != "portable":
        try:
            import kdump.kernels._native  # noqa: F401
        except ImportError as error:
            if wanted == "native":
                raise KernelError(
                    f"KDUMP_KERNELS asks for the native kernels, which are not built here ({error}): install a C"
                    " compiler and reinstall kafka-kdump, or unset KDUMP_KERNELS"
                ) from None
        else:
            return "native"
    return "portable"


active = _choose()
"""Which kernels are in use: "native" or "portable"."""

if TYPE_CHECKING or active == "portable":
    from kdump.kernels.portable.kernels import *  # noqa: F403 - its __all__ has the names of all kernels
else:
    from kdump.kernels._native import *  # noqa: F403

    compiled_crc32c(crc32c)  # noqa: F405


def crc_engine() -> str:
    """Return what computes CRC-32C: the compiled kernel's method, or the library that the portable kernels use."""
    if active == "native":
        from kdump.kernels import _native

        return f"kernel ({_native.crc32c_method()})"
    return crc32c_engine()

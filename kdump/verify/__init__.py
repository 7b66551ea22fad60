"""Verification: whether log directories are sound, and for each thing wrong where it is and what a broker does.

One module for each kind of file; every check is a generator of `Finding`. `findings` is the catalogue. The package can
be called: `kdump.verify(path)` is `kdump.verify.verify(path)`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from kdump.verify.findings import Finding
from kdump.verify.run import verify

__all__ = ["Finding", "verify"]


class _CallablePackage(ModuleType):
    """A module with a `__call__`, which only a class of its own can give it."""

    def __call__(self, *paths: Any, **options: Any) -> Iterator[Finding]:
        return verify(*paths, **options)


sys.modules[__name__].__class__ = _CallablePackage

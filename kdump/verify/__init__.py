"""Verification: whether log directories are sound, and for each thing wrong where it is and what a broker does.

One module for each kind of file; every check is a generator of `Finding`. `findings` is the catalogue.

The package can be called, so that `kdump.verify(path)` does the same as `kdump.verify.verify(path)` whether or not the
package has been imported before: importing it would otherwise put the package where a function of that name had been.
"""

from __future__ import annotations

import sys
from types import ModuleType

from kdump.findings.catalogue import CATALOGUE, Finding
from kdump.verify.run import verify

__all__ = ["CATALOGUE", "Finding", "verify"]


class _CallablePackage(ModuleType):
    """A module with a `__call__`, which only a class of its own can give it."""

    __call__ = staticmethod(verify)


sys.modules[__name__].__class__ = _CallablePackage

"""A pytest plugin that takes one module from another source: KDUMP_MUTANT=MODULE=FILE.

It has to be named with `-p`: pytest's own import hook, which reads modules of installed plugins (kdump is one) by
itself, would come first otherwise.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType


class _Finder:
    def __init__(self, module: str, source: str) -> None:
        self._module = module
        self._source = source

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name != self._module:
            return None
        return importlib.util.spec_from_file_location(name, self._source)


sys.meta_path.insert(0, _Finder(*os.environ["KDUMP_MUTANT"].split("=", 1)))  # type: ignore[arg-type]

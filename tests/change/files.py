"""A partition of three files that tell each other apart: what tests of single operations need."""

from __future__ import annotations

from tests.repair.damaged import name

A, B, C = (name(offset, "log") for offset in (0, 20, 40))

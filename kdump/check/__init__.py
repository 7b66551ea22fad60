"""Verification: whether log directories are sound, and for each thing wrong where it is and what a broker does.

One module for each kind of file; every check is a generator of `Finding`. `findings` is the catalogue.
"""

from __future__ import annotations

from kdump.findings.catalogue import CATALOGUE
from kdump.findings.finding import Finding

__all__ = ["CATALOGUE", "Finding"]

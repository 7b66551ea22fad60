"""What needs pyarrow is only collected where that is installed."""

from __future__ import annotations

from importlib.util import find_spec

collect_ignore = [] if find_spec("pyarrow") else ["test_export.py", "test_start.py"]

"""The functions of `import kdump` that do what the commands do, with the same safety."""

from __future__ import annotations


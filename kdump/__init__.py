"""kdump: look into, check and mend the log directories of Apache Kafka that no broker is serving."""

from __future__ import annotations

__version__ = "0.1.0"

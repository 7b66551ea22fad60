"""kdump inside PySpark: the data source `kafka-log`, and a session that needs no Java installed.

Needs pyspark (`pip install 'kafka-kdump[spark]'`, with `java` beside it where there is none). Nothing here is
imported by the rest of kdump; Spark itself finds the data source through the module `pyspark_kdump`.
"""

from __future__ import annotations

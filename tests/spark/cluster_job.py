"""A job for a cluster: `python cluster_job.py MASTER LOGS TARGET [ARCHIVE]`; prints what the executors did as JSON.

It reads, writes and verifies, each with several tasks, and asks every executor which kdump it runs. With an archive
that is what executors import kdump from.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from typing import Any

UNPACKED = "kdump-archive"


def about(_: Iterable[int]) -> Iterator[dict[str, Any]]:
    """Where kdump comes from, and its kernels."""
    import os
    import time

    import kdump
    from kdump import kernels

    time.sleep(0.5)  # so that no executor does the work of both
    yield {"file": os.path.abspath(kdump.__file__), "kernels": kernels.active, "executor": os.getcwd()}


def main(master: str, logs: str, target: str, archive: str | None = None) -> None:
    """Run the job."""
    from kdump.spark.session import spark_session

    conf = {
        "spark.executor.memory": "512m",
        "spark.sql.shuffle.partitions": "2",
        # nothing runs before both executors are there
        "spark.cores.max": "2",
        "spark.scheduler.minRegisteredResourcesRatio": "1.0",
        "spark.scheduler.maxRegisteredResourcesWaitingTime": "120s",
    }
    if archive:
        conf |= {"spark.archives": f"{archive}#{UNPACKED}", "spark.executorEnv.PYTHONPATH": f"./{UNPACKED}"}
    with spark_session(master, conf) as spark:
        read = spark.read.format("kafka-log").options(minPartitions="6", includeHeaders="true").load(logs)
        read.write.format("kafka-log").option("codec", "zstd").mode("append").save(target)
        again = spark.read.format("kafka-log").options(minPartitions="6").load(target)
        findings = spark.read.format("kafka-log").options(kind="findings", deep="true", minPartitions="2").load(target)
        bad = findings.where("severity <> 'note'").selectExpr("code")
        found = {
            "tasks": read.rdd.getNumPartitions(),
            "records": read.count(),
            "written": again.count(),
            "findings": [row.code for row in bad.collect()],
            "workers": spark.sparkContext.parallelize(range(2), 2).mapPartitions(about).collect(),
        }
        print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])

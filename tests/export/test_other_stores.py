"""Exports to gs:// and az://, to servers that speak as much of these protocols as an upload needs."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from kdump.exports.object_store import upload
from tests.commands.running import invoked
from tests.export.stores import ACCOUNT, BUCKET, Azure, Google, store_of
from tests.topics.building import Log

PLACE = "a/b c/topic=orders/partition=0"
FILES = [f"{PLACE}/part-orders-0-{base:020d}.0000.parquet" for base in (0, 2)]


@pytest.fixture(params=["gs", "az"])
def store(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A store with nothing in it, the environment that leads to it, and its URLs' beginning."""
    with store_of(Google if request.param == "gs" else Azure) as (address, held):
        if request.param == "gs":
            account = {"gcs_base_url": address, "disable_oauth": True} | dict.fromkeys(
                ("client_email", "private_key", "private_key_id"), ""
            )
            (tmp_path / "account.json").write_text(json.dumps(account))
            monkeypatch.setenv("GOOGLE_SERVICE_ACCOUNT", str(tmp_path / "account.json"))
        else:
            for name, value in {
                "ACCOUNT_NAME": ACCOUNT, "ACCOUNT_KEY": base64.b64encode(b"key").decode(),
                "ENDPOINT": f"{address}/{ACCOUNT}",
            }.items():  # fmt: skip
                monkeypatch.setenv(f"AZURE_STORAGE_{name}", value)
            monkeypatch.setenv("AZURE_ALLOW_HTTP", "true")
        held.url = f"{request.param}://{BUCKET}"
        yield held


@pytest.fixture
def partition(tmp_path: Path) -> Path:
    log = Log(tmp_path / "orders-0").add((b"a", b"1"), (b"b", b"2")).roll()
    log.add((b"c", b"3")).write()
    return log.folder


def test_the_files_and_then_success_arrive(store: Any, partition: Path, tmp_path: Path) -> None:
    assert invoked("export", partition, "--to", f"{store.url}/a/b c").return_value == 0
    assert store.puts == [*FILES, "a/b c/_SUCCESS"]
    (tmp_path / "one.parquet").write_bytes(store.objects[FILES[0]])
    assert pq.read_table(tmp_path / "one.parquet")["key"].to_pylist() == [b"a", b"b"]


def test_a_second_run_sends_what_has_changed_and_removes_what_is_gone(store: Any, tmp_path: Path) -> None:
    files = {"stays": b"1", "changes=1/x.parquet": b"2", "goes a%.parquet": b"3"}
    (tmp_path / "out" / "_kdump").mkdir(parents=True)
    (tmp_path / "out" / "changes=1").mkdir()
    for name, data in files.items():
        (tmp_path / "out" / name).write_bytes(data)
    folder, url = str(tmp_path / "out"), f"{store.url}/p"
    assert upload(folder, url) == (3, 3, 0)
    assert store.objects == {f"p/{name}": data for name, data in files.items()}
    (tmp_path / "out" / "goes a%.parquet").unlink()
    (tmp_path / "out" / "changes=1" / "x.parquet").write_bytes(b"more")
    (tmp_path / "out" / "_SUCCESS").write_bytes(b"")
    assert upload(folder, url) == (1, 4, 1)
    assert store.objects == {"p/stays": b"1", "p/changes=1/x.parquet": b"more", "p/_SUCCESS": b""}


def test_a_large_file_goes_up_in_parts(store: Any, tmp_path: Path) -> None:
    (tmp_path / "out" / "_kdump").mkdir(parents=True)
    content = bytes(range(256)) * (12 << 12)
    (tmp_path / "out" / "large.parquet").write_bytes(content)
    assert upload(str(tmp_path / "out"), f"{store.url}/large").bytes == len(content)
    assert store.objects == {"large/large.parquet": content}
    assert len(store.parts) > 1


def test_what_is_of_something_else_is_left_alone(store: Any, partition: Path) -> None:
    store.objects["a/other"] = b"x"
    assert invoked("export", partition, "--to", f"{store.url}/a").return_value == 4
    assert store.objects == {"a/other": b"x"}

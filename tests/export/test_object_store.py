"""Exports to an object store: moto's server stands for S3, and obstore's memory for stores that fail."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import obstore
import pyarrow.parquet as pq
import pytest
from obstore.store import S3Store

from kdump.errors import RefusedError
from kdump.exports.object_store import StoreError, is_object_store, upload
from tests.agreement.running import kdump
from tests.commands.running import invoked
from tests.rows import rows_in
from tests.topics.building import Log

pytestmark = pytest.mark.slow  # a server of moto's

BUCKET = "backup"


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    """An S3 of moto's on a free port."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = subprocess.Popen(
        [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    url = f"http://127.0.0.1:{port}"
    try:
        while True:
            assert server.poll() is None
            try:
                urllib.request.urlopen(url).close()
                break
            except OSError:
                time.sleep(0.1)
        yield url
    finally:
        server.terminate()
        server.wait()


@pytest.fixture
def store(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> S3Store:
    """A bucket with nothing in it, and the environment that leads to it."""
    for name, value in {
        "AWS_ENDPOINT": endpoint, "AWS_ALLOW_HTTP": "true", "AWS_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret",
    }.items():  # fmt: skip
        monkeypatch.setenv(name, value)
    for path, method in (("/moto-api/reset", "POST"), (f"/{BUCKET}", "PUT")):
        urllib.request.urlopen(urllib.request.Request(f"{endpoint}{path}", method=method)).close()
    return S3Store(BUCKET)


@pytest.fixture
def partition(tmp_path: Path) -> Path:
    log = Log(tmp_path / "orders-0").add((b"a", b"1"), (b"b", b"2")).roll()
    log.add((b"c", b"3")).write()
    return log.folder


def there(store: S3Store) -> list[str]:
    return sorted(each["path"] for page in obstore.list(store) for each in page)


def export(partition: Path, *options: object) -> int:
    code = invoked("export", partition, "--to", f"s3://{BUCKET}/a/b", *options).return_value
    assert isinstance(code, int)
    return code


PLACE = "a/b/topic=orders/partition=0"
FILES = [f"{PLACE}/part-orders-0-{base:020d}.0000.parquet" for base in (0, 2)]


def test_the_files_and_success_are_there(store: S3Store, partition: Path, tmp_path: Path) -> None:
    assert export(partition) == 0
    assert there(store) == ["a/b/_SUCCESS", *FILES]
    (tmp_path / "one.parquet").write_bytes(bytes(obstore.get(store, FILES[0]).bytes()))
    assert pq.read_table(tmp_path / "one.parquet")["key"].to_pylist() == [b"a", b"b"]


def test_a_row_has_what_was_sent(store: S3Store, partition: Path, tmp_path: Path) -> None:
    options = ("--staging", tmp_path / "staging", "--report-format", "jsonl")
    for sent in (2, 0):
        done = invoked("export", partition, "--to", f"s3://{BUCKET}/a/b", *options)
        [row] = [row for row in rows_in(done.stdout) if row["type"] == "upload"]
        assert (row["url"], row["files"], row["alreadySent"]) == (f"s3://{BUCKET}/a/b", sent, 2 - sent)
        assert (row["bytes"] > 0) is (sent > 0)
    assert len(there(store)) == 3


def test_a_second_run_sends_only_what_has_changed(
    store: S3Store, partition: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert export(partition, "--staging", tmp_path / "staging") == 0
    before = {each["path"]: each["e_tag"] for page in obstore.list(store) for each in page}
    Log(partition, 3).add((b"d", b"4")).write()
    capfd.readouterr()
    assert export(partition, "--staging", tmp_path / "staging") == 0
    after = {each["path"]: each["e_tag"] for page in obstore.list(store) for each in page}
    assert len(after) == 4
    assert before.items() <= after.items()


def test_an_upload_that_broke_off_is_gone_on_with(
    store: S3Store, partition: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put = obstore.put
    calls = []

    def noted(target: object, path: str, *more: object) -> object:
        calls.append(path)
        return put(target, path, *more)

    def once(target: object, path: str, *more: object) -> object:
        if len(calls) == 1:
            calls.append(path)
            raise obstore.exceptions.GenericError("the network is gone")
        return noted(target, path, *more)

    monkeypatch.setattr(obstore, "put", once)
    assert export(partition, "--staging", tmp_path / "staging") == 3
    assert there(store) == FILES[:1]
    calls[:] = calls[:1]
    to = f"s3://{BUCKET}/a/b"
    said = kdump(tmp_path, "export", partition, "--to", to, "--staging", "staging", "--report-format", "jsonl")
    assert (rows_in(said.out)[-1]["isComplete"], said.code) == (False, 3)
    calls.clear()
    monkeypatch.setattr(obstore, "put", noted)
    assert export(partition, "--staging", tmp_path / "staging") == 0
    assert calls == [FILES[1].removeprefix("a/b/"), "_SUCCESS"]


def test_what_is_of_something_else_is_left_alone(store: S3Store, partition: Path) -> None:
    obstore.put(store, "a/b/other", b"x")
    assert export(partition) == 4
    assert there(store) == ["a/b/other"]


def test_an_export_that_lacks_damage_has_no_success(store: S3Store, partition: Path) -> None:
    log = min(partition.glob("*.log"))
    log.write_bytes(log.read_bytes()[:-1] + b"x")
    assert export(partition) == 1
    assert there(store) == FILES[1:]


def test_a_large_file_goes_up_in_parts(store: S3Store, tmp_path: Path) -> None:
    (tmp_path / "_kdump").mkdir()
    content = bytes(range(256)) * (12 << 12)
    (tmp_path / "large.parquet").write_bytes(content)
    assert upload(str(tmp_path), f"s3://{BUCKET}/large").bytes == len(content)
    found = obstore.get(store, "large/large.parquet")
    assert "-" in (found.meta["e_tag"] or "")
    assert bytes(found.bytes()) == content


def test_a_store_that_cannot_be_reached_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="az://"):
        upload(str(tmp_path), "az://container/place")


@pytest.mark.parametrize(
    ("target", "expected"),
    [("s3://b/x", True), ("gs://b", True), ("az://c/x", True), ("/data/s3", False), ("s3:/x", False), ("s3://", False)],
)
def test_what_is_an_object_store(target: str, expected: bool) -> None:
    assert is_object_store(target) is expected


def test_refused_is_what_it_raises(store: S3Store, tmp_path: Path) -> None:
    obstore.put(store, "x/other", b"")
    with pytest.raises(RefusedError, match="other is not of this export"):
        upload(str(tmp_path), f"s3://{BUCKET}/x")

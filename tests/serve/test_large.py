"""Partitions that take many large answers, which threads send one after the other."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from kdump.fixture.make import make
from kdump.server.background import serve
from kdump.server.channels import SENDERS
from kdump.server.pieces import OnDamage
from tests.serve.wire import batches

VALUE = {"shape": "binary", "size": [3000, 4000]}
SPEC = {
    "seed": "large",
    "topics": [
        {
            "name": "large",
            "config": {"segment.bytes": 3 << 20},
            "steps": [{"append": {"records": 2500, "batch_records": 25, "value": VALUE}}],
        }
    ],
}


def build(path: Path, *faults: str) -> Path:
    return Path(make(SPEC, path, faults).path)


def content(log_dir: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(log_dir.glob("large-0/*.log")))


@pytest.mark.parametrize("offset", [0, 1237])
def test_many_consumers_get_the_bytes_of_the_files(offset: int, tmp_path: Path) -> None:
    """More of them than there are threads to send; what is checked for one is there for the others."""
    log_dir = build(tmp_path / "data")
    whole = content(log_dir)
    with serve(str(log_dir)) as server, ThreadPoolExecutor(SENDERS + 3) as pool:
        jobs = [pool.submit(lambda: b"".join(batches(server, "large", 0, offset))) for _ in range(SENDERS + 3)]
        found = {job.result() for job in jobs}
    assert len(found) == 1
    (bytes_sent,) = found
    assert whole.endswith(bytes_sent)
    assert offset == 0 or 0 < len(whole) - len(bytes_sent) < len(whole) * offset // 2500
    assert offset > 0 or bytes_sent == whole


@pytest.mark.parametrize("on_damage", [OnDamage.STOP, OnDamage.SKIP])
def test_damage_far_inside(on_damage: OnDamage, tmp_path: Path) -> None:
    said: list[str] = []
    with serve(str(build(tmp_path / "sound"))) as server:
        sound = list(batches(server, "large", 0))
    damaged = str(build(tmp_path / "data", "flip-payload-bit:topic=large,partition=0,segment=1,batch=60"))
    base = int(sorted((tmp_path / "data").glob("large-0/*.log"))[1].stem)
    bad = [int.from_bytes(batch[:8]) for batch in sound].index(base) + 60
    with serve(damaged, on_damage=on_damage, say=said.append) as server:
        found = list(batches(server, "large", 0))
    assert found == sound[:bad] + (sound[bad + 1 :] if on_damage is OnDamage.SKIP else [])
    assert [line for line in said if f"batch {int.from_bytes(sound[bad][:8])}" in line] == said[:1] == said

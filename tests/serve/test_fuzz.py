"""A server survives made-up and broken requests; `./dev campaign serve-requests` sends more of them."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from kdump.server.protocol.apis import APIS
from tests.campaigns.serve_requests import survive
from tests.serve.data import build


@pytest.fixture(scope="module")
def log_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    faults = ["flip-payload-bit:topic=codec-none,partition=0"]
    return build(tmp_path_factory.mktemp("served") / "data", faults)


@pytest.mark.parametrize("seed", range(4))
def test_no_request_is_the_server_s_undoing(seed: int, log_dir: Path) -> None:
    said = asyncio.run(survive(log_dir, 1500, seed))
    assert said["closed with a reason"] > 100
    answered = {api.name for api in APIS.values() if said[api.name]}
    assert len(answered) >= len(APIS) - 3

"""The flag that rewrites the transcripts."""

from __future__ import annotations

import pytest

FLAG = "--rewrite-transcripts"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(FLAG, action="store_true", help="Write what commands print now into tests/transcripts.")


@pytest.fixture
def rewrites(request: pytest.FixtureRequest) -> bool:
    """Whether the transcripts are to be rewritten. The flag is known where this folder is named on the command line."""
    return bool(request.config.getoption(FLAG, default=False))

"""Every test that takes `kernel` runs on each set of kernels that is built here."""

from __future__ import annotations

from types import ModuleType

import pytest

from tests.kernels.reading import KERNELS


@pytest.fixture(params=KERNELS, ids=lambda module: module.__name__.rpartition(".")[2])
def kernel(request: pytest.FixtureRequest) -> ModuleType:
    """The module with the kernels to test."""
    module: ModuleType = request.param
    return module

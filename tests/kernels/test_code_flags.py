"""The flags of code objects that the compiled kernel is given are Python's."""

from __future__ import annotations

import inspect

from kdump.kernels import code_flags


def test_they_are_those_of_inspect() -> None:
    ours = {name: value for name, value in vars(code_flags).items() if name.startswith("CO_")}
    assert len(ours) == 7
    assert ours == {name: getattr(inspect, name) for name in ours}

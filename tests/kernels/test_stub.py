"""The stub of the compiled kernels says what they have, and that is what the portable ones have."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable
from pathlib import Path

import pytest

from kdump import kernels
from kdump.kernels.portable import kernels as portable
from tests.kernels.reading import NATIVE

STUB = Path(kernels.__file__).with_name("_native.pyi")
OWN = {"arrow_schema", "arrow_stream", "crc32c_method"}
"""What there is of the compiled kernels alone."""


def parameters(function: ast.FunctionDef) -> list[str]:
    given = function.args
    return [each.arg for each in (*given.posonlyargs, *given.args, *given.kwonlyargs) if each.arg != "self"]


def stub() -> tuple[dict[str, list[str]], dict[str, dict[str, list[str]]]]:
    """The functions with their parameters, and the classes with those of their methods."""
    tree = ast.parse(STUB.read_text(encoding="utf-8"))
    functions = {node.name: parameters(node) for node in tree.body if isinstance(node, ast.FunctionDef)}
    classes = {
        node.name: {each.name: parameters(each) for each in node.body if isinstance(each, ast.FunctionDef)}
        for node in tree.body
        if isinstance(node, ast.ClassDef)
    }
    return functions, classes


FUNCTIONS, CLASSES = stub()


def named(value: Callable[..., object]) -> list[str]:
    return [name for name in inspect.signature(value).parameters if name != "self"]


def test_the_same_as_the_portable_kernels() -> None:
    assert {*FUNCTIONS, *CLASSES} - OWN == set(portable.__all__)
    assert set(portable.__all__) < vars(kernels).keys()


@pytest.mark.parametrize("name", sorted(set(FUNCTIONS) - OWN))
def test_a_function(name: str) -> None:
    assert named(getattr(portable, name)) == FUNCTIONS[name]
    if NATIVE:
        assert named(getattr(NATIVE, name)) == FUNCTIONS[name]


@pytest.mark.parametrize("name", sorted(CLASSES))
def test_a_class(name: str) -> None:
    for method, parameters in CLASSES[name].items():
        ours = getattr(getattr(portable, name), method, None)
        if inspect.isfunction(ours) and method != "__init__":
            assert named(ours) == parameters
        if NATIVE:
            theirs = getattr(getattr(NATIVE, name), method)
            assert method == "__init__" or not callable(theirs) or named(theirs) == parameters


@pytest.mark.skipif(NATIVE is None, reason="the native kernels are not built")
def test_nothing_is_left_out() -> None:
    assert NATIVE is not None
    public = {
        name
        for name, value in vars(NATIVE).items()
        if not name.startswith("_") and getattr(value, "__module__", None) == NATIVE.__name__
    }
    assert public - {*FUNCTIONS, *CLASSES} <= {"ByteColumn", "Exclusive", "Held"}  # which others hold or are made of

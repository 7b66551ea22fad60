"""Small mistakes in a module's functions, one at a time, and how a running process makes one.

Changed are comparisons, the operators `and`, `or`, `not`, `in`, `is` and of arithmetic, numbers, True and False, a
condition, `continue` and `break`, and statements that are left out; not what is annotated, documented or raised.
"""

from __future__ import annotations

import ast
import copy
import gc
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from types import CodeType, FunctionType
from typing import NamedTuple

HERE = Path(__file__).resolve().parents[2]
_COMPARED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip
_COMPUTED: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv, ast.FloorDiv: ast.Mult, ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}  # fmt: skip


class Mutant(NamedTuple):
    """A module with one change: which node (in the order of ast.walk), which of its changes, and that in words."""

    module: Path
    node: int
    change: int
    line: int
    lines: tuple[int, ...]
    """Lines that are only run where the changed code is, the likelier ones in front."""
    function: str
    """The outermost function that the change is in, with its class."""
    what: str
    nth: int
    """How many changes of the function before it are the same in words."""

    @property
    def name(self) -> str:
        """Which change it is, also after lines moved."""
        module = self.module.relative_to(HERE) if self.module.is_relative_to(HERE) else self.module
        return f"{module}: {self.function}: {self.what}" + (f" ({self.nth + 1})" if self.nth else "")

    def tree(self) -> ast.Module:
        """The changed module; all lines have the number that they had."""
        tree = ast.parse(self.module.read_text())
        node = next(islice(ast.walk(tree), self.node, None))
        _, changed = next(islice(_changes(node), self.change, None))
        _put(tree, node, ast.copy_location(changed, node))
        return tree

    def make(self, functions: Mapping[tuple[str, str, int], list[FunctionType]]) -> bool:
        """Make the change in this process, in the function objects themselves; False where there is no such function.

        So whoever has imported the function, or wrapped it, calls the changed one.
        """
        tree = self.tree()
        code, changed = next(
            (each, function)
            for each in _codes(compile(tree, str(self.module), "exec", dont_inherit=True))
            for function in ast.walk(tree)
            if isinstance(function, ast.FunctionDef)
            and each.co_qualname == self.function
            and each.co_firstlineno == min([function.lineno, *(each.lineno for each in function.decorator_list)])
            and function.lineno <= self.line <= (function.end_lineno or 0)
        )
        found = functions.get((str(self.module), code.co_qualname, code.co_firstlineno), [])
        for function in found:
            function.__code__ = code
            if function.__defaults__ is not None:
                function.__defaults__ = tuple(_value(function, each) for each in changed.args.defaults)
            if function.__kwdefaults__:
                for argument, default in zip(changed.args.kwonlyargs, changed.args.kw_defaults, strict=True):
                    if default is not None:
                        function.__kwdefaults__[argument.arg] = _value(function, default)
        return bool(found)


def functions_here() -> dict[tuple[str, str, int], list[FunctionType]]:
    """All functions that this process has, by file, name with class, and first line."""
    found: dict[tuple[str, str, int], list[FunctionType]] = {}
    for each in gc.get_objects():
        if isinstance(each, FunctionType):
            code = each.__code__
            found.setdefault((code.co_filename, code.co_qualname, code.co_firstlineno), []).append(each)
    return found


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from _codes(each)


def _value(function: FunctionType, expression: ast.expr) -> object:
    return eval(compile(ast.Expression(expression), "", "eval", dont_inherit=True), function.__globals__)


def mutants(module: Path) -> Iterator[Mutant]:
    """Every mutant of a module."""
    tree = ast.parse(module.read_text())
    parents = {each: parent for parent in ast.walk(tree) for each in ast.iter_child_nodes(parent)}
    same: Counter[tuple[str, str]] = Counter()
    for number, node in enumerate(ast.walk(tree)):
        if _counts(parents, node):
            function = _function(parents, node)
            for change, (what, _) in enumerate(_changes(node)):
                line = getattr(node, "lineno", 0)
                yield Mutant(module, number, change, line, _lines(parents, node), function, what, same[function, what])
                same[function, what] += 1


def _function(parents: Mapping[ast.AST, ast.AST], node: ast.AST) -> str:
    """The outermost function around a node, with the classes that it is in."""
    names: list[str] = []
    around: ast.AST | None = node
    while around is not None:
        if isinstance(around, ast.FunctionDef):
            names = [around.name]
        elif isinstance(around, ast.ClassDef):
            names.insert(0, around.name)
        around = parents.get(around)
    return ".".join(names)


def _lines(parents: Mapping[ast.AST, ast.AST], node: ast.AST) -> tuple[int, ...]:
    """The lines of a node itself, then those of the statement that it belongs to, without what is inside that.

    What a function takes where nothing is given is run with its body.
    """
    lines: dict[int, None] = {}
    inner: ast.AST | None = node.test if isinstance(node, ast.If) else node
    while inner is not None:
        if isinstance(inner, ast.arguments) and isinstance(function := parents[inner], ast.FunctionDef):
            return tuple(range(function.body[0].lineno, (function.end_lineno or 0) + 1))
        lines |= dict.fromkeys(range(getattr(inner, "lineno", 0), (getattr(inner, "end_lineno", 0) or 0) + 1))
        inner = parents.get(inner)
        if inner is None or hasattr(inner, "body"):
            break
    return tuple(lines)


def _counts(parents: Mapping[ast.AST, ast.AST], node: ast.AST) -> bool:
    """Whether a node is code that decides something."""
    child, parent = node, parents.get(node)
    in_function = isinstance(node, ast.FunctionDef)
    while parent is not None:
        if isinstance(parent, (ast.Raise, ast.JoinedStr, ast.Assert)):
            return False
        if isinstance(parent, ast.AnnAssign) and child is parent.annotation:
            return False
        if isinstance(parent, (ast.FunctionDef, ast.arg)):
            if child is getattr(parent, "returns", None) or child is getattr(parent, "annotation", None):
                return False
            if child in getattr(parent, "decorator_list", ()):
                return False
            in_function = True
        child, parent = parent, parents.get(parent)
    return in_function


def _changes(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """What may stand instead of a node, with a few words."""
    if isinstance(node, ast.Compare) and type(node.ops[0]) in _COMPARED:
        other = _COMPARED[type(node.ops[0])]
        changed = ast.Compare(node.left, [other(), *node.ops[1:]], node.comparators)
        yield f"{ast.unparse(node)}: {other.__name__}", changed
    elif isinstance(node, ast.BoolOp):
        turned: ast.boolop = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        yield f"{ast.unparse(node)}: {type(turned).__name__}", ast.BoolOp(turned, node.values)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield f"{ast.unparse(node)}: without not", node.operand
    elif isinstance(node, ast.BinOp) and type(node.op) in _COMPUTED:
        yield ast.unparse(node), ast.BinOp(node.left, _COMPUTED[type(node.op)](), node.right)
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
        yield f"{node.value} turned", ast.Constant(not node.value)
    elif isinstance(node, ast.Constant) and isinstance(node.value, int):
        yield f"{node.value} + 1", ast.Constant(node.value + 1)
    elif isinstance(node, (ast.If, ast.IfExp)) and not _turned_by_itself(node.test):
        turned_round = copy.copy(node)
        turned_round.test = ast.UnaryOp(ast.Not(), node.test)
        yield f"if not {ast.unparse(node.test)}", turned_round
    elif isinstance(node, ast.Continue):
        yield "break for continue", ast.Break()
    elif isinstance(node, ast.Break):
        yield "continue for break", ast.Continue()
    elif isinstance(node, (ast.Expr, ast.AugAssign)) and not _is_text(node):
        yield f"without {ast.unparse(node)}", ast.Pass()


def _turned_by_itself(test: ast.expr) -> bool:
    """Whether a change of the test alone is what turns the condition round."""
    if isinstance(test, ast.Compare):
        return len(test.ops) == 1 and isinstance(test.ops[0], (ast.Eq, ast.NotEq, ast.In, ast.NotIn, ast.Is, ast.IsNot))
    return isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not)


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, (ast.Constant, ast.Yield, ast.YieldFrom))


def _put(tree: ast.Module, node: ast.AST, changed: ast.AST) -> None:
    """Put a node in the place of another."""
    for parent in ast.walk(tree):
        for name, value in ast.iter_fields(parent):
            if value is node:
                setattr(parent, name, changed)
            elif isinstance(value, list):
                value[:] = [changed if each is node else each for each in value]
    ast.fix_missing_locations(tree)

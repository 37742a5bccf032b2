"""Evaluates a saved program's expressions of Python numbers without running any code."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from typing import Any

from rushlight.support.errors import fail

_BINARY: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
}


def evaluated(text: str, names: Mapping[str, object]) -> Any:
    """The value of an expression of `names`, numbers, arithmetic and abs(); C009 of any other text."""
    try:
        return _value(ast.parse(text, mode="eval").body, names)
    except (SyntaxError, KeyError, TypeError) as cause:
        fail("C009", f"export: {text!r} is no expression of numbers", reason=str(cause))


def names_in(text: str) -> set[str]:
    """The names in an expression."""
    return {node.id for node in ast.walk(ast.parse(text, mode="eval")) if isinstance(node, ast.Name)} - {"abs"}


def _value(node: ast.expr, names: Mapping[str, object]) -> Any:
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        return node.value
    if isinstance(node, ast.Name):
        return names[node.id]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_value(node.operand, names)
    if isinstance(node, ast.BinOp) and type(node.op) in _BINARY:
        return _BINARY[type(node.op)](_value(node.left, names), _value(node.right, names))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "abs" and len(node.args) == 1:
        return abs(_value(node.args[0], names))
    raise TypeError(f"{type(node).__name__} is not known here")

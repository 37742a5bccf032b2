"""Sizes as the manifest writes them: sums, products, floor divisions, minima and maxima of names and integers."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping

Value = Callable[[Mapping[str, int]], int]

_OPERATIONS: dict[type, Callable[[int, int], int]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.FloorDiv: lambda a, b: a // b,
}
_FUNCTIONS: dict[str, Callable[..., int]] = {"min": min, "max": max}


def size_of(text: int | str) -> Value:
    """The function from sizes by name to the value of an expression. ValueError for anything else."""
    if isinstance(text, int):
        return lambda sizes: text
    return _value(ast.parse(text, mode="eval").body)


def _value(node: ast.expr) -> Value:
    if isinstance(node, ast.Constant) and type(node.value) is int:
        number = node.value
        return lambda sizes: number
    if isinstance(node, ast.Name):
        name = node.id
        return lambda sizes: sizes[name]
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATIONS:
        operation, left, right = _OPERATIONS[type(node.op)], _value(node.left), _value(node.right)
        return lambda sizes: operation(left(sizes), right(sizes))
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        operand = _value(node.operand)
        return lambda sizes: -operand(sizes)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _FUNCTIONS:
        function, parts = _FUNCTIONS[node.func.id], [_value(part) for part in node.args]
        return lambda sizes: function(*[part(sizes) for part in parts])
    raise ValueError(f"no size: {ast.unparse(node)}")

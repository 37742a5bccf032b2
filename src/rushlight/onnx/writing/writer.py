"""Writer: collects the nodes of a graph, its constants, and the arithmetic of its sizes."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import numpy as np

import rushlight as rl
from rushlight.ir.graph import NUMBER, RESULT, Call
from rushlight.onnx.dtypes import NUMBERS
from rushlight.onnx.library import library
from rushlight.onnx.values import Numbers, Value
from rushlight.support.errors import fail
from rushlight.sym import Size, SizeExpr

WritingRule = Callable[["Writer", Call], object]
R = TypeVar("R", bound=WritingRule)
RULES: dict[str, WritingRule] = {}


def writes(*names: str) -> Callable[[R], R]:
    """A decorator that registers how calls are written; the rule gives the name of the result."""

    def register(rule: R) -> R:
        RULES.update(dict.fromkeys(names, rule))
        return rule

    return register


_ARITHMETIC: dict[type[ast.operator], str] = {ast.Add: "Add", ast.Sub: "Sub", ast.Mult: "Mul", ast.Mod: "Mod"}


class Constants:
    """The constants of a model, shared by its graph and all subgraphs; and names that are given once."""

    def __init__(self) -> None:
        self.arrays: dict[str, Numbers] = {}
        self.used: set[str] = set()
        self._numbers: dict[tuple[str, bytes, tuple[int, ...]], str] = {}

    def name(self, wanted: str) -> str:
        """A name that nothing else has."""
        name, count = wanted, 1
        while name in self.used:
            name, count = f"{wanted}_{count}", count + 1
        self.used.add(name)
        return name

    def add(self, array: Numbers, wanted: str | None = None) -> str:
        """The name of a constant; equal small ones are one."""
        key = (str(array.dtype), array.tobytes() if array.size <= 16 else b"", array.shape)
        if wanted is None and array.size <= 16 and key in self._numbers:
            return self._numbers[key]
        name = self.name(wanted or "constant")
        self.arrays[name] = array
        if wanted is None:
            self._numbers[key] = name
        return name


class Writer:
    """Writes one graph. `sizes` has the names of sizes that are known, and `values` those of calls."""

    def __init__(self, constants: Constants, sizes: Mapping[str, str], values: Mapping[int, Value]) -> None:
        self.constants = constants
        self.nodes: list[object] = []
        self.sizes = dict(sizes)
        self.values: dict[int, Value] = dict(values)
        self.kept: list[Call] = []  # calls that no graph holds: `values` goes by identity

    def inner(self) -> Writer:
        """The writer of a subgraph, which sees what is written so far."""
        return Writer(self.constants, self.sizes, self.values)

    def written(self, call: Call) -> Value:
        """Write a call; the name of its result, or the names."""
        if call.op is NUMBER:
            return None
        if call.op is RESULT:
            (operand,) = call.operands
            return self.values[id(operand)][call.attr("index")]
        return RULES[call.op.name](self, call)

    def node(self, kind: str, *operands: str, outputs: int = 1, **attributes: object) -> Value:
        """Add a node; the name of its result, or the names."""
        names = [self.constants.name(kind.lower()) for _ in range(outputs)]
        given = {name: value for name, value in attributes.items() if value is not None}
        self.nodes.append(library("onnx.helper").make_node(kind, list(operands), names, **given))
        return names[0] if outputs == 1 else names

    def constant(self, value: Value, dtype: type[np.generic] | None = None) -> str:
        """The name of a constant."""
        return self.constants.add(np.asarray(value, dtype))

    def number(self, value: object, dtype: rl.dtype) -> str:
        """The name of a number in a dtype."""
        return self.constants.add(rl.tensor(value, dtype=dtype).numpy())

    def value(self, call: Call, dtype: rl.dtype | None = None) -> str:
        """The name of a call's value, converted to a dtype."""
        if call.op is NUMBER:
            return self.number(call.attr("value"), call.type.dtype if dtype is None else dtype)
        name = self.values[id(call)]
        return name if dtype is None or call.type.dtype is dtype else self.cast(name, dtype)

    def cast(self, name: str, dtype: rl.dtype) -> str:
        """A value in another dtype."""
        narrow = dtype.is_floating_point and dtype.bits == 8
        return self.node("Cast", name, to=NUMBERS[dtype], saturate=0 if narrow else None)

    def floor_quotient(self, dividend: str, divisor: str) -> str:
        """The quotient of integers, rounded down: `Div` rounds towards zero, and `Mod` has the divisor's sign."""
        return self.node("Div", self.node("Sub", dividend, self.node("Mod", dividend, divisor)), divisor)

    def size(self, size: Size) -> str:
        """The name of a size, as an int64 vector of one element."""
        if isinstance(size, int):
            return self.constant([size], np.int64)
        text = str(size)
        if text not in self.sizes:
            self.sizes[text] = self._arithmetic(ast.parse(text, mode="eval").body)
        return self.sizes[text]

    def shape(self, sizes: Sequence[Size]) -> str:
        """The name of an int64 vector of sizes."""
        if all(isinstance(size, int) for size in sizes):
            return self.constant(list(sizes), np.int64)
        if len(sizes) == 1:
            return self.size(sizes[0])
        return self.node("Concat", *[self.size(size) for size in sizes], axis=0)

    def scalar(self, size: Size) -> str:
        """The name of a size without dims."""
        if isinstance(size, int):
            return self.constant(size, np.int64)
        return self.node("Squeeze", self.size(size), self.constant([0], np.int64))

    def _arithmetic(self, node: ast.expr) -> str:
        """The name of a size's value, from its text in the notation of Python."""
        if isinstance(node, ast.Constant):
            return self.constant([node.value], np.int64)
        if isinstance(node, ast.Name):
            if node.id not in self.sizes:
                fail("O003", f"onnx.export: the size {node.id} depends on values, or is a number that is passed in")
            return self.sizes[node.id]
        if isinstance(node, ast.UnaryOp):
            return self.node("Neg", self._arithmetic(node.operand))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            return self.node(node.func.id.capitalize(), *[self._arithmetic(part) for part in node.args])
        assert isinstance(node, ast.BinOp)
        first, second = self._arithmetic(node.left), self._arithmetic(node.right)
        if isinstance(node.op, ast.FloorDiv):
            return self.floor_quotient(first, second)
        return self.node(_ARITHMETIC[type(node.op)], first, second)


def is_open(size: Size) -> bool:
    """Whether a size is known when the model runs alone."""
    return isinstance(size, SizeExpr)

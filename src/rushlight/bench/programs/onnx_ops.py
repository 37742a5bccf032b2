"""Operators as ONNX graphs of one node or a few, for inference: ONNX Runtime does not train."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from rushlight.bench.peers import onnx_arrays, onnx_helper
from rushlight.bench.records import Array

EPSILON = 1e-5


class Drawing:
    """An ONNX graph being drawn: nodes in order, constants, and a fresh name for each value."""

    def __init__(self) -> None:
        self.nodes: list[object] = []
        self.constants: list[object] = []

    def call(self, kind: str, *operands: str, **attributes: object) -> str:
        """The name of a node's first result."""
        return self.calls(kind, operands, 1, **attributes)[0]

    def calls(self, kind: str, operands: Sequence[str], results: int, **attributes: object) -> list[str]:
        """The names of a node's results."""
        names = [f"v{len(self.nodes)}_{number}" for number in range(results)]
        self.nodes.append(onnx_helper.make_node(kind, list(operands), names, **attributes))
        return names

    def constant(self, value: Array) -> str:
        """The name of a constant."""
        name = f"c{len(self.constants)}"
        self.constants.append(onnx_arrays.from_array(value, name))
        return name

    def integers(self, *values: int) -> str:
        """The name of a constant vector of int64."""
        return self.constant(np.array(values, np.int64))


Draw = Callable[..., str | tuple[str, ...]]


def node(kind: str, **attributes: object) -> Draw:
    """A graph of one node."""
    return lambda drawing, *operands: drawing.call(kind, *operands, **attributes)


def pointwise(drawing: Drawing, x: str, w: str, b: str, residual: str) -> str:
    """gelu(x * w + b) + residual."""
    inner = drawing.call("Add", drawing.call("Mul", x, w), b)
    return drawing.call("Add", drawing.call("Gelu", inner), residual)


def convolution(drawing: Drawing, x: str, w: str, groups: int = 1) -> str:
    """3x3 with a border of one."""
    return drawing.call("Conv", x, w, pads=[1, 1, 1, 1], group=groups)


def attention(drawing: Drawing, q: str, k: str, v: str) -> str:
    """Causal."""
    return drawing.call("Attention", q, k, v, is_causal=1)


def sum_rows(drawing: Drawing, x: str) -> str:
    """Over the first dim."""
    return drawing.call("ReduceSum", x, drawing.integers(0), keepdims=0)


def add(drawing: Drawing, *operands: str) -> str:
    """The sum, from left to right."""
    total = operands[0]
    for operand in operands[1:]:
        total = drawing.call("Add", total, operand)
    return total


DRAWINGS: dict[str, Draw] = {
    "matmul": node("MatMul"),
    "int8_matmul": node("MatMulInteger"),
    "pointwise": pointwise,
    "softmax": node("Softmax", axis=-1),
    "layer_norm": node("LayerNormalization", axis=-1, epsilon=EPSILON),
    "rms_norm": node("RMSNormalization", axis=-1, epsilon=EPSILON),
    "attention": attention,
    "sum_rows": sum_rows,
    "convolution": convolution,
    "add": add,
}

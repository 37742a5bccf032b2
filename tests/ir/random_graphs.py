"""Random graphs of real operators over symbolic sizes, for property tests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

import rushlight.ops as ops
from rushlight.ir.dtype import DType, bool_, float16, float32, float64, int64
from rushlight.ir.graph import Graph, GraphBuilder, Node
from rushlight.ir.type import TensorType
from rushlight.ops.record import OPERATORS
from rushlight.support.errors import RushlightError
from rushlight.sym import Scope

assert ops  # what fills OPERATORS

DTYPES: tuple[DType, ...] = (float32, float64, float16, int64, bool_)
UNARY = ("exp", "neg", "relu", "sigmoid", "gelu", "detach", "clone", "isnan", "softmax", "cumsum")
BINARY = ("add", "mul", "sub", "maximum", "div", "matmul", "where")


def _apply(name: str, *args: Any, **attrs: Any) -> Any:
    return OPERATORS[name](*args, **attrs)


def _unary(draw: st.DrawFn, x: Node) -> Any:
    name = draw(st.sampled_from(UNARY))
    return _apply(name, x, -1) if name in ("softmax", "cumsum") else _apply(name, x)


def _binary(draw: st.DrawFn, x: Node, y: Any) -> Any:
    name = draw(st.sampled_from(BINARY))
    if name == "where":
        return _apply("where", _apply("gt", x, 0), x, y)
    return _apply(name, x, y)


def _shaped(draw: st.DrawFn, x: Node) -> Any:
    choices: list[Callable[[], Any]] = [
        lambda: _apply("transpose", x, 0, -1),
        lambda: _apply("unsqueeze", x, 0),
        lambda: _apply("reshape", x, (-1,)),
        lambda: _apply("sum", x, (0,), True),
        lambda: _apply("mean", x, None),
        lambda: _apply("to_dtype", x, draw(st.sampled_from(DTYPES))),
        lambda: _apply("full", x.shape, draw(st.sampled_from([0.0, 1.5, -0.0, float("inf"), 7, True]))),
        lambda: _apply("slice", x, 0, 1, None, 2) if x.ndim else x,
        lambda: _apply("cat", (x, x), 0),
        lambda: _apply("clamp", x, draw(st.sampled_from([None, -1.0])), 1.0),
    ]
    return draw(st.sampled_from(choices))()


@st.composite
def random_graphs(draw: st.DrawFn) -> Graph:
    """A graph of up to twelve calls that type-check."""
    scope = Scope()
    sizes: list[Any] = [scope.symbol("n", hint=4), scope.symbol("m", hint=3, lower=1), 3, 1]
    sizes += [2 * sizes[0], sizes[0] * sizes[1] + 1]
    builder = GraphBuilder(draw(st.sampled_from(["graph", "step_forward"])))
    values: list[Node] = []
    for place in range(draw(st.integers(1, 3))):
        shape = tuple(draw(st.lists(st.sampled_from(sizes), max_size=3)))
        values.append(builder.parameter(f"in{place}", TensorType(shape, draw(st.sampled_from(DTYPES)))))
    for _ in range(draw(st.integers(1, 12))):
        builder.region = draw(st.sampled_from([None, None, 0, 3]))
        x = draw(st.sampled_from(values))
        y = draw(st.sampled_from([*values, 2, 0.5, True]))
        try:
            kind = draw(st.integers(0, 2))
            result = _unary(draw, x) if kind == 0 else _binary(draw, x, y) if kind == 1 else _shaped(draw, x)
        except RushlightError:
            continue  # shapes that do not broadcast, dtypes without this operator
        values.extend([item for item in (result if isinstance(result, tuple) else (result,)) if isinstance(item, Node)])
    outputs = draw(st.lists(st.sampled_from(values), min_size=1, max_size=3))
    same = [value for value in values[1:] if value.type == values[0].type]
    mutations = [(0, draw(st.sampled_from(same)))] if same and draw(st.booleans()) else []
    return builder.graph(outputs, mutations)

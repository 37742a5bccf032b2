"""Which sizes a program needs, and which of them its inputs show."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from rushlight.ir.dtype import int64
from rushlight.ir.graph import Graph, parameter
from rushlight.ir.type import TensorType, symbols_in
from rushlight.sym import SizeExpr, free_symbols, is_symbol, simplify


def hidden_symbols(graph: Graph) -> tuple[SizeExpr, ...]:
    """The symbols that a graph needs and that no parameter has as a size or stride.

    Known equalities count. A size that equals an expression in others is that expression: `f32[s0]` does not show `s0`
    where it is `2*s1`.
    """
    shown = {simplify(size) for call in graph.parameters for size in (*call.type.shape, *call.type.strides)}
    parts = [part for call in graph.calls for part in (call.type, *[value for _, value in call.attrs])]
    sizes = symbols_in([*[call.type for call in (*graph.parameters, *graph.outputs)], *parts])
    needed = dict.fromkeys([symbol for size in sizes for symbol in free_symbols(simplify(size))])
    return tuple([symbol for symbol in needed if symbol not in shown])


def with_hidden_sizes(graph: Graph) -> tuple[Graph, tuple[SizeExpr, ...]]:
    """The graph with one more input where there are hidden symbols, and these.

    The input has no elements: its shape tells the sizes that no tensor shows.
    """
    symbols = hidden_symbols(graph)
    if not symbols:
        return graph, ()
    sizes = parameter("sizes", TensorType(symbols, int64, strides=(0,) * len(symbols)))
    return replace(graph, parameters=(*graph.parameters, sizes)), symbols


def bind_symbols(type_: TensorType, shape: Iterable[int], strides: Iterable[int], symbols: dict[SizeExpr, int]) -> None:
    """Binds symbols of a type, and their known equals, to a tensor's sizes and strides.

    A bound symbol keeps its value.
    """
    for size, actual in zip((*type_.shape, *type_.strides), (*shape, *strides), strict=True):
        for equal in (size, simplify(size)):
            if isinstance(equal, SizeExpr) and is_symbol(equal):
                symbols.setdefault(equal, actual)

"""The reference backend: a graph is run call by call with the operators' `ref` rules, in numpy.

It is an `Executable`, so everything above it is unchanged. It is slow and independent of the compiler: an oracle.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rushlight.build.decompose import to_primitives
from rushlight.build.executable import Commit, Executable, Summary, commit_on_host, fail_assert, types_of
from rushlight.ir.dtype import DType
from rushlight.ir.graph import NUMBER, PARAMETER, RELAYOUT, RESULT, Call, Graph, ValueAssert
from rushlight.ir.sizes import bind_symbols
from rushlight.ir.type import TensorType
from rushlight.ir.value import map_operands, map_sizes
from rushlight.runtime import descriptor
from rushlight.sym import SizeExpr, evaluate, simplify

Array = NDArray[Any]


class ReferenceExecutable(Executable):
    """A graph that numpy runs."""

    __slots__ = ("_graph",)

    def __init__(self, graph: Graph) -> None:
        super().__init__(*types_of(graph), Summary(launches=0, kernels=0, arena_hint_bytes=0), cached=False)
        self._graph = graph if all(_has_ref(call) for call in graph.calls) else to_primitives(graph)

    def launch(self, addresses: Sequence[int], work: int, commit: tuple[Commit, ...] = ()) -> None:
        """Reads inputs through their descriptors, runs the calls, writes outputs and mutated inputs."""
        graph = self._graph
        values: dict[int, Any] = {}
        symbols: dict[SizeExpr, int] = {}
        arrays: dict[int, Array] = {}
        asserts: dict[int, list[ValueAssert]] = {}
        for check in graph.asserts:
            asserts.setdefault(id(check.fails), []).append(check)
        for position, (call, address) in enumerate(zip(graph.parameters, addresses, strict=False)):
            data, shape, strides = descriptor.read(address, len(call.type.shape))
            bind_symbols(call.type, shape, strides, symbols)
            if data:  # else it has sizes alone
                array = arrays[position] = elements(data, shape, strides, call.type.dtype)
                values[id(call)] = array.item() if call.type.weak else array.copy()
        with np.errstate(all="ignore"):
            for call in graph.calls:
                values[id(call)] = _run(call, values, symbols)
                for check in asserts.get(id(call), ()):
                    if values[id(call)]:
                        fail_assert(check, symbols)
        for call, address in zip(graph.outputs, addresses[len(graph.parameters) :], strict=True):
            array_at(address, call.type)[...] = values[id(call)]
        commit_on_host([(arrays[position], values[id(call)]) for position, call in graph.mutations], commit)


def _has_ref(call: Call) -> bool:
    return call.op in (NUMBER, PARAMETER, RELAYOUT, RESULT) or getattr(call.op, "ref_rule", None) is not None


def array_at(address: int, type_: TensorType) -> Array:
    """The tensor that a descriptor describes, as an array on its memory."""
    return elements(*descriptor.read(address, len(type_.shape)), type_.dtype)


def elements(address: int, shape: tuple[int, ...], strides: tuple[int, ...], dtype: DType) -> Array:
    """The elements of a layout from an address on, as an array on that memory."""
    itemsize = dtype.itemsize
    memory: Any = (ctypes.c_char * (descriptor.extent(shape, strides) * itemsize)).from_address(address)
    return np.ndarray(shape, dtype.numpy, memory, strides=tuple([stride * itemsize for stride in strides]))


def _run(call: Call, values: dict[int, Any], symbols: dict[SizeExpr, int]) -> Any:
    if call.op is NUMBER:
        return call.attr("value")
    if call.op is RESULT:
        return values[id(call.operands[0])][call.attr("index")]
    operands = map_operands(call.operands, lambda operand: values[id(operand)])
    if call.op is RELAYOUT:
        return operands[0]
    op: Any = call.op
    attrs = {name: map_sizes(value, lambda size: evaluate(simplify(size), symbols)) for name, value in call.attrs}
    result = op.ref_rule(**op.named(operands, attrs))
    if isinstance(call.type, tuple):
        return tuple([_as(value, type_) for value, type_ in zip(result, call.type, strict=True)])
    return _as(result, call.type)


def _as(value: object, type_: TensorType) -> Array:
    return np.asarray(value).astype(type_.dtype.numpy, copy=False)

"""Backends of the user's: callables that get a graph and give a function over its inputs."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from rushlight.build import compile_graph, with_index_asserts
from rushlight.build.executable import Commit, Executable, Summary, commit_on_host, types_of
from rushlight.build.reference import array_at
from rushlight.capture.launching import Launching, evaluated
from rushlight.capture.resume.breaks import OF_BACKEND
from rushlight.eager.dispatch import Scope
from rushlight.eager.handle import Handle, make
from rushlight.eager.memory import array_of
from rushlight.eager.tensor_meta import form_of
from rushlight.ir.graph import NUMBER, Call, Graph
from rushlight.ir.sizes import bind_symbols
from rushlight.ir.text import format_graph
from rushlight.ir.type import TensorType
from rushlight.runtime import descriptor
from rushlight.runtime.allocator import Storage
from rushlight.support.errors import fail, require
from rushlight.support.frozen import frozen
from rushlight.sym import SizeExpr

Backend = Callable[["BackendGraph", list[Any]], Callable[..., Any]]


@frozen
class GraphNode:
    """A call of a graph: its name, the operator's name, operands (names, numbers, None, or tuples), and attributes."""

    name: str
    op: str
    args: tuple[object, ...]
    kwargs: dict[str, object]
    type: object

    def __str__(self) -> str:
        keywords = [f"{name}={value!r}" for name, value in self.kwargs.items()]
        return f"{self.name} = {self.op}({', '.join([*map(str, self.args), *keywords])})"


class BackendGraph:
    """The graph that a backend gets. It never changes, has no effects, and may be called at any time.

    Its results are those of the function (and what its backward pass reads), then the new values of the inputs that the
    function overwrites. `len(graph.inputs)` inputs are tensors, or Python numbers where the type is weak.
    """

    def __init__(self, graph: Graph) -> None:
        self._graph = replace(graph, outputs=graph.results(), mutations=(), views=(), frozen=())
        self._launching = Launching(self._graph, (), lambda graph: compile_graph(with_index_asserts(graph), "eager"))
        names = {id(call): f"in{position}" for position, call in enumerate(graph.parameters)}
        self.inputs: tuple[str, ...] = tuple(names.values())
        computed = [call for call in graph.calls if call.op is not NUMBER]
        names |= {id(call): f"v{position}" for position, call in enumerate(computed)}

        def shown(operand: object) -> object:
            if isinstance(operand, Call):
                return operand.attr("value") if operand.op is NUMBER else names[id(operand)]
            return tuple([shown(item) for item in operand]) if isinstance(operand, tuple) else operand

        self.nodes: tuple[GraphNode, ...] = tuple(
            [
                GraphNode(names[id(call)], call.op.name, tuple(map(shown, call.operands)), dict(call.attrs), call.type)
                for call in computed
            ]
        )
        self.outputs: tuple[object, ...] = tuple(map(shown, self._graph.outputs))

    def __iter__(self) -> Iterator[GraphNode]:
        return iter(self.nodes)

    def __len__(self) -> int:
        return len(self.nodes)

    def __str__(self) -> str:
        return format_graph(self._graph, facts=True)

    def __repr__(self) -> str:
        return f"BackendGraph({len(self.inputs)} inputs, {len(self.nodes)} calls, {len(self.outputs)} results)"

    def __call__(self, *inputs: Any) -> tuple[Any, ...]:
        """The results, operator by operator, with the bits of eager calls. C038 for inputs of other kinds."""
        types = [call.type for call in self._graph.parameters]
        require(
            len(inputs) == len(types), "C038", "graph: another number of inputs", expected=len(types), given=len(inputs)
        )
        symbols: dict[SizeExpr, int] = {}
        for type_, value in zip(types, inputs, strict=True):
            _note_sizes(type_, value, symbols)
        return tuple(self._launching.run(list(map(partial(_laid_out, symbols), types, inputs)), symbols))


class GivenBackend(Executable):
    """A graph that a callable runs, which the backend gives when the graph first runs."""

    __slots__ = ("_backend", "_function", "_graph")

    def __init__(self, graph: Graph, backend: Backend) -> None:
        super().__init__(*types_of(graph), Summary(launches=0, kernels=0, arena_hint_bytes=0), cached=False)
        self._graph = graph
        self._backend = backend
        self._function: Callable[..., Any] | None = None

    def launch(self, addresses: Sequence[int], work: int, commit: tuple[Commit, ...] = ()) -> None:
        """Runs the callable on copies of the inputs, then writes outputs and overwritten inputs."""
        graph = self._graph
        inputs = [_copied(address, type_) for address, type_ in zip(addresses, self.input_types, strict=False)]
        with Scope(grad=False, modes=(), functions=(), autocast=None, included=0, device=None):
            try:
                if self._function is None:
                    self._function = self._given(inputs)
                given = self._function(*inputs)
            except Exception as error:
                setattr(error, OF_BACKEND, True)
                raise
            results = _results(given, len(graph.results()))
        outputs = addresses[len(graph.parameters) :]
        written = [addresses[position] for position, _ in graph.mutations]
        types = [call.type for call in graph.results()]
        arrays = list(map(array_at, [*outputs, *written], types))
        values = [_array(*one) for one in zip(results, types, [array.shape for array in arrays], strict=True)]
        for array, value in zip(arrays[: len(outputs)], values, strict=False):
            array[...] = value
        commit_on_host(zip(arrays[len(outputs) :], values[len(outputs) :], strict=True), commit)

    def _given(self, inputs: list[Any]) -> Callable[..., Any]:
        function = self._backend(BackendGraph(self._graph), inputs)
        if not callable(function):
            fail("C037", "compile: the backend gives no function", given=type(function).__name__)
        return function


def _copied(address: int, type_: TensorType) -> Any:
    """An input as a tensor of its own, or as a number."""
    data, shape, strides = descriptor.read(address, len(type_.shape))
    if not data:  # sizes alone, which no other input shows
        strides = (0,) * len(shape)
    size = descriptor.extent(shape, strides) * type_.dtype.itemsize
    storage = Storage.allocate(size)
    if data:
        ctypes.memmove(storage.address, data, size)
    tensor = make(storage, form_of(shape, type_.dtype, strides=strides), 0)
    return array_of(tensor).item() if type_.weak else tensor


def _note_sizes(type_: TensorType, value: Any, symbols: dict[SizeExpr, int]) -> None:
    """Notes the sizes that an input of a graph shows. Errors: C038 where it is of another kind."""
    if isinstance(value, Handle):
        form = value.form
        if form.dtype is not type_.dtype or len(form.shape) != len(type_.shape):
            fail("C038", "graph: an input has another dtype or number of dims", expected=type_, given=value)
        bind_symbols(type_, form.shape, form.strides, symbols)
    elif not (type_.weak and isinstance(value, (bool, int, float, complex))):
        fail("C038", "graph: an input is no tensor", expected=type_, given=type(value).__name__)


def _laid_out(symbols: Mapping[SizeExpr, int], type_: TensorType, value: Any) -> object:
    """An input with its elements in the order that they have in the graph. Errors: C038 for another size."""
    if not isinstance(value, Handle):
        return value
    shape, strides = evaluated(type_.shape, symbols), evaluated(type_.strides, symbols)
    if shape != tuple(value.form.shape):
        fail("C038", "graph: an input has another size", expected=type_, given=value)
    if strides == tuple(value.form.strides):
        return value
    storage = Storage.allocate(descriptor.extent(shape, strides) * type_.dtype.itemsize)
    copy = make(storage, form_of(shape, type_.dtype, strides=strides), 0)
    array_of(copy)[...] = array_of(value)
    return copy


def _results(given: Any, count: int) -> list[Any]:
    results: list[Any] = list(given) if isinstance(given, (tuple, list)) else [given]
    if len(results) != count:
        fail(
            "C037",
            "compile: the backend's function gives another number of results than its graph",
            expected=count,
            given=len(results),
            hint="return a tuple of all results, as graph(*inputs) does",
        )
    return results


def _array(result: Any, type_: TensorType, shape: tuple[int, ...]) -> Any:
    """The elements of a result. Errors: C037 where it is of another kind than the graph's."""
    if not isinstance(result, Handle) or result.form.dtype is not type_.dtype or tuple(result.form.shape) != shape:
        fail(
            "C037",
            "compile: the backend's function gives a result of another kind than its graph",
            expected=type_,
            given=result if isinstance(result, Handle) else type(result).__name__,
            hint="return tensors of the dtypes and sizes that graph(*inputs) gives",
        )
    return array_of(result)

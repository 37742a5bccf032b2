"""Backends of the user's: callables that get a graph and give a function over its inputs."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib import import_module
from typing import Any

from rushlight.build.executable import Commit, Executable, Summary, commit_on_host, types_of
from rushlight.build.reference import array_at
from rushlight.capture.resume.breaks import OF_BACKEND
from rushlight.eager.dispatch import Scope
from rushlight.eager.handle import Handle, make
from rushlight.eager.memory import array_of
from rushlight.eager.tensor_meta import form_of
from rushlight.ir.graph import Graph
from rushlight.ir.type import TensorType
from rushlight.runtime import descriptor
from rushlight.runtime.allocator import Storage
from rushlight.support.errors import fail

Backend = Callable[[Any, list[Any]], Callable[..., Any]]  # of a `rl.fx.GraphModule` and example inputs
_ENTRY_POINTS = "torch_dynamo_backends"
_GIVEN = "given_to_a_backend"
NAMED: dict[str, Backend] = {}
"""Backends that programs have registered."""


def backend_named(name: str) -> Backend | None:
    """A backend that a program has registered, or that an installed package brings."""
    if name not in NAMED:
        metadata: Any = import_module("importlib.metadata")
        for point in metadata.entry_points(group=_ENTRY_POINTS, name=name):
            NAMED[name] = point.load()
    return NAMED.get(name)


def is_given(module: Any) -> bool:
    """Whether a module is a graph that a backend was given."""
    return bool(module.meta.get(_GIVEN))


def backward_backend(forward: object) -> Backend | None:
    """What compiles the backward passes of forward graphs, as their functions say by `backward_compiler`."""
    executables: Sequence[object] = getattr(forward, "executables", (forward,))
    found = [one.backward for one in executables if isinstance(one, GivenBackend)]
    return next((one for one in found if one is not None), None)


class GivenBackend(Executable):
    """A graph that a callable runs, which the backend gives when the graph first runs."""

    __slots__ = ("_backend", "_function", "_graph", "backward")

    def __init__(self, graph: Graph, backend: Backend) -> None:
        super().__init__(*types_of(graph), Summary(launches=0, kernels=0, arena_hint_bytes=0), cached=False)
        self._graph = graph
        self._backend = backend
        self._function: Callable[..., Any] | None = None
        self.backward: Backend | None = getattr(backend, "backward_compiler", None)

    def launch(self, addresses: Sequence[int], work: int, commit: tuple[Commit, ...] = ()) -> None:
        """Runs the callable on copies of the inputs, then writes outputs and overwritten inputs."""
        graph = self._graph
        inputs = [_copied(address, type_) for address, type_ in zip(addresses, self.input_types, strict=False)]
        with Scope(grad=False, modes=(), functions=(), autocast=None, included=0, device=None):
            try:
                if self._function is None:
                    self._function = self._given(inputs)
                boxed = getattr(self._function, "_boxed_call", False)
                given = self._function(inputs) if boxed else self._function(*inputs)
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
        module = _shown(self._graph)
        module.meta[_GIVEN] = True
        function = self._backend(module, inputs)
        if not callable(function):
            fail("C037", "compile: the backend gives no function", given=type(function).__name__)
        self.backward = getattr(function, "backward_compiler", self.backward)
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


def _shown(graph: Graph) -> Any:
    """A graph as a module that may be walked, edited and called: what it writes are further results.

    Modules are a floor above. Index asserts are left out: eager operators check for themselves.
    """
    lowered: Any = import_module("rushlight.fx.lowered")
    plain = replace(graph, outputs=graph.results(), mutations=(), views=(), frozen=(), asserts=())
    return lowered.graph_module(plain.without_dead_calls())


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

"""One run of a program by Rushlight itself: the bytes that go in and come out, for comparison with its package."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from rushlight.build import compile_graph, with_index_asserts
from rushlight.build.segments import is_segmented
from rushlight.capture.segmented import Segmented
from rushlight.codegen.llvm.interface.records import Interface, SizeParameter, TensorParameter
from rushlight.eager.creation import from_numpy
from rushlight.eager.memory import array_of
from rushlight.export.packaging.interface import states_of, weights_of
from rushlight.export.program import ExportedProgram
from rushlight.ir.graph import with_dense_outputs
from rushlight.runtime import descriptor
from rushlight.support.errors import fail
from rushlight.support.frozen import frozen
from rushlight.sym import Size, SizeExpr, evaluate

Array = NDArray[np.generic]
_SEED = 0
_MOST_TRIES = 64
_SPREAD = 32  # from the least size to the largest that is drawn
Inputs = Callable[[Mapping[str, int], int], Sequence[Array]]
"""Makes the inputs of a program, in order, for sizes by name and a seed."""


@frozen(eq=False)
class Run:
    """The sizes of a run, in order, and by name what it read, and the bytes of what it wrote."""

    sizes: tuple[int, ...]
    inputs: Mapping[str, Array]
    results: Mapping[str, bytes]

    def write_inputs(self, folder: Path) -> None:
        """Writes the files that the example reads."""
        for name, value in self.inputs.items():
            (folder / name).write_bytes(value.tobytes())

    def differing(self, folder: Path) -> list[str]:
        """The names of the results that the example has written with other bits."""
        return [name for name, wanted in self.results.items() if (folder / name).read_bytes() != wanted]


def run_of(
    program: ExportedProgram,
    interface: Interface,
    seed: int = _SEED,
    given: Inputs | None = None,
    spread: int = _SPREAD,
) -> Run:
    """Runs the program on random values: of the sizes that it was exported with, or others where they do not fit.

    Integers are 0 or 1, so that they are indices of most tensors. Where that is not enough `given` makes the inputs.
    """
    sizes = _sizes_for(interface, seed, spread)
    rng = np.random.default_rng(seed)
    rest = None if given is None else iter(given({size.name: sizes[size.symbol] for size in interface.sizes}, seed))
    owned = {name: np.asarray(array_of(tensor), order="C") for name, tensor in weights_of(program).items()}
    states = {name: np.array(array_of(tensor), order="C") for name, tensor in states_of(program).items()}
    inputs: dict[str, Array] = {}
    arrays: list[Array] = []
    for tensor in interface.tensors:
        if tensor.kind == "weight":
            arrays.append(owned[tensor.title])
        elif tensor.kind == "size":
            assert tensor.symbol is not None
            arrays.append(np.array(sizes[tensor.symbol], np.int64))
        elif tensor.kind == "output":
            arrays.append(_empty(tensor, sizes))
        else:
            if tensor.kind == "state":
                array = states[tensor.title]
            elif rest is None:
                array = _drawn(rng, tensor, sizes)
            else:
                array = np.asarray(next(rest), order="C")
            inputs[tensor.name] = array.copy()
            arrays.append(array)
    _launch(program, interface, sizes, arrays)
    written = {
        tensor.name: _bytes(array) for tensor, array in zip(interface.tensors, arrays, strict=True) if tensor.is_written
    }
    return Run(tuple([sizes[size.symbol] for size in interface.sizes]), inputs, written)


def _sizes_for(interface: Interface, seed: int, spread: int) -> dict[SizeExpr, int]:
    """Sizes in their ranges for which the conditions hold."""
    rng = np.random.default_rng(seed)
    for attempt in range(_MOST_TRIES):
        sizes = {
            size.symbol: _size_for(size, rng, spread, drawn=attempt > 0 or seed != _SEED) for size in interface.sizes
        }
        if all(condition.holds(sizes) for condition in interface.conditions):
            return sizes
    return fail("A001", "package: no sizes were found that fit the program's conditions")


def _size_for(size: SizeParameter, rng: np.random.Generator, spread: int, drawn: bool) -> int:
    facts = size.symbol.facts
    preferred = facts.preferred if facts.hint is None else facts.hint
    most = size.lower + spread * size.multiple_of if size.upper is None else min(size.upper, size.lower + spread)
    value = int(rng.integers(size.lower, most + 1)) if drawn or not isinstance(preferred, int) else preferred
    return -(-value // size.multiple_of) * size.multiple_of


def _shape(sizes: Mapping[SizeExpr, int], dims: tuple[Size, ...]) -> tuple[int, ...]:
    return tuple([dim if isinstance(dim, int) else evaluate(dim, sizes) for dim in dims])


def _empty(tensor: TensorParameter, sizes: Mapping[SizeExpr, int]) -> Array:
    dtype = np.dtype(tensor.type.dtype.numpy)
    shape, strides = _shape(sizes, tensor.type.shape), _shape(sizes, tensor.type.strides)
    memory = np.zeros(max(descriptor.extent(shape, strides), 1), dtype)
    return np.ndarray(shape, dtype, memory, strides=[stride * dtype.itemsize for stride in strides])


def _drawn(rng: np.random.Generator, tensor: TensorParameter, sizes: Mapping[SizeExpr, int]) -> Array:
    dtype, shape = np.dtype(tensor.type.dtype.numpy), _shape(sizes, tensor.type.shape)
    if tensor.type.dtype.kind.name in ("BOOL", "INT"):
        return rng.integers(0, 2, shape).astype(dtype)
    return np.asarray(rng.standard_normal(shape)).astype(dtype)


def _bytes(array: Array) -> bytes:
    """What an array holds, in the order of its memory."""
    base = array.base if isinstance(array.base, np.ndarray) else array
    return base.tobytes() if array.size else b""


def _launch(program: ExportedProgram, interface: Interface, sizes: Mapping[SizeExpr, int], arrays: list[Array]) -> None:
    graph = with_dense_outputs(with_index_asserts(program.graph))
    if is_segmented(graph):
        inputs = [from_numpy(array) for array in arrays[: len(graph.parameters)]]
        outputs = Segmented(graph, compile_graph).run(inputs, sizes).outputs
        for array, output in zip(arrays[len(inputs) :], outputs, strict=True):
            array[...] = array_of(output)
        return
    executable = compile_graph(graph)
    kept = [
        descriptor.describe(
            array.ctypes.data,
            tensor.type.dtype.code,
            array.shape,
            [stride // array.itemsize for stride in array.strides],
        )
        for tensor, array in zip(interface.tensors, arrays, strict=True)
    ]
    executable.launch([address for _, address in kept], work=0)

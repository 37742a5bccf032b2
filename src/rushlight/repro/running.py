"""Graphs run on arrays, and what came out of them compared."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

import numpy as np

from rushlight.build.executable import Executable
from rushlight.build.native import compile_native
from rushlight.build.reference import Array
from rushlight.build.steps import compile_by_calls
from rushlight.ir.choice import BLOCKS, Blocks
from rushlight.ir.graph import Graph
from rushlight.ir.sizes import bind_symbols
from rushlight.repro.given import Given, copied, strides_of
from rushlight.support.errors import RushlightError
from rushlight.sym import SizeExpr
from rushlight.tune.measure import Always, Prepared

Arrays = Sequence[Array]


def run(graph: Graph, arrays: Arrays, executable: Executable) -> list[Array]:
    """The outputs of a graph, then what is in the inputs that it overwrites. The arrays stay as they are."""
    operands = [copied(array) for array in arrays]
    prepared = Prepared(executable, operands)
    prepared.run()
    return [*prepared.results, *[operands[position] for position, _ in graph.mutations]]


def compiled(graph: Graph, arrays: Arrays, blocks: Blocks = BLOCKS) -> list[Array]:
    """The results of a graph that is compiled now, whatever a cache holds."""
    return run(graph, arrays, compile_native(graph, Always(blocks=blocks)))


def by_calls(graph: Graph, arrays: Arrays) -> list[Array]:
    """The results of a graph call by call, by the code of eager calls: what compiled code has to give, to the bit."""
    return run(graph, arrays, compile_by_calls(graph))


def sizes_of(graph: Graph, arrays: Arrays) -> dict[SizeExpr, int]:
    """The values of the symbols that inputs show."""
    symbols: dict[SizeExpr, int] = {}
    for call, array in zip(graph.parameters, arrays, strict=True):
        bind_symbols(call.type, array.shape, strides_of(array), symbols)
    return symbols


def outcome(graph: Graph, inputs: Sequence[Given], executable: Executable | None = None) -> str:
    """The digest of a graph's results, or the code of its error. Without `executable` it is compiled now."""
    try:
        executable = compile_native(graph) if executable is None else executable
        return digest(run(graph, [given.array() for given in inputs], executable))
    except RushlightError as failure:
        return failure.code


def digest(arrays: Iterable[Array]) -> str:
    """A digest of dtypes, shapes and bits; all NaNs are alike."""
    found = hashlib.sha256()
    for array in arrays:
        found.update(f"{array.dtype.name}{array.shape}".encode())
        found.update(_canonical(array).tobytes())
    return found.hexdigest()


def differing(one: Arrays, other: Arrays) -> list[int]:
    """The positions of results that differ in bits; all NaNs are alike."""
    return [
        position
        for position, (a, b) in enumerate(zip(one, other, strict=True))
        if a.shape != b.shape or _canonical(a).tobytes() != _canonical(b).tobytes()
    ]


def _canonical(array: Array) -> Array:
    plain = np.ascontiguousarray(array).copy()
    if plain.dtype.kind == "c":
        parts = plain.reshape(-1).view(f"f{plain.itemsize // 2}")
        parts[np.isnan(parts)] = np.nan
    elif plain.dtype.kind in "fV":
        plain[np.isnan(plain)] = np.nan
    return plain

"""Values of a graph that depend on frozen inputs alone: computed once, and cached from call to call."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

from rushlight.ir.plan import Launch
from rushlight.ir.scalar import Buffer, Scalar, bound_axes
from rushlight.schedule.lower.folding import Dissected
from rushlight.schedule.lower.rewrite import index_exprs, loads
from rushlight.sym import Size, SizeExpr, axis_size, free_symbols, is_axis, product
from rushlight.term import postorder

# A cached value takes at least this many steps per element. Views, casts and single additions are recomputed.
MIN_STEPS = 2


def is_constant(term: Scalar, axes: Iterable[SizeExpr]) -> bool:
    """Whether a body over some axes reads only constant values and no size that varies between calls."""
    read = loads(term)
    if not read or not all(load.attr("buffer").constant for load in read):
        return False
    over = {*axes, *[axis for part in postorder([term]) for axis in bound_axes(part)]}
    over.update([symbol for expr in index_exprs([term]) for symbol in free_symbols(expr)])
    return all(is_axis(symbol) and isinstance(axis_size(symbol), int) for symbol in over)


def cached_constants(items: Sequence[Dissected]) -> set[Buffer]:
    """The constant values to cache: those that non-constant values read.

    A value that is larger than its operands is not cached, because reading it takes longer than computing it.
    """
    exposed: set[Buffer] = set()
    for definition in reversed(items):
        if not definition.buffer.constant or (definition.buffer in exposed and definition.computing == 0):
            exposed.update(_read(definition))
    steps: dict[Buffer, int] = {}
    kept: set[Buffer] = set()
    for definition in items:
        if not definition.buffer.constant:
            continue
        read, mine = _read(definition), definition.computing
        total = mine + sum([steps.get(buffer, 0) for buffer in read])
        steps[definition.buffer] = total
        small = _elements(definition.buffer) <= sum([_elements(buffer) for buffer in read])
        if mine and total >= MIN_STEPS and small and definition.buffer in exposed:
            kept.add(definition.buffer)
    return kept


def cached_outputs(
    launches: Iterable[Launch], once: Iterable[Launch], inputs: Collection[Buffer]
) -> dict[Buffer, Buffer]:
    """The buffers that launches need from those that run once, with a global buffer for each."""
    made = {buffer for launch in once for buffer in launch.buffers if buffer not in inputs}
    needed = dict.fromkeys([buffer for launch in launches for buffer in launch.buffers if buffer in made])
    return {buffer: replace(buffer, scope="global") for buffer in needed}


def _read(definition: Dissected) -> set[Buffer]:
    return {load.attr("buffer") for load in definition.loads}


def _elements(buffer: Buffer) -> int:
    count: Size = product(buffer.type.shape)
    return count if isinstance(count, int) else 0

"""From a group of nodes to a kernel: common axes, bodies evaluated in place, linear addresses, collapsed loops."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial

from rushlight.ir.kernel import Axis, AxisKind, GemmKernel, Kernel, Loop, Statement, Store
from rushlight.ir.plan import Address
from rushlight.ir.ragged import ragged_end
from rushlight.ir.scalar import OPS, Buffer, Scalar, bound_axes
from rushlight.ir.target import Target
from rushlight.schedule.gemm.matrices import NEAR
from rushlight.schedule.loops.blocks import STRAIGHT, Body, Walk, in_turns, walk_axes
from rushlight.schedule.loops.nest import LoopNest, NestStore
from rushlight.schedule.loops.phases import phases_of
from rushlight.schedule.loops.tiles import BLOCK_WIDTH, crossing_axis, in_blocks
from rushlight.schedule.loops.unroll import unroll_chains
from rushlight.schedule.lower.rewrite import (
    Substitution,
    flat_position,
    free_axes,
    loads,
    step_along,
)
from rushlight.support.frozen import frozen
from rushlight.sym import (
    Size,
    SizeExpr,
    axis_size,
    ceildiv,
    depends_on,
    floordiv,
    free_symbols,
    is_axis,
    maximum,
    minimum,
    product,
    total,
)
from rushlight.term import postorder

# Upper bound of the number of axis values in a span.
SPAN = 256
# The most values of an axis that is unrolled.
FEW = 8
# The most terms of a body for which it pays to unroll neighbours along a crossing axis.
MOST_TERMS = 60


@frozen
class Step:
    """One launch: a kernel, its arguments, its parallel iterations, and the scalar steps of an iteration.

    `once`: the step packs constants and runs only once.
    """

    kernel: Kernel | GemmKernel
    arguments: tuple[Buffer | Address | Size, ...]
    count: Size
    work: Size
    once: bool = False


def build_kernel(nest: LoopNest, name: str, walk: Walk = STRAIGHT) -> Step:
    """Chooses the vector axis and writes the loops. The other outer axes are walked as `walk` says.

    The vector axis is the last inner axis of each store. Stores without inner axes share an outer axis, or leave the
    lanes to their reductions, whose loops run along the reduced axes.
    """
    _part_last(nest)
    if any(store.inner for store in nest.stores) or not nest.outer:
        return _rows(nest, name, walk)
    if reductions_take_lanes(nest):
        return _rows(nest, name, walk, _chains_side_by_side(nest))
    return _flat(nest, name, walk)


def build_plain(nest: LoopNest, name: str) -> Step:
    """Writes the loops as they are: outer axes are parallel, and the last inner axis of a store runs in lanes."""
    if any(store.inner for store in nest.stores):
        return _rows(nest, name, STRAIGHT)
    return finish_kernel(nest, name, nest.outer, _stores(nest.stores, [Substitution({})]), _reduced(nest))


def _part_last(nest: LoopNest) -> None:
    """Splits the last outer axis by remainders that conditions ask for; each remainder gets its own loop."""
    if not nest.outer or nest.is_conditional or any(store.inner for store in nest.stores):
        return
    *outer, last = nest.outer
    phases = phases_of([store.value for store in nest.stores], last)
    if not phases:
        return
    items: list[NestStore] = []
    for axis, image in phases:
        at = Substitution({last: image})
        for element in nest.stores:
            value, offset = unroll_chains([at(element.value), at(element.offset)])
            items.append(NestStore((axis,), element.buffer, offset, value))
    nest.outer, nest.stores = tuple(outer), items


def reductions_take_lanes(nest: LoopNest) -> bool:
    """Whether the reductions of a nest without inner axes run in lanes along their own last axes.

    They do if more of their operands are contiguous along those than along the last outer axis. A single chain of
    floats never does: each step waits for the one before (2 to 8 times slower than results side by side, however far
    apart they read). One of integers does if no operand is nearly contiguous along the results: its steps may come in
    any order.
    """
    last = nest.outer[-1]
    along_outer = along_inner = 0
    for term in [term for term in postorder(nest.roots()) if bound_axes(term)]:
        is_chain = term.attr("order").lanes == 1
        if is_chain and (term.type.is_floating_point or term.type.is_complex):
            continue
        reads = [read for operand in term.operands for read in loads(operand)]
        steps = NEAR if is_chain else (1,)
        outside = sum([_real_step(read, last) in steps for read in reads])
        along_outer += outside
        inside = sum([_real_step(read, bound_axes(term)[-1]) == 1 for read in reads])
        if inside and not (is_chain and outside) and (outside or _varies(term, last)):
            along_inner += inside
    return along_inner > along_outer


def _real_step(read: Scalar, axis: SizeExpr) -> Size | None:
    """The distance of the numbers that neighbours along an axis load: parts of complex elements are apart."""
    step = step_along(read.operands[0], axis)
    return None if step is None else step * 2 if read.type.is_complex else step


def _varies(reduction: Scalar, axis: SizeExpr) -> bool:
    """Whether a reduction has another value for each value of an axis."""
    lengths = [axis_size(bound) for term in postorder([reduction]) for bound in bound_axes(term)]
    return axis in free_axes(reduction) or any(depends_on(length, axis) for length in lengths)


def _flat(nest: LoopNest, name: str, walk: Walk) -> Step:
    """Vectorises the outer axis that suits the addresses best; an only axis is parallel too."""
    axes, reduced = _vector_last(nest), _reduced(nest)
    for store in nest.stores:
        store.value, store.offset = unroll_chains([store.value, store.offset])
    axes = _side_by_side(nest, axes)
    crossing = crossing_axis(
        [(element.buffer, element.offset) for element in nest.stores], [element.value for element in nest.stores], axes
    )
    if crossing is not None:
        return _tiled(nest, name, axes, *crossing, walk)

    def along_last(turns: Sequence[Substitution]) -> Body:
        return (Loop(Axis(axes[-1], axis_size(axes[-1]), AxisKind.VECTOR), _stores(nest.stores, turns)),)

    if len(axes) > 1:
        return _walked(nest, name, axes[:-1], along_last, axis_size(axes[-1]) * reduced, walk)
    body = _stores(nest.stores, [Substitution({})])
    return finish_kernel(nest, name, axes, body, reduced, in_lanes=True)


def _walked(
    nest: LoopNest,
    name: str,
    axes: tuple[SizeExpr, ...],
    body: Callable[[Sequence[Substitution]], Body],
    work: Size,
    walk: Walk,
) -> Step:
    """A kernel whose outer axes are walked in blocks, unless the lengths of inner loops vary."""
    if not axes or not walk.changes(axes) or nest.is_conditional or _is_uneven(nest, axes):
        return finish_kernel(nest, name, axes, body([Substitution({})]), work)
    kept = any(term.op is OPS["keep"] for term in postorder(nest.roots()))
    walked = walk_axes(axes, walk, body, turns=not kept and len({store.inner for store in nest.stores}) == 1)
    nest.outer = (*axes, *walked.parallel)
    return finish_kernel(nest, name, walked.parallel, walked.body, work * walked.places)


def _is_uneven(nest: LoopNest, axes: Sequence[SizeExpr]) -> bool:
    """Whether the lengths of inner loops vary along some axes."""
    sizes = [axis_size(axis) for term in postorder(nest.roots()) for axis in bound_axes(term)]
    sizes += [axis_size(axis) for store in nest.stores for axis in store.inner]
    return any(depends_on(size, axis) for size in sizes for axis in axes)


def _stores(stores: Sequence[NestStore], turns: Sequence[Substitution]) -> Body:
    """The stores in each turn, one turn after the other."""
    return tuple([store.statement(at) for at in turns for store in stores])


def _tiled(nest: LoopNest, name: str, axes: tuple[SizeExpr, ...], crossing: SizeExpr, width: int, walk: Walk) -> Step:
    """Tiles the last axis and an axis along which operands are contiguous: a few cache lines at a time.

    If the body is small, neighbours along the crossing axis are unrolled, so that codegen can load and transpose them
    together.
    """
    last = axes[-1]
    near_width, far_width = walk.width(last, BLOCK_WIDTH), walk.width(crossing, width)
    near, far = in_blocks(axis_size(last), near_width, "near"), in_blocks(axis_size(crossing), far_width, "far")
    side = Target.TRANSPOSED_SIDE if len(list(postorder(nest.roots()))) <= MOST_TERMS else 1
    loops = in_turns(far, crossing, side, {last: near.position}, partial(_stores, nest.stores), "square")
    body = (Loop(Axis(near.within, axis_size(near.within), AxisKind.VECTOR), loops),)
    blocks = [span.block for span in (near, far) if isinstance(span.block, SizeExpr)]
    nest.outer = (*[axis for axis in axes[:-1] if axis is not crossing], *blocks)
    work = minimum(axis_size(last), near_width) * minimum(axis_size(crossing), far_width)
    return finish_kernel(nest, name, nest.outer, body, work)


def _side_by_side(nest: LoopNest, axes: tuple[SizeExpr, ...]) -> tuple[SizeExpr, ...]:
    """The axes without one short axis, which is unrolled if the last axis fills few lanes.

    The unrolled chains share a loop and their common loads; a single chain would wait for each of its own steps.
    """
    short = [axis for axis in axes if _is_few(axis)]
    if len(short) < 2 or short[-1] is not axes[-1] or len(axes) < 3 or not _single_chains(nest):
        return axes
    write_out(nest, short[-2])
    return tuple([axis for axis in axes if axis is not short[-2]])


def _single_chains(nest: LoopNest) -> list[Scalar]:
    """The reductions that are single dependence chains."""
    return [term for term in postorder(nest.roots()) if bound_axes(term) and term.attr("order").lanes == 1]


def write_out(nest: LoopNest, axis: SizeExpr) -> None:
    """Unrolls a short outer axis: each of its values gets stores of its own."""
    size = axis_size(axis)
    assert isinstance(size, int)
    turns = [Substitution({axis: position}) for position in range(size)]
    nest.stores = [store.image(at) for at in turns for store in nest.stores]
    nest.outer = tuple([other for other in nest.outer if other is not axis])


def _is_few(axis: SizeExpr) -> bool:
    size = axis_size(axis)
    return isinstance(size, int) and 0 < size <= FEW


def _vector_last(nest: LoopNest) -> tuple[SizeExpr, ...]:
    """The outer axes with the vector axis moved to the end: fewest long strides, then most strides of 1.

    Addresses that do not depend on it are read once per row.
    """

    def score(axis: SizeExpr) -> tuple[int, int]:
        steps = [step for store in nest.stores for step in (step_along(store.offset, axis),) * 2]
        steps += [step_along(read.operands[0], axis) for store in nest.stores for read in loads(store.value)]
        return -sum(1 for step in steps if step not in (0, 1)), steps.count(1)

    best = max(reversed(nest.outer), key=score)
    return (*[axis for axis in nest.outer if axis is not best], best)


def _chains_side_by_side(nest: LoopNest) -> int:
    """Unrolls the last outer axis if it is short and its values are single chains; the number of chains.

    The chains of one loop overlap. A single chain waits in each step for the one before, and in so short a loop its
    speed also depends on the alignment of the code.
    """
    last, chains = nest.outer[-1], _single_chains(nest)
    if len(nest.outer) == 1 or len(nest.stores) > 1 or not _is_few(last) or not chains:
        return 1
    if any(depends_on(axis_size(axis), last) for chain in chains for axis in bound_axes(chain)):
        return 1  # they are not of one length
    write_out(nest, last)
    return len(nest.stores)


def _rows(nest: LoopNest, name: str, walk: Walk, turns: int = 1) -> Step:
    """Outer axes are parallel; below are row results and loops over inner axes, the last a vector axis.

    Reductions over the same axes count once as work, times the `turns` of an unrolled axis.
    """
    groups: dict[tuple[SizeExpr, ...], list[NestStore]] = {}
    for store in nest.stores:
        groups.setdefault(store.inner, []).append(store)

    def rows(places: Sequence[Substitution]) -> Body:
        body: list[Statement] = []
        for inner, stores in groups.items():
            statements = _stores(stores, places)
            for position, axis in enumerate(reversed(inner)):
                kind = AxisKind.VECTOR if position == 0 else AxisKind.SERIAL
                statements = (Loop(Axis(axis, axis_size(axis), kind), statements),)
            body.extend(statements)
        return tuple(body)

    work = 1 + total([product([axis_size(axis) for axis in inner]) for inner in groups])
    return _walked(nest, name, nest.outer, rows, (work + _reduced(nest)) * turns, walk)


def _reduced(nest: LoopNest) -> Size:
    sizes: dict[tuple[SizeExpr, ...], Size] = {}
    for term in postorder(nest.roots()):
        axes = bound_axes(term)
        if axes and not any(is_axis(symbol) for axis in axes for symbol in _size_symbols(axis)):
            sizes[axes] = _mean_length(term)
    return total(sizes.values()) if sizes else 1


def _mean_length(reduction: Scalar) -> Size:
    """The steps of a reduction; of a ragged one the mean, since segments rarely overlap."""
    length, end = product([axis_size(axis) for axis in bound_axes(reduction)]), ragged_end(reduction)
    if end is None:
        return length
    segments = product([axis_size(axis) for axis in free_axes(end.limit)])
    return ceildiv(length, maximum(1, segments))


def _size_symbols(axis: SizeExpr) -> tuple[SizeExpr, ...]:
    size = axis_size(axis)
    return free_symbols(size) if isinstance(size, SizeExpr) else ()


def finish_kernel(
    nest: LoopNest,
    name: str,
    parallel: Sequence[SizeExpr],
    body: tuple[Statement, ...],
    work: Size,
    in_lanes: bool = False,
) -> Step:
    """Wraps the parallel loops around a body and lists the kernel's arguments.

    With `in_lanes` the innermost parallel loop is a vector loop as well.
    """
    kind = AxisKind.PARALLEL_VECTOR if in_lanes else AxisKind.PARALLEL
    for axis in reversed(parallel):
        body = (Loop(Axis(axis, axis_size(axis), kind), body),)
        kind = AxisKind.PARALLEL
    inner = [axis for store in nest.stores for axis in store.inner]
    sizes = [axis_size(axis) for axis in (*inner, *nest.outer, *_loop_axes(body))]
    kernel = Kernel(name, *named_in(nest.roots(), [store.buffer for store in nest.stores], sizes), body)
    return Step(kernel, (*kernel.buffers, *kernel.sizes), product([axis_size(axis) for axis in parallel]), work)


def moved(body: Body, at: Substitution) -> Body:
    """Statements at other values of axes around them, which no bounds of their loops depend on."""
    statements: list[Statement] = []
    for one in body:
        if isinstance(one, Loop):
            statements.append(replace(one, body=moved(one.body, at)))
        else:
            assert isinstance(one, Store) and isinstance(one.offset, Scalar)
            where = None if one.where is None else at(one.where)
            statements.append(Store(one.buffer, at(one.offset), at(one.value), one.combine, where))
    return tuple(statements)


def span_loops(axes: Sequence[SizeExpr], low: Size, high: Size, body: Body, run: int = 1) -> Body:
    """Serial loops over those values of some axes whose flat row-major position is in [low, high).

    The body unrolls a `run` of values of one more axis.
    """
    if not axes:
        return body
    axis, *others = axes
    rest = product([axis_size(other) for other in others])
    start, end = floordiv(low, rest), ceildiv(high, rest)
    if others and isinstance(rest, int) and rest > 0 and (run > 1 or _is_longest(axis, rest, others[-1])):
        return _first_inside(axis, others, (start, end), (low, high), body)
    inner = span_loops(others, maximum(0, low - axis * rest), minimum(rest, high - axis * rest), body, run)
    return (Loop(Axis(axis, end - start, AxisKind.SERIAL, start), inner),)


def _first_inside(
    axis: SizeExpr, others: Sequence[SizeExpr], values: tuple[Size, Size], span: tuple[Size, Size], body: Body
) -> Body:
    """Loops over a span with the first axis innermost, limited to the given values.

    Terms that depend on the other axes alone, such as a condition on a window's position, are computed once for all of
    them.
    """
    before = flat_position(others, {})
    rest = product([axis_size(other) for other in others])
    start, end = (ceildiv(maximum(0, bound - before), rest) for bound in span)
    start, end = maximum(values[0], start), minimum(values[1], end)
    loops: Body = (Loop(Axis(axis, end - start, AxisKind.SERIAL, start), body),)
    for other in others:
        loops = (Loop(Axis(other, axis_size(other), AxisKind.SERIAL), loops),)
    return loops


def _is_longest(axis: SizeExpr, rest: int, last: SizeExpr) -> bool:
    """Whether a span of a panel has more values of its first axis, for all of `rest`, than of its last."""
    first, last_size = axis_size(axis), axis_size(last)
    if not isinstance(last_size, int):
        return False
    turns = SPAN // rest
    return last_size <= (min(turns, first) if isinstance(first, int) else turns)


def _loop_axes(body: tuple[Statement, ...]) -> list[SizeExpr]:
    axes: list[SizeExpr] = []
    stack = list(body)
    while stack:
        statement = stack.pop()
        if isinstance(statement, Loop):
            axes.append(statement.axis.symbol)
            stack.extend(statement.body)
    return axes


def named_in(
    roots: Iterable[Scalar], stored: Iterable[Buffer], sizes: Iterable[Size]
) -> tuple[tuple[Buffer, ...], tuple[SizeExpr, ...]]:
    """The buffers and the symbols that a kernel is given: those of its scalars, of its stores, and of other sizes."""
    buffers: dict[Buffer, None] = {}
    symbols: dict[SizeExpr, None] = {}
    for term in postorder(roots):
        if term.op is OPS["load"]:
            buffers[term.attr("buffer")] = None
        elif term.op is OPS["index"]:
            _collect(term.attr("expr"), symbols)
        for axis in bound_axes(term):
            _collect(axis_size(axis), symbols)
    buffers.update(dict.fromkeys(stored))
    for size in sizes:
        _collect(size, symbols)
    return tuple(buffers), tuple(symbols)


def _collect(size: Size, symbols: dict[SizeExpr, None]) -> None:
    if isinstance(size, SizeExpr):
        symbols.update([(symbol, None) for symbol in free_symbols(size) if not is_axis(symbol)])

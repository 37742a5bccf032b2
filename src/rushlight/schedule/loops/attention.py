"""Finds attention in a plan: a product (scores), a softmax along its rows, and a product with the result.

Scores may be scaled, masked and biased; weights are what the softmax makes of them before it divides by their sum.
"""

from __future__ import annotations

from dataclasses import replace

from rushlight.ir.kernel import Axis, AxisKind, GemmKernel, Kernel, Loop, Store
from rushlight.ir.plan import Address, Launch, Plan, RowBlockKernel
from rushlight.ir.scalar import OPS, Buffer, Scalar, apply, bound_axes, constant, load, select
from rushlight.ops.math.exponential import exp
from rushlight.schedule.gemm.matrices import count
from rushlight.schedule.loops.unit_products import (
    LEAST,
    Body,
    Product,
    find_product,
    moved_store,
    narrow_operand,
)
from rushlight.schedule.lower.rewrite import Substitution, as_size, flat_position, free_axes, rebuild
from rushlight.support.frozen import frozen
from rushlight.sym import Size, SizeExpr, axis_size, axis_symbol, substitute
from rushlight.term import postorder
from rushlight.term import substitute as replace_terms

_LOAD, _CONTRACT, _CAST, _SELECT = OPS["load"], OPS["contract"], OPS["cast"], OPS["select"]
MOST_DEPTH = 128
"""The longest rows of queries and of values."""


@frozen
class _Nest:
    """A launch of plain loops, in the sizes and buffers of the plan: parallel axes, an axis in lanes, and stores."""

    axes: tuple[SizeExpr, ...]
    lanes: SizeExpr | None
    stores: tuple[Store, ...]

    @property
    def read(self) -> set[Buffer]:
        """The buffers that are read."""
        terms = postorder([root for store in self.stores for root in store.roots])
        return {term.attr("buffer") for term in terms if term.op is _LOAD}


def _nest_of(plan: Plan, launch: Launch) -> _Nest | None:
    """A launch as a nest; None if it is more than that."""
    kernel = plan.kernels[launch.kernel]
    if isinstance(kernel, GemmKernel | RowBlockKernel) or any(isinstance(word, Address) for word in launch.arguments):
        return None
    number = len(kernel.buffers)
    given = [word for word in launch.arguments[:number] if isinstance(word, Buffer)]
    buffers = dict(zip(kernel.buffers, given, strict=True))
    words = zip(kernel.sizes, launch.arguments[number:], strict=True)
    images: dict[SizeExpr, Size] = {symbol: word for symbol, word in words if isinstance(word, int | SizeExpr)}
    axes: list[SizeExpr] = []
    lanes: SizeExpr | None = None
    body: Body = kernel.body
    while len(body) == 1 and isinstance(body[0], Loop):
        axis = body[0].axis
        if axis.start != 0 or isinstance(axis.extent, Scalar) or lanes is not None or axis.kind is AxisKind.BLOCK:
            return None
        new = axis_symbol(substitute(axis.extent, images))
        images[axis.symbol] = new
        if axis.kind is AxisKind.PARALLEL:
            axes.append(new)
        else:
            lanes = new
        body = body[0].body
    if not all(isinstance(statement, Store) and statement.combine is None for statement in body):
        return None
    moved = Substitution(images, lambda buffer, operands: load(buffers.get(buffer, buffer), *operands))
    stores = [moved_store(statement, moved, images) for statement in body if isinstance(statement, Store)]
    stores = [replace(store, buffer=buffers.get(store.buffer, store.buffer)) for store in stores]
    return _Nest(tuple(axes), lanes, tuple(stores))


@frozen
class Softmax:
    """What is known of the rows: axes of the nest, the score, the weight before it is divided, and its summand.

    `highest` is the maximum and `whole` the sum that these depend on; `divided` is what is made of a result by `whole`.
    """

    axes: tuple[SizeExpr, ...]
    keys: SizeExpr
    score: Scalar
    weight: Scalar
    summand: Scalar
    highest: Scalar
    whole: Scalar
    scale: Scalar
    divides: bool


@frozen
class Attention:
    """The three parts. `values` is the operand of the second product, over the summed axis `key`."""

    scores: Product
    softmax: Softmax
    scored: Buffer
    values: Scalar
    key: SizeExpr
    axes: tuple[SizeExpr, ...]
    term: Scalar
    stores: tuple[Store, ...]


def find_attention(plan: Plan, at: int) -> tuple[Attention, tuple[int, int, int]] | None:
    """The attention whose scores launch `at` computes, and the numbers of its launches."""
    first = _nest_of(plan, plan.launches[at])
    scored = _only_target(plan, first)
    if first is None or scored is None:
        return None
    second = _only_reader(plan, scored, at)
    rows = None if second is None else _nest_of(plan, plan.launches[second])
    weights = _only_target(plan, rows)
    if second is None or rows is None or weights is None:
        return None
    third = _only_reader(plan, weights, second)
    last = None if third is None else _nest_of(plan, plan.launches[third])
    if third is None or last is None or not _may_wait(plan, at, third, first.read | rows.read):
        return None
    scores = find_product([Axis(axis, axis_size(axis)) for axis in first.axes], first.stores)
    softmax = _softmax_of(rows, scored)
    if scores is None or softmax is None or first.lanes is not None:
        return None
    attention = _joined(scores, softmax, scored, weights, last)
    return None if attention is None else (attention, (at, second, third))


def _only_target(plan: Plan, nest: _Nest | None) -> Buffer | None:
    """The buffer that a nest stores to, if that is one of the arena that one launch writes."""
    if nest is None or len(nest.stores) != 1 or nest.stores[0].where is not None:
        return None
    buffer = nest.stores[0].buffer
    return buffer if buffer.scope == "arena" and buffer not in plan.asserted else None


def _only_reader(plan: Plan, buffer: Buffer, writer: int) -> int | None:
    """The launch that alone has a buffer beside its writer."""
    users = [number for number, launch in enumerate(plan.launches) if buffer in launch.buffers and number != writer]
    return users[0] if len(users) == 1 and users[0] > writer else None


def _may_wait(plan: Plan, first: int, last: int, read: set[Buffer]) -> bool:
    """Whether launches between write nothing that is read."""
    for launch in plan.launches[first + 1 : last]:
        kernel = plan.kernels[launch.kernel]
        if not isinstance(kernel, Kernel):
            return False
        words = dict(zip(kernel.buffers, launch.arguments, strict=False))
        if any(words.get(store.buffer) in read for store in kernel.stores()):
            return False
    return True


def _softmax_of(nest: _Nest, scored: Buffer) -> Softmax | None:
    """The softmax that a nest computes of the rows of `scored`."""
    keys, (store,) = nest.lanes, nest.stores
    if keys is None:
        return None
    place = flat_position((*nest.axes, keys), {})
    if _place(store) != place:
        return None
    reductions = [term for term in postorder([store.value]) if bound_axes(term)]
    kinds = {term.attr("kind"): term for term in reductions if term.op is not _CONTRACT and len(bound_axes(term)) == 1}
    if len(reductions) != 2 or set(kinds) != {"max", "sum"}:
        return None
    highest, whole = kinds["max"], kinds["sum"]
    if any(axis_size(bound_axes(term)[0]) != axis_size(keys) for term in reductions):
        return None
    found = _undivided(store.value, whole)
    if found is None:
        return None
    weight, scale, divides = found
    score, summand = (_at_key(term, keys) for term in (highest, whole))
    softmax = Softmax(nest.axes, keys, score, weight, summand, highest, whole, scale, divides)
    exact = all(_is_exponential(part, highest, keys) for part in (weight, summand))
    reads = [term for term in postorder([score, weight, summand]) if term.op is _LOAD and term.attr("buffer") is scored]
    inner = flat_position((*nest.axes, *bound_axes(highest)), {})
    known = all(as_size(read.operands[0]) in (place, inner) for read in reads)
    return softmax if exact and known and not free_axes(scale) & {keys} else None


def _place(store: Store) -> Size | None:
    return as_size(store.offset) if isinstance(store.offset, Scalar) else store.offset


def _at_key(term: Scalar, keys: SizeExpr) -> Scalar:
    """What a reduction reduces, at a key of the nest."""
    return Substitution({bound_axes(term)[0]: keys})(term.operands[0])


def _undivided(value: Scalar, whole: Scalar) -> tuple[Scalar, Scalar, bool] | None:
    """A weight without its division by the sum: what is left, by what it is multiplied or divided, and which."""
    if value.op is _CAST:
        return _undivided(value.operands[0], whole)
    if value.op is _SELECT:
        condition, yes, no = value.operands
        if _has(condition, whole) or not (_is_zero(no) or _is_zero(yes)):
            return None
        inner = _undivided(yes if _is_zero(no) else no, whole)
        if inner is None:
            return None
        parts = (inner[0], no) if _is_zero(no) else (yes, inner[0])
        return select(condition, *parts), inner[1], inner[2]
    if value.op in (OPS["mul"], OPS["div"]):
        one, other = value.operands
        if _has(other, whole) and not _has(one, whole):
            return one, other, value.op is OPS["div"]
        if value.op is OPS["mul"] and _has(one, whole) and not _has(other, whole):
            return other, one, False
    return None


def _has(term: Scalar, part: Scalar) -> bool:
    return any(inner is part for inner in postorder([term]))


def _is_zero(term: Scalar) -> bool:
    return term.op is OPS["constant"] and term.attr("value") == 0


def _is_exponential(term: Scalar, highest: Scalar, keys: SizeExpr) -> bool:
    """Whether a term depends on the maximum as `exp(score - maximum)` does, times what does not."""
    for part in postorder([term]):
        if is_shifted(part, highest) and keys in free_axes(part):
            power = exp(part)
            if _has(term, power):
                (rest,) = replace_terms([term], {power: constant(1.0, power.type)}, rebuild)
                return not _has(rest, highest)
    return False


def is_shifted(term: Scalar, highest: Scalar) -> bool:
    """Whether a term is a score less the maximum, or less 0 where that is minus infinity."""
    if term.op is not OPS["sub"]:
        return False
    shift = term.operands[1]
    least = constant(float("-inf"), highest.type)
    return shift in (highest, select(apply("eq", highest, least), constant(0.0, highest.type), highest))


def _joined(scores: Product, softmax: Softmax, scored: Buffer, weights: Buffer, last: _Nest) -> Attention | None:
    """The attention of three parts, if they walk over the same rows and keys."""
    (store,) = scores.stores
    if len(scores.a.axes) != 1 or len(scores.b.axes) != 1 or last.lanes is not None or len(last.axes) < 2:
        return None
    if _place(store) != flat_position((*scores.batch, *scores.a.axes, *scores.b.axes), {}):
        return None
    reductions = [term for part in last.stores for term in postorder([part.value]) if bound_axes(term)]
    terms = list(dict.fromkeys(reductions))
    if len(terms) != 1 or terms[0].op is not _CONTRACT or len(bound_axes(terms[0])) != 1:
        return None
    (key,) = bound_axes(terms[0])
    sides = list(terms[0].operands)
    made = [_is_load_of(side, weights, flat_position((*last.axes[:-1], key), {})) for side in sides]
    values = [narrow_operand(side) for side in sides]
    if made.count(True) != 1:
        return None
    value = values[made.index(False)]
    if value is None or value.type is not scores.a.element.type or last.axes[-2] in free_axes(value):
        return None
    if weights in {term.attr("buffer") for term in postorder([value]) if term.op is _LOAD}:
        return None
    attention = Attention(scores, softmax, scored, value, key, last.axes, terms[0], last.stores)
    return attention if _same_sizes(attention) else None


def _is_load_of(side: Scalar, buffer: Buffer, place: Size) -> bool:
    read = side.operands[0] if side.op is _CAST else side
    return read.op is _LOAD and read.attr("buffer") is buffer and as_size(read.operands[0]) == place


def _same_sizes(attention: Attention) -> bool:
    """Whether the parts agree in batches, rows and keys, and the depths are not too long."""
    scores, softmax, axes = attention.scores, attention.softmax, attention.axes
    batches = count(scores.batch)
    rows, keys = axis_size(scores.a.axes[0]), axis_size(scores.b.axes[0])
    depths = [axis_size(axes[-1]), count(bound_axes(scores.term))]
    return (
        all(isinstance(depth, int) and LEAST <= depth <= MOST_DEPTH for depth in depths)
        and count(axes[:-2]) == batches
        and rows == axis_size(axes[-2])
        and count(softmax.axes) == batches * rows
        and keys == axis_size(softmax.keys) == axis_size(attention.key)
    )

"""Accumulators of reductions: identity, step and join of each kind, and which reductions share a loop."""

from __future__ import annotations

from rushlight.codegen.llvm.builder.analysis import RISKY_LOAD
from rushlight.codegen.llvm.builder.scope import Context, Mask, Scope
from rushlight.codegen.llvm.builder.target import CodeTarget
from rushlight.codegen.llvm.builder.vector_types import Shape, identity_of, shape_of
from rushlight.codegen.llvm.math import arithmetic, casts
from rushlight.codegen.llvm.math.terms import operand
from rushlight.ir.dtype import DType, Kind, float32, uint32, uint64
from rushlight.ir.ragged import RaggedEnd, ragged_end
from rushlight.ir.scalar import SUMS, Order, Scalar, bound_axes
from rushlight.sym import Size, SizeExpr, axis_size


class Fold:
    """A reduction that is being emitted.

    If `ordered`, the result depends on the order of the elements. A maximum or minimum of floats is computed on
    `encoded` numbers if the machine has no instruction for it: unsigned integers in the order of floats, NaNs on top,
    so that a step is one unsigned maximum in place of compares, blends and tests for NaN. `element` is the dtype of the
    elements, `dtype` that of the accumulators. If `is_wide`, accumulators are joined in the result's dtype: sums of
    float32 are short float32 chains that are joined in float64. `elements` are the operands of a step, without the
    guard that ends the loop.
    """

    __slots__ = ("axes", "dtype", "element", "elements", "encoded", "is_wide", "kind", "ordered", "term")

    def __init__(self, term: Scalar, target: CodeTarget) -> None:
        self.term = term
        self.elements = term.operands
        self.kind: str = term.attr("kind") if term.op.name == "reduce" else "sum"
        self.axes: tuple[SizeExpr, ...] = bound_axes(term)
        self.ordered = is_ordered(term)
        self.encoded: DType | None = None
        if term.type.kind is Kind.FLOAT and self.kind in ("max", "min") and target.architecture == "x86_64":
            if term.type is float32:
                self.encoded = uint32
            elif target.has_masks:
                self.encoded = uint64
        self.element = term.operands[0].type if term.op.name == "reduce" else term.type
        self.is_wide = self.element is not term.type
        self.dtype = self.encoded or self.element

    def shape(self, lanes: int) -> Shape:
        """The shape of its accumulators."""
        return shape_of(self.dtype, lanes)

    def total_shape(self, lanes: int) -> Shape:
        """The shape in which accumulators are joined."""
        return shape_of(self.term.type if self.is_wide else self.dtype, lanes)

    def widen(self, scope: Scope, lanes: int, text: str) -> str:
        """Converts an accumulator to the dtype in which accumulators are joined."""
        return casts.cast(scope, self.shape(lanes), self.total_shape(lanes), text) if self.is_wide else text

    def identity(self, shape: Shape) -> str:
        """The identity element in every lane: the start of an accumulator."""
        return shape.splat("0" if self.encoded is not None else identity_of(self.kind, shape.dtype))

    def step(self, ctx: Context, scope: Scope, mask: Mask | None, shape: Shape, accumulator: str) -> str:
        """The accumulator with the current element folded in."""
        values = shape_of(self.element, shape.lanes)
        texts = [operand(ctx, element, scope, mask, values) for element in self.elements]
        if len(texts) == 2:
            return arithmetic.fma(scope, shape, texts[0], texts[1], accumulator)
        if self.encoded is not None:
            texts[0] = _encode(scope, values, shape, texts[0], self.kind == "min")
        return self.join(scope, shape, accumulator, texts[0])

    def join(self, scope: Scope, shape: Shape, a: str, b: str) -> str:
        """Combines two accumulators."""
        return arithmetic.fold(scope, "max" if self.encoded is not None else self.kind, shape, a, b)

    def decode(self, scope: Scope, shape: Shape, text: str) -> str:
        """The result of a finished accumulator."""
        if self.encoded is None:
            return text
        return _decode(scope, shape_of(self.term.type, shape.lanes), shape, text, self.kind == "min")

    def only_block(self, scope: Scope, shape: Shape, text: str) -> str:
        """The total of a single block: adds it to +0.0, as an order of several blocks does.

        That changes a sum of products that is -0.0.
        """
        if len(self.term.operands) < 2 or not shape.is_float:
            return text
        return self.join(scope, shape, self.identity(shape), text)


def is_ordered(term: Scalar) -> bool:
    """Whether a reduction's result depends on the order of its elements."""
    return term.type.kind is Kind.FLOAT and (term.op.name == "contract" or term.attr("kind") in (*SUMS, "prod"))


def _encode(scope: Scope, source: Shape, words: Shape, text: str, reverse: bool) -> str:
    """Encodes floats as unsigned integers in their order: 0 is -inf (+inf if `reverse`), NaNs are last."""
    kind = words.type
    bits = scope.let(f"bitcast {source.type} {text} to {kind}")
    ordered = _flip(scope, words, bits)
    if reverse:
        return scope.let(f"sub {kind} {words.integer(_infinity(words))}, {ordered}")
    return scope.let(f"sub {kind} {ordered}, {words.integer(-_infinity(words) - 1)}")


def _decode(scope: Scope, result: Shape, words: Shape, text: str, reverse: bool) -> str:
    kind = words.type
    if reverse:
        ordered = scope.let(f"sub {kind} {words.integer(_infinity(words))}, {text}")
    else:
        ordered = scope.let(f"add {kind} {text}, {words.integer(-_infinity(words) - 1)}")
    return scope.let(f"bitcast {kind} {_flip(scope, words, ordered)} to {result.type}")


def _flip(scope: Scope, words: Shape, bits: str) -> str:
    """Converts between a float's bits and a signed integer in its order: inverts the magnitude of negatives."""
    kind = words.type
    sign = scope.let(f"ashr {kind} {bits}, {words.integer(words.bits - 1)}")
    inverted = scope.let(f"and {kind} {sign}, {words.integer((1 << (words.bits - 1)) - 1)}")
    return scope.let(f"xor {kind} {bits}, {inverted}")


def _infinity(words: Shape) -> int:
    return 0x7F800000 if words.bits == 32 else 0x7FF0000000000000


class Group:
    """Reductions that share one loop: their axes have equal extents.

    `extents` leaves out axes of length 1, which are in `ones`. `order` is that of the ordered reductions, None if there
    are none. `axes[i]` are the i-th axes of all reductions. `end` is where memory says that the loop ends, or None.
    """

    __slots__ = ("axes", "end", "extents", "folds", "ones", "order")

    def __init__(self, terms: list[Scalar], target: CodeTarget, end: RaggedEnd | None = None) -> None:
        self.folds = [Fold(term, target) for term in terms]
        self.end = end
        if end is not None:
            for fold in self.folds:
                own = ragged_end(fold.term)
                assert own is not None
                fold.elements = (own.element,)
        ordered = [fold.term.attr("order") for fold in self.folds if fold.ordered]
        self.order: Order | None = ordered[0] if ordered else None
        sizes = [axis_size(axis) for axis in self.folds[0].axes]
        kept_axes = [index for index, size in enumerate(sizes) if size != 1] or [len(sizes) - 1]
        self.extents: tuple[Size, ...] = tuple([sizes[index] for index in kept_axes])
        self.axes = [[fold.axes[index] for fold in self.folds] for index in kept_axes]
        self.ones = [axis for fold in self.folds for index, axis in enumerate(fold.axes) if index not in kept_axes]

    def bits(self, ctx: Context, chosen: slice = slice(None), ones: bool = True) -> int:
        """The bits of the chosen axes, and of those of length 1."""
        bits = 0
        for axes in [*self.axes[chosen], self.ones if ones else []]:
            for axis in axes:
                bits |= ctx.analysis.axis_bits[axis]
        return bits

    def bind(self, scope: Scope, index: int, text: str) -> None:
        """Sets the value of the axes with this index in a scope."""
        for axis in self.axes[index]:
            scope.sizes[axis] = text
        for axis in self.ones:
            scope.sizes[axis] = "0"


def find_group(ctx: Context, term: Scalar, scope: Scope, mask: Mask | None) -> Group:
    """Groups a reduction with others that can share its loop.

    They have the same scope, order and extents, and neither needs the other's result.
    """
    analysis = ctx.analysis
    end = _end_of(ctx, term)
    if mask is not None or len(analysis.reductions) == 1:
        return Group([term], ctx.target, end)
    members = [term]
    reached = analysis.below[term]
    sizes = _sizes(term)
    for bit, other in enumerate(analysis.reductions):
        if other is term or other in ctx.in_progress or other not in ctx.unconditional or other in scope.memo:
            continue
        if analysis.free[other] != analysis.free[term] or analysis.touched[other] & ~3 or _sizes(other) != sizes:
            continue
        if ctx.hoist(analysis.free[other], analysis.touched[other], scope) is not scope:
            continue
        inside = any(analysis.below[other] >> analysis.reductions.index(member) & 1 for member in members)
        if inside or reached >> bit & 1 or not _same_order([*members, other]):
            continue
        if not _end_together(end, _end_of(ctx, other)):
            continue
        members.append(other)
        reached |= analysis.below[other]
    return Group(members, ctx.target, end)


def _end_of(ctx: Context, term: Scalar) -> RaggedEnd | None:
    """Where a reduction's guard ends it, unless that needs loads that are invalid without elements."""
    end = ragged_end(term)
    return None if end is None or ctx.analysis.touched[end.limit] & RISKY_LOAD else end


def _end_together(a: RaggedEnd | None, b: RaggedEnd | None) -> bool:
    if a is None or b is None:
        return a is b
    return a.limit is b.limit and a.before == b.before


def _sizes(term: Scalar) -> tuple[Size, ...]:
    return tuple([axis_size(axis) for axis in bound_axes(term)])


def _same_order(terms: list[Scalar]) -> bool:
    return len({term.attr("order") for term in terms if is_ordered(term)}) < 2

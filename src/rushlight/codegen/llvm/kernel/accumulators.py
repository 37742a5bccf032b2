"""What a reduction does with one element, and which reductions share a loop."""

from __future__ import annotations

from rushlight.codegen.llvm.builder.scope import Context, Mask, Scope
from rushlight.codegen.llvm.builder.target import CodeTarget
from rushlight.codegen.llvm.builder.vector_types import Shape, identity_of, shape_of
from rushlight.codegen.llvm.math import arithmetic, casts
from rushlight.codegen.llvm.math.terms import operand
from rushlight.ir.dtype import DType, Kind, float32, uint32, uint64
from rushlight.ir.scalar import SUMS, Order, Scalar, bound_axes
from rushlight.sym import Size, SizeExpr, axis_size


class Fold:
    """A reduction being emitted. `ordered`: its result depends on the order of its elements.

    Extremes of floats are found on `encoded` numbers, unsigned integers in the order of floats with all NaNs on top,
    where the machine has no instruction for them: one unsigned maximum instead of compares, blends and tests for NaN.
    `element` is the dtype of what is folded in, `dtype` that of accumulators. Where it `is_wide` they are joined in the
    result's dtype.
    """

    __slots__ = ("axes", "dtype", "element", "encoded", "is_wide", "kind", "ordered", "term")

    def __init__(self, term: Scalar, target: CodeTarget) -> None:
        self.term = term
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
        """The shape of what accumulators are joined in."""
        return shape_of(self.term.type if self.is_wide else self.dtype, lanes)

    def widen(self, scope: Scope, lanes: int, text: str) -> str:
        """An accumulator as it is joined with others."""
        return casts.cast(scope, self.shape(lanes), self.total_shape(lanes), text) if self.is_wide else text

    def identity(self, shape: Shape) -> str:
        """The text of what it starts from, in every lane."""
        return shape.splat("0" if self.encoded is not None else identity_of(self.kind, shape.dtype))

    def step(self, ctx: Context, scope: Scope, mask: Mask | None, shape: Shape, accumulator: str) -> str:
        """The accumulator with the current element folded in."""
        values = shape_of(self.element, shape.lanes)
        texts = [operand(ctx, item, scope, mask, values) for item in self.term.operands]
        if len(texts) == 2:
            return arithmetic.fma(scope, shape, texts[0], texts[1], accumulator)
        if self.encoded is not None:
            texts[0] = _encode(scope, values, shape, texts[0], self.kind == "min")
        return self.join(scope, shape, accumulator, texts[0])

    def join(self, scope: Scope, shape: Shape, a: str, b: str) -> str:
        """Two accumulators in one."""
        return arithmetic.fold(scope, "max" if self.encoded is not None else self.kind, shape, a, b)

    def decode(self, scope: Scope, shape: Shape, text: str) -> str:
        """The result in an accumulator."""
        if self.encoded is None:
            return text
        return _decode(scope, shape_of(self.term.type, shape.lanes), shape, text, self.kind == "min")

    def only_block(self, scope: Scope, shape: Shape, text: str) -> str:
        """The total of a single block: blocks are added to +0.0, which tells from a sum of products that is -0.0."""
        if len(self.term.operands) < 2 or not shape.is_float:
            return text
        return self.join(scope, shape, self.identity(shape), text)


def is_ordered(term: Scalar) -> bool:
    """Whether a reduction's result depends on the order of its elements."""
    return term.type.kind is Kind.FLOAT and (term.op.name == "contract" or term.attr("kind") in (*SUMS, "prod"))


def _encode(scope: Scope, source: Shape, words: Shape, text: str, reverse: bool) -> str:
    """Floats as unsigned integers in their order, from 0 for -inf, or for +inf in reverse; NaNs come last."""
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
    """Between a float's bits and a signed integer in its order: the magnitude of negative ones is inverted."""
    kind = words.type
    sign = scope.let(f"ashr {kind} {bits}, {words.integer(words.bits - 1)}")
    inverted = scope.let(f"and {kind} {sign}, {words.integer((1 << (words.bits - 1)) - 1)}")
    return scope.let(f"xor {kind} {bits}, {inverted}")


def _infinity(words: Shape) -> int:
    return 0x7F800000 if words.bits == 32 else 0x7FF0000000000000


class Group:
    """Reductions over axes of equal extents that run in one loop. Axes that are 1 long are left out of `extents`.

    `order` is that of the ordered ones, None if any order will do. `axes` are the axes of all, place by place.
    """

    __slots__ = ("axes", "extents", "folds", "ones", "order")

    def __init__(self, terms: list[Scalar], target: CodeTarget) -> None:
        self.folds = [Fold(term, target) for term in terms]
        ordered = [fold.term.attr("order") for fold in self.folds if fold.ordered]
        self.order: Order | None = ordered[0] if ordered else None
        sizes = [axis_size(axis) for axis in self.folds[0].axes]
        kept = [place for place, size in enumerate(sizes) if size != 1] or [len(sizes) - 1]
        self.extents: tuple[Size, ...] = tuple([sizes[place] for place in kept])
        self.axes = [[fold.axes[place] for fold in self.folds] for place in kept]
        self.ones = [axis for fold in self.folds for place, axis in enumerate(fold.axes) if place not in kept]

    def bits(self, ctx: Context, places: slice = slice(None), ones: bool = True) -> int:
        """The bits of the axes at some places, and of those of length 1."""
        found = 0
        for axes in [*self.axes[places], self.ones if ones else []]:
            for axis in axes:
                found |= ctx.analysis.axis_bits[axis]
        return found

    def bind(self, scope: Scope, place: int, text: str) -> None:
        """Names the index of the axes at a place within a region."""
        for axis in self.axes[place]:
            scope.sizes[axis] = text
        for axis in self.ones:
            scope.sizes[axis] = "0"


def find_group(ctx: Context, term: Scalar, scope: Scope, mask: Mask | None) -> Group:
    """A reduction with those that can share its loop: of the same region, order and extents, and independent of it."""
    analysis = ctx.analysis
    if mask is not None or len(analysis.reductions) == 1:
        return Group([term], ctx.target)
    members = [term]
    reached = analysis.below[term]
    sizes = _sizes(term)
    for place, other in enumerate(analysis.reductions):
        if other is term or other in ctx.busy or other not in ctx.certain or other in scope.memo:
            continue
        if analysis.free[other] != analysis.free[term] or analysis.touched[other] & ~3 or _sizes(other) != sizes:
            continue
        if ctx.place(analysis.free[other], analysis.touched[other], scope) is not scope:
            continue
        inside = any(analysis.below[other] >> analysis.reductions.index(member) & 1 for member in members)
        if inside or reached >> place & 1 or not _same_order([*members, other]):
            continue
        members.append(other)
        reached |= analysis.below[other]
    return Group(members, ctx.target)


def _sizes(term: Scalar) -> tuple[Size, ...]:
    return tuple([axis_size(axis) for axis in bound_axes(term)])


def _same_order(terms: list[Scalar]) -> bool:
    return len({term.attr("order") for term in terms if is_ordered(term)}) < 2

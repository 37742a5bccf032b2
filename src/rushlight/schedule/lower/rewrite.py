"""Rewriting of scalar bodies: axes and loads are replaced, addresses made linear.

All functions are iterative, and memoised per call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from rushlight.ir.dtype import int64
from rushlight.ir.scalar import OPS, Buffer, Scalar, apply, bound_axes, constant, index, lift
from rushlight.sym import (
    Size,
    SizeExpr,
    axis_size,
    axis_symbol,
    coefficient,
    floordiv,
    free_symbols,
    is_axis,
    mod,
    parts,
    substitute,
)
from rushlight.term import interned, postorder

Index = Scalar | Size
_INDEX = OPS["index"]
_LOAD = OPS["load"]
_ADD = OPS["add"]


def rebuild(term: Scalar, operands: tuple[Scalar, ...]) -> Scalar:
    """The same term on other operands."""
    if term.op.name in _FOLDING:
        return apply(term.op.name, *operands)
    return interned(Scalar, term.op, operands, term.attrs, term.type)


_FOLDING = ("add", "sub", "mul", "neg")


def size_as_scalar(expr: Size, images: Mapping[SizeExpr, Index]) -> Scalar:
    """Converts a size expression to int64 arithmetic. Scalars replace some symbols (data-dependent indices)."""
    if isinstance(expr, int):
        return constant(expr, int64)
    if not any(isinstance(images.get(symbol), Scalar) for symbol in free_symbols(expr)):
        return index(substitute(expr, {key: value for key, value in images.items() if not isinstance(value, Scalar)}))
    total: Scalar | None = None
    for scale, atoms in parts(expr):
        term: Scalar = constant(scale, int64)
        for position, atom in enumerate(atoms):
            factor = _atom_as_scalar(atom, images)
            term = factor if position == 0 and scale == 1 else term * factor
        total = term if total is None else total + term
    return total if total is not None else constant(0, int64)


def _atom_as_scalar(atom: SizeExpr, images: Mapping[SizeExpr, Index]) -> Scalar:
    if atom.op.name == "symbol":
        return lift(images.get(atom, atom), int64)
    first, *rest = (size_as_scalar(operand, images) for operand in atom.operands)
    name = {"floordiv": "floordiv", "min": "minimum", "max": "maximum"}[atom.op.name]
    for factor in rest:
        first = apply(name, first, factor)
    return first


class Substitution:
    """Replaces axes and loads in scalar bodies. Bound axes whose extent changes are renewed.

    `axes` maps axis symbols to sizes or scalars; `on_load` may replace a load, given its buffer and its new indices.
    """

    def __init__(
        self,
        axes: Mapping[SizeExpr, Index],
        on_load: Callable[[Buffer, tuple[Scalar, ...]], Scalar | None] | None = None,
    ) -> None:
        self.axes = dict(axes)
        self.on_load = on_load
        self._image: dict[int, Scalar] = {}
        self._keep: list[Scalar] = []

    def __call__(self, term: Scalar) -> Scalar:
        """The image of a body."""
        image = self._image
        stack = [term]
        while stack:
            part = stack[-1]
            key = id(part)
            if key in image:
                stack.pop()
                continue
            for axis in bound_axes(part):
                self._renew(axis)
            # Not by `postorder`: operands of a term that has an image are not entered. Scheduling spends most of its
            # time here.
            waiting = [operand for operand in part.operands if id(operand) not in image]
            if waiting:
                waiting.reverse()
                stack += waiting
                continue
            stack.pop()
            image[key] = self._visit(part)
            self._keep.append(part)
        return image[id(term)]

    def _renew(self, axis: SizeExpr) -> None:
        size = axis_size(axis)
        if axis in self.axes or isinstance(size, int):
            return
        changed = {symbol: self.axes[symbol] for symbol in free_symbols(size) if symbol in self.axes}
        if changed:
            assert not any(isinstance(image, Scalar) for image in changed.values()), "ragged extent"
            self.axes[axis] = axis_symbol(substitute(size, changed))  # pyright: ignore[reportArgumentType] - no scalars

    def _visit(self, term: Scalar) -> Scalar:
        if term.op is _INDEX:
            return size_as_scalar(term.attr("expr"), self.axes)
        operands = tuple([self._image[id(operand)] for operand in term.operands])
        if term.op is _LOAD:
            new = self.on_load(term.attr("buffer"), operands) if self.on_load is not None else None
            if new is not None:
                return new
        bound = bound_axes(term)
        if bound and any(axis in self.axes for axis in bound):
            images = [self.axes.get(axis, axis) for axis in bound]
            axes = tuple([image for image in images if isinstance(image, SizeExpr)])  # an axis fixed at 0 is gone
            attrs = tuple([(key, axes if key == "axes" else value) for key, value in term.attrs])
            return interned(Scalar, term.op, operands, attrs, term.type)
        # Terms are compared by identity.
        return term if operands == term.operands else rebuild(term, operands)


def loads(term: Scalar) -> list[Scalar]:
    """The distinct load terms of a body, in postorder."""
    return [part for part in postorder([term]) if part.op is _LOAD]


def index_exprs(terms: Iterable[Scalar]) -> list[SizeExpr]:
    """The distinct size expressions that bodies mention."""
    exprs: dict[SizeExpr, None] = {}
    for part in postorder(terms):
        if part.op is _INDEX:
            exprs[part.attr("expr")] = None
    return list(exprs)


def linear_offset(indices: tuple[Scalar, ...], strides: tuple[Size, ...]) -> Scalar:
    """The element offset of a multi-index."""
    total: Scalar = constant(0, int64)
    plain: Size = 0
    scalars: list[Scalar] = []
    for position, stride in zip(indices, strides, strict=True):
        expr = as_size(position)
        if expr is None:
            scalars.append(position * index(stride))
        else:
            plain = plain + expr * stride
    total = index(plain)
    for position in scalars:
        total = total + position
    return total


def as_size(term: Scalar) -> Size | None:
    """The size expression that a scalar is, or None when it depends on data."""
    if term.op is _INDEX:
        return term.attr("expr")
    if term.op.name == "constant" and term.type is int64:
        return term.attr("value")
    return None


def step_along(offset: Scalar, axis: SizeExpr) -> Size | None:
    """The change of an offset when an axis moves by one; None if it depends on data or on the position."""
    expr = as_size(offset)
    if expr is not None:
        return coefficient(expr, axis) if isinstance(expr, SizeExpr) else 0
    if offset.op is not _ADD:
        return None if axis in free_axes(offset) else 0
    one, other = (step_along(operand, axis) for operand in offset.operands)
    return None if one is None or other is None else one + other


def flat_position(axes: Iterable[SizeExpr], images: Mapping[SizeExpr, Size]) -> Size:
    """The row-major position among all values of some axes; axes without an image stand for themselves."""
    position: Size = 0
    for axis in axes:
        position = position * axis_size(axis) + images.get(axis, axis)
    return position


def at_position(position: Size, axes: Sequence[SizeExpr]) -> dict[SizeExpr, Size]:
    """The values of some axes at a flat position, the inverse of `flat_position`; at least one axis."""
    images: dict[SizeExpr, Size] = {}
    for axis in axes[:0:-1]:
        images[axis] = mod(position, axis_size(axis))
        position = floordiv(position, axis_size(axis))
    images[axes[0]] = position
    return images


def free_axes(term: Scalar) -> set[SizeExpr]:
    """The axes that a body depends on, without those bound inside it."""
    axes: set[SizeExpr] = set()
    bound: set[SizeExpr] = set()
    for part in postorder([term]):
        if part.op is _INDEX:
            axes.update([symbol for symbol in free_symbols(part.attr("expr")) if is_axis(symbol)])
        bound.update(bound_axes(part))
    return axes - bound


def fresh_axes(axes: Iterable[SizeExpr], name: str) -> dict[SizeExpr, SizeExpr]:
    """New axes of the same sizes, numbered."""
    return {axis: axis_symbol(axis_size(axis), f"{name}{position}") for position, axis in enumerate(axes)}

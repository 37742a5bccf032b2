"""The loops of a call on sizes that are symbols: what each element of a result is made of."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from rushlight.eager.execution.attributes import split_sizes, with_sizes
from rushlight.eager.execution.operands import structure_of, unflatten
from rushlight.ir.loops import Scatter
from rushlight.ir.scalar import OPS, Buffer, Scalar, bound_axes
from rushlight.ir.type import TensorType
from rushlight.ops.record import Operator
from rushlight.schedule.lower.lowering import BufferOperand, SharedAxes
from rushlight.sym import Scope, Size, SizeExpr, eq, product


class Bodies:
    """The loops of a call, on symbols."""

    def __init__(
        self,
        op: Operator,
        operands: tuple[object, ...],
        types: Sequence[TensorType],
        attrs: Mapping[str, object],
        aligned: bool,
    ) -> None:
        self.scope = Scope()
        self.symbols: list[SizeExpr] = []
        flat = [self._symbolic(type_) for type_ in types]
        _, sizes = split_sizes(op, attrs)
        self.attrs = dict(with_sizes(op, attrs, [self._symbol(size) for size in sizes]))
        if op.view_rule is not None and len(types) == 1:
            self._regroup(types[0].shape, flat[0].shape, attrs)
        if aligned:
            self._align(types, flat)
        structure = structure_of(operands)
        inferred = op.infer(unflatten(structure, flat), self.attrs)
        self.results: tuple[TensorType, ...] = inferred if isinstance(inferred, tuple) else (inferred,)
        self.buffers = [Buffer(f"p{position}", type_) for position, type_ in enumerate(flat)]
        views = [BufferOperand(buffer, buffer.type) for buffer in self.buffers]
        self.axes = SharedAxes()(self.results[0].shape)
        at = tuple([0 if size == 1 else axis for axis, size in zip(self.axes, self.results[0].shape, strict=True)])
        assert op.lower_rule is not None
        body = op.lower_rule(at, **op.named(unflatten(structure, views), self.attrs))
        self.bodies: tuple[Scalar | Scatter, ...] = body if isinstance(body, tuple) else (body,)
        read = {operand for operand, _ in Uses(self, self._roots()).loads}
        self.unread = frozenset(range(len(flat))) - read

    def _roots(self) -> list[Scalar]:
        roots: list[Scalar] = []
        for body in self.bodies:
            parts = (body.initial, body.value, *body.index) if isinstance(body, Scatter) else (body,)
            roots.extend([part for part in parts if isinstance(part, Scalar)])
        return roots

    def _symbol(self, size: int) -> SizeExpr:
        symbol = self.scope.symbol(f"n{len(self.symbols)}", hint=size)
        self.symbols.append(symbol)
        return symbol

    def _symbolic(self, type_: TensorType) -> TensorType:
        shape = tuple([1 if size == 1 else self._symbol(int(str(size))) for size in type_.shape])
        return TensorType(shape, type_.dtype, weak=type_.weak)

    def _align(self, types: Sequence[TensorType], flat: Sequence[TensorType]) -> None:
        """Takes sizes to be equal that are, in the same dim of operands of one rank."""
        first: dict[tuple[int, int, Size], Size] = {}
        for type_, symbolic in zip(types, flat, strict=True):
            for dim, size in enumerate(type_.shape):
                other = first.setdefault((len(type_.shape), dim, size), symbolic.shape[dim])
                self.scope.guard(eq(other, symbolic.shape[dim]))

    def _regroup(self, old: tuple[Size, ...], symbols: tuple[Size, ...], attrs: Mapping[str, object]) -> None:
        """Takes the sizes of a new shape to be made of the old ones, where an attribute is a new shape."""
        for name, value in attrs.items():
            new = self.attrs[name]
            if not isinstance(value, tuple) or not isinstance(new, tuple) or math.prod(value) != math.prod(old):
                continue
            for ours, theirs in _groups(old, value):
                self._relate([(old[dim], symbols[dim]) for dim in ours], [(value[dim], new[dim]) for dim in theirs])

    def _relate(self, ours: list[tuple[Any, Any]], theirs: list[tuple[Any, Any]]) -> None:
        ours = [pair for pair in ours if pair[0] != 1]
        theirs = [pair for pair in theirs if pair[0] != 1]
        for single, several in ((ours, theirs), (theirs, ours)):
            if len(single) == 1:
                self.scope.guard(eq(single[0][1], product([symbol for _, symbol in several])))
                return
        for (size, symbol), (other, partner) in ((ours[0], theirs[0]), (theirs[0], ours[0])) if ours else ():
            if other and size % other == 0:
                for inner, known in (*ours[1:], *theirs[1:]):
                    self.scope.guard(eq(known, inner))
                self.scope.guard(eq(symbol, partner * (size // other)))
                return

    def resolved(self, size: Size) -> Size:
        """A size by what is known of the symbols."""
        return self.scope.resolve(size)


def _groups(old: Sequence[Any], new: Sequence[Any]) -> Iterator[tuple[range, range]]:
    """Runs of dims, outermost first, that have as many places in both shapes."""
    i = j = 0
    while i < len(old) and j < len(new):
        start, begin, left, right = i, j, old[i], new[j]
        i, j = i + 1, j + 1
        while left != right and (i < len(old) or j < len(new)):
            if (left < right and i < len(old)) or j == len(new):
                left, i = left * old[i], i + 1
            else:
                right, j = right * new[j], j + 1
        yield range(start, i), range(begin, j)


class Uses:
    """What a scalar reads: elements of operands by index expressions, None where values decide; and bare indices."""

    def __init__(self, bodies: Bodies, roots: Iterable[Scalar]) -> None:
        self.loads: list[tuple[int, tuple[Size | None, ...]]] = []
        self.bare: list[Size] = []
        self.bound: set[SizeExpr] = set()
        numbers = {id(buffer): number for number, buffer in enumerate(bodies.buffers)}
        seen: set[int] = set()
        stack = list(roots)
        while stack:
            term = stack.pop()
            if id(term) in seen:
                continue
            seen.add(id(term))
            self.bound.update(bound_axes(term))
            if term.op is OPS["load"]:
                indices = [expression_of(operand) for operand in term.operands]
                found = tuple([None if index is None else bodies.resolved(index) for index in indices])
                self.loads.append((numbers[id(term.attr("buffer"))], found))
                stack.extend([one for one, index in zip(term.operands, indices, strict=True) if index is None])
            elif term.op is OPS["index"]:
                self.bare.append(bodies.resolved(term.attr("expr")))
            else:
                stack.extend(term.operands)


def expression_of(index: Scalar) -> Size | None:
    """An index as a size expression; None where values decide."""
    if index.op is OPS["index"]:
        return index.attr("expr")
    return index.attr("value") if index.op is OPS["constant"] else None

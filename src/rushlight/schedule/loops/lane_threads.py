"""Reductions by the threads of a block: one thread for each lane of the `Order`, joined through shared memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from rushlight.ir.dtype import DType, Kind, int64
from rushlight.ir.kernel import Axis, AxisKind, Barrier, Loop, Statement, Store, loops_in, stores_in
from rushlight.ir.scalar import (
    LANES,
    OPS,
    SEQUENTIAL,
    SUMS,
    WIDE_LANES,
    Buffer,
    Order,
    Scalar,
    apply,
    bound_axes,
    cast,
    constant,
    contract,
    guard,
    identity,
    index,
    load,
    reduce,
)
from rushlight.ir.type import TensorType
from rushlight.schedule.lower.rewrite import Index, Substitution, at_position, free_axes, rebuild
from rushlight.sym import (
    Size,
    SizeExpr,
    axis_size,
    axis_symbol,
    bounds,
    ceildiv,
    depends_on,
    maximum,
    minimum,
    product,
)
from rushlight.term import postorder

Body = tuple[Statement, ...]
_LOAD, _GUARD, _CONTRACT = OPS["load"], OPS["guard"], OPS["contract"]
_JOINS = {
    **dict.fromkeys(SUMS, "add"),
    "prod": "mul",
    "max": "maximum",
    "min": "minimum",
    "any": "or",
    "all": "and",
}


class LaneReductions:
    """Takes reductions out of a block's statements. A value that was computed before is not computed again."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._count = 0
        self._values: dict[Scalar, Scalar] = {}

    def any_in(self, body: Body) -> bool:
        """Whether some statements have a reduction for the threads of a block."""
        return any(True for _ in _candidates(stores_in(body)))

    def known(self) -> dict[Scalar, Scalar]:
        """What has been computed."""
        return dict(self._values)

    def restore(self, values: Mapping[Scalar, Scalar]) -> None:
        """Goes back to what had been computed."""
        self._values = dict(values)

    def forget(self, body: Body) -> None:
        """Forgets what was computed of memory that some statements write."""
        written = {store.buffer for store in stores_in(body)}
        self._values = {term: value for term, value in self._values.items() if not _reads(term, written)}

    def taken_out(self, body: Body, own: frozenset[SizeExpr]) -> tuple[Body, Body]:
        """What computes the reductions of some statements, and the statements with their results in place.

        Reductions that depend on the axes `own`, or on those of loops among the statements, stay.
        """
        inner = own | {loop.axis.symbol for loop in loops_in(body)}
        made: list[Statement] = []
        for term in _candidates(stores_in(body)):
            if term in self._values or free_axes(term) & inner:
                continue
            if any(depends_on(axis_size(axis), symbol) for axis in bound_axes(term) for symbol in inner):
                continue
            made += [*self._compute(term), Barrier()]
        return tuple(made), _replaced(body, self._values)

    def _shared(self, elements: int, dtype: DType) -> Buffer:
        self._count += 1
        return Buffer(f"shared{self._count}", TensorType((elements,), dtype), "shared")

    def _compute(self, term: Scalar) -> Body:
        """The loops that compute one reduction, whose result is recorded."""
        lanes = _Lanes(term, _image(term, self._values), self._shared)
        self._values[term] = load(lanes.result, 0)
        return lanes.body()


class _Lanes:
    """One reduction: its lanes in `partial`, the last of them in `wide`, and its `result` in shared memory."""

    def __init__(self, term: Scalar, image: Scalar, shared: Callable[[int, DType], Buffer]) -> None:
        self.term = image
        self.axes = bound_axes(image)
        self.count = product([axis_size(axis) for axis in self.axes])
        order: Order = term.attr("order")
        self.order = order if order.lanes > 1 else LANES
        self.block: Size = self.order.block if is_ordered(term) else self.count
        self.kind: str = term.attr("kind") if term.op is not _CONTRACT else "sum"
        narrow = image.operands[0].type if term.op is not _CONTRACT else term.type
        self.partial: Buffer = shared(self.order.lanes, narrow)
        self.wide: Buffer = self.partial if narrow is term.type else shared(WIDE_LANES, term.type)
        self.result: Buffer = shared(1, term.type)

    def body(self) -> Body:
        """The statements."""
        start = constant(identity(self.kind, self.result.type.dtype), self.result.type.dtype)
        if self.count == 0:
            return (_by_one(Store(self.result, 0, start)),)
        low, high = _bounds(self.count)
        single = isinstance(self.block, int) and high is not None and high <= self.block
        if single or not is_ordered(self.term):
            first = load(self.wide, 0)
            if self.term.op is _CONTRACT and self.result.type.dtype.kind is Kind.FLOAT:
                first = start + first
            if not low:
                first = guard(apply("lt", constant(0, int64), index(self.count)), first, start)
            return (*self._block(0, self.count), _by_one(Store(self.result, 0, first)))
        number = axis_symbol(ceildiv(self.count, self.block), "number")
        length = minimum(self.block, self.count - number * self.block)
        total = apply(_JOINS[self.kind], load(self.result, 0), load(self.wide, 0))
        loop = Loop(
            Axis(number, axis_size(number)),
            (*self._block(number * self.block, length), _by_one(Store(self.result, 0, total)), Barrier()),
        )
        return (_by_one(Store(self.result, 0, start)), Barrier(), loop)

    def _block(self, first: Size, length: Size) -> Body:
        """Reduces the elements from the flat position `first` to the first lane."""
        lanes = self.order.lanes
        threads = minimum(lanes, length)
        thread = axis_symbol(threads, "thread")
        steps = axis_symbol(ceildiv(length - thread, lanes), "step")
        images: dict[SizeExpr, Index] = dict(at_position(first + steps * lanes + thread, self.axes))
        at = Substitution(images)
        operands = [at(operand) for operand in self.term.operands]
        if self.term.op is _CONTRACT:
            value = contract((steps,), operands[0], operands[1], SEQUENTIAL)
        else:
            value = reduce(self.kind, (steps,), operands[0], SEQUENTIAL)
        store = Store(self.partial, thread, cast(value, self.partial.type.dtype))
        made: list[Statement] = [Loop(Axis(thread, threads, AxisKind.THREAD), (store,)), Barrier()]
        buffer, width = self.partial, lanes
        while width > 1:
            if width <= WIDE_LANES and buffer is not self.wide:
                made += [self._widen(length), Barrier()]
                buffer = self.wide
            width //= 2
            made += [self._halve(buffer, width, length), Barrier()]
        return tuple(made)

    def _widen(self, length: Size) -> Loop:
        threads = minimum(WIDE_LANES, length)
        thread = axis_symbol(threads, "thread")
        value = cast(load(self.partial, thread), self.wide.type.dtype)
        return Loop(Axis(thread, threads, AxisKind.THREAD), (Store(self.wide, thread, value),))

    def _halve(self, buffer: Buffer, half: int, length: Size) -> Loop:
        """Lane l takes lane l + half, where that has elements."""
        threads = maximum(0, minimum(half, length - half))
        thread = axis_symbol(threads, "thread")
        value = apply(_JOINS[self.kind], load(buffer, thread), load(buffer, thread + half))
        return Loop(Axis(thread, threads, AxisKind.THREAD), (Store(buffer, thread, value),))


def _by_one(store: Store) -> Loop:
    return Loop(Axis(axis_symbol(1, "thread"), 1, AxisKind.THREAD), (store,))


def is_ordered(term: Scalar) -> bool:
    """Whether the bits of a reduction depend on its order."""
    floating = term.type.kind is Kind.FLOAT
    return floating and (term.op is _CONTRACT or term.attr("kind") in (*SUMS, "prod"))


def _bounds(size: Size) -> tuple[int | None, int | None]:
    return (size, size) if isinstance(size, int) else bounds(size)


def _candidates(stores: Iterable[Store]) -> Iterator[Scalar]:
    """The reductions that the threads of a block may share, inner ones first."""
    roots = [part for store in stores for part in (store.value, store.where) if part is not None]
    always = postorder(roots, lambda term: (term.operands[0], term.operands[2]) if term.op is _GUARD else term.operands)
    inner: set[SizeExpr] = set()
    terms = list(always)
    for term in terms:
        inner.update(bound_axes(term))
    for term in terms:
        bound = bound_axes(term)
        if not bound or free_axes(term) & inner:
            continue
        if is_ordered(term) and term.attr("order").lanes == 1:
            continue
        if not any(depends_on(axis_size(axis), other) for axis in bound for other in inner):
            yield term


def _image(term: Scalar, values: Mapping[Scalar, Scalar]) -> Scalar:
    """A term with results in place of the reductions inside it."""
    operands = tuple([_result(operand, values) for operand in term.operands])
    return rebuild(term, operands)


def _result(term: Scalar, values: Mapping[Scalar, Scalar]) -> Scalar:
    images: dict[Scalar, Scalar] = {}
    for part in postorder([term], lambda inner: () if inner in values else inner.operands):
        if part in values:
            images[part] = values[part]
            continue
        operands = tuple([images[operand] for operand in part.operands])
        images[part] = part if operands == part.operands else rebuild(part, operands)
    return images[term]


def _replaced(body: Body, values: Mapping[Scalar, Scalar]) -> Body:
    made: list[Statement] = []
    for statement in body:
        if isinstance(statement, Loop):
            made.append(Loop(statement.axis, _replaced(statement.body, values)))
        elif isinstance(statement, Store):
            where = None if statement.where is None else _result(statement.where, values)
            value = _result(statement.value, values)
            made.append(Store(statement.buffer, statement.offset, value, statement.combine, where))
        else:
            made.append(statement)
    return tuple(made)


def _reads(term: Scalar, buffers: set[Buffer]) -> bool:
    return any(part.op is _LOAD and part.attr("buffer") in buffers for part in postorder([term]))

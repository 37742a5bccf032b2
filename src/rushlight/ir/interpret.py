"""Scalar bodies evaluated with numpy over whole index grids: what lowerings are checked against without a compiler.

Every loop axis of a body, outer or bound by a reduction, gets a dim of its own; a term's value has size 1 in the dims
that it does not depend on. Reductions follow their `Order` step by step and `fma` rounds once: results are bit-exact.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from rushlight.ir.dtype import DType, Kind, float32, integer_limits, rounded_array
from rushlight.ir.loops import Definition, Scatter, ScatterDefinition, axes_of
from rushlight.ir.scalar import WIDE_LANES, Buffer, Order, Scalar, bound_axes, identity, load
from rushlight.ir.type import TensorType
from rushlight.sym import Size, SizeExpr, axis_size, parts
from rushlight.term import postorder

Array = np.ndarray[Any, np.dtype[Any]]
Sizes = Mapping[SizeExpr, int]


class BufferOperand:
    """A buffer as a lowering rule sees an operand (`ir.loops.Operand`): indexing it loads."""

    __slots__ = ("buffer",)

    def __init__(self, buffer: Buffer) -> None:
        self.buffer = buffer

    @property
    def type(self) -> TensorType:
        """Shape, dtype and strides."""
        return self.buffer.type

    @property
    def shape(self) -> tuple[Size, ...]:
        """The sizes of its dims."""
        return self.buffer.type.shape

    @property
    def dtype(self) -> DType:
        """Its element type."""
        return self.buffer.type.dtype

    def __getitem__(self, index: Scalar | Size | tuple[Scalar | Size, ...]) -> Scalar:
        return load(self.buffer, *(index if isinstance(index, tuple) else (index,)))


def interpret(
    rule: Callable[..., Any],
    types: Sequence[object],
    arrays: Sequence[object],
    results: TensorType | tuple[TensorType, ...],
    attrs: Mapping[str, object] | None = None,
    sizes: Sizes | None = None,
) -> object:
    """A lowering rule called on operands and evaluated: the array, or the tuple of arrays, that it defines.

    `types` and `arrays` run in parallel over the operands: TensorTypes with arrays (or numbers), None for absent ones,
    and tuples for lists. `sizes` gives the values of symbols in shapes.
    """
    buffers: dict[Buffer, Array] = {}
    operands = [_operand(type_, array, buffers) for type_, array in zip(types, arrays, strict=True)]
    several = isinstance(results, tuple)
    result_types = results if isinstance(results, tuple) else (results,)
    axes = axes_of(result_types[0].shape)
    bodies = rule(axes, *operands, **(attrs or {}))
    defined: list[Array] = []
    for body, type_ in zip(bodies if isinstance(bodies, tuple) else (bodies,), result_types, strict=True):
        out = Buffer("out", type_)
        definition = ScatterDefinition(out, axes, body) if isinstance(body, Scatter) else Definition(out, axes, body)
        defined.append(evaluate_definition(definition, buffers, sizes))
    return tuple(defined) if several else defined[0]


def _operand(type_: Any, array: Any, buffers: dict[Buffer, Array]) -> object:
    if type_ is None:
        return None
    if isinstance(type_, tuple):
        return tuple([_operand(part, element, buffers) for part, element in zip(type_, array, strict=True)])
    buffer = Buffer(f"x{len(buffers)}", type_)
    buffers[buffer] = np.asarray(array, type_.dtype.numpy)
    return BufferOperand(buffer)


def evaluate_definition(
    definition: Definition | ScatterDefinition, buffers: Mapping[Buffer, Array], sizes: Sizes | None = None
) -> Array:
    """The array that a definition gives its buffer."""
    if isinstance(definition, Definition):
        return evaluate(definition.body, definition.axes, buffers, sizes)
    scatter = definition.scatter
    result = evaluate(scatter.initial, definition.axes, buffers, sizes).copy()
    grid = _Grid(
        (*scatter.axes,),
        [scatter.value, *[position_term for position_term in scatter.index if isinstance(position_term, Scalar)]],
        buffers,
        sizes,
    )
    shape = tuple([grid.extent(axis) for axis in scatter.axes])
    index = [
        _spread(
            grid.value(position_term) if isinstance(position_term, Scalar) else grid.size(position_term), shape
        ).ravel()
        for position_term in scatter.index
    ]
    value = _spread(grid.value(scatter.value), shape).ravel()
    inside = np.ones(value.shape, np.bool_)
    for positions, size, given in zip(index, result.shape, scatter.index, strict=True):
        fits = (positions >= 0) & (positions < size)
        if not isinstance(given, Scalar) and not fits.all():
            raise IndexError(f"write to {definition.buffer} outside a dim of size {size}")
        inside &= fits
    written = tuple([position_term[inside] for position_term in index])
    if scatter.combine == "set":
        result[written] = value[inside]
    else:
        _SCATTERS[scatter.combine].at(result, written, value[inside])
    return result


def evaluate(
    body: Scalar, axes: Sequence[SizeExpr], buffers: Mapping[Buffer, Array], sizes: Sizes | None = None
) -> Array:
    """The values of `body` for every index of `axes`, as an array with one dim per axis.

    `buffers` gives the arrays behind loads (one index per dim), `sizes` the values of symbols. A load outside its
    buffer raises IndexError unless it stands under a `guard`.
    """
    grid = _Grid(axes, [body], buffers, sizes)
    shape = tuple([grid.extent(axis) for axis in axes])
    with np.errstate(all="ignore"):
        return _spread(grid.value(body), shape).copy()


def evaluate_into(
    out: Array,
    index: Sequence[Size],
    body: Scalar,
    axes: Sequence[SizeExpr],
    buffers: Mapping[Buffer, Array],
    sizes: Sizes | None = None,
) -> None:
    """Writes the values of `body` for all of `axes` to the places in `out` that `index` has."""
    grid = _Grid(axes, [body], buffers, sizes)
    shape = tuple([grid.extent(axis) for axis in axes])
    with np.errstate(all="ignore"):
        value = _spread(grid.value(body), shape)
    out[tuple([_spread(grid.size(at), shape) for at in index])] = value


def extents(shape: Iterable[Size], sizes: Sizes) -> list[int]:
    """The sizes of dims, for values of symbols; the most where they depend on axes."""
    grid = _Grid((), (), {}, sizes)
    return [int(grid.size(size).max(initial=0)) for size in shape]


def cells(axes: Sequence[SizeExpr], roots: Sequence[Scalar], sizes: Sizes) -> int:
    """How many indices the grid of loops has, with the axes that reductions of their bodies bind."""
    grid = _Grid(axes, roots, {}, sizes)
    return math.prod([grid.extent(axis) for axis in grid.dims])


def _spread(value: Array, shape: tuple[int, ...]) -> Array:
    """A grid value for all of `shape`. A finished reduction leaves dims of bound axes at size 1."""
    return np.broadcast_to(value.reshape(value.shape[: len(shape)]), shape)


class _Grid:
    """The dims of all axes of some bodies, and the values found so far."""

    def __init__(
        self, axes: Sequence[SizeExpr], roots: Sequence[Scalar], buffers: Mapping[Buffer, Array], sizes: Sizes | None
    ) -> None:
        self.buffers = buffers
        self.sizes: dict[SizeExpr, int] = dict(sizes or {})
        self.memo: dict[Scalar, Array] = {}
        order = list(axes)
        for term in postorder(roots):
            order += [axis for axis in bound_axes(term) if axis not in order]
        self.dims = {axis: dim for dim, axis in enumerate(order)}
        self.guarded = _guarded_loads(roots)

    def extent(self, axis: SizeExpr) -> int:
        """The number of values an axis takes; the most it takes where that depends on other axes."""
        return int(self.size(axis_size(axis)).max(initial=0))

    def size(self, expr: Size) -> Array:
        """A size expression over the grid."""
        if isinstance(expr, int):
            return np.full((1,) * len(self.dims), expr, np.int64)
        if expr in self.sizes:
            return self.size(self.sizes[expr])
        if expr in self.dims:
            dim = self.dims[expr]
            shape = [1] * len(self.dims)
            shape[dim] = -1
            return np.arange(self.extent(expr), dtype=np.int64).reshape(shape)
        total = self.size(0)
        for coefficient, atoms in parts(expr):
            term = self.size(coefficient)
            for atom in atoms:
                term = term * (self._atom(atom) if atom is not expr else self._compound(atom))
            total = total + term
        return total

    def _atom(self, atom: SizeExpr) -> Array:
        return self.size(atom) if atom.op.name == "symbol" else self._compound(atom)

    def _compound(self, atom: SizeExpr) -> Array:
        name = atom.op.name
        if name == "symbol":
            raise KeyError(f"the value of size {atom} is not given")
        values = [self.size(operand) for operand in atom.operands]
        return _SIZE_FUNCTIONS[name](*values)

    def value(self, root: Scalar) -> Array:
        """A term's values over the grid."""
        for term in postorder([root]):
            if term not in self.memo:
                self.memo[term] = self._evaluate(term)
        return self.memo[root]

    def _evaluate(self, term: Scalar) -> Array:
        name = term.op.name
        operands = [self.memo[operand] for operand in term.operands]
        if name == "constant":
            return np.full((1,) * len(self.dims), term.attr("value"), term.type.numpy)
        if name == "index":
            return self.size(term.attr("expr"))
        if name == "load":
            return self._load(term, operands)
        if name == "cast":
            return cast_array(operands[0], term.type)
        if name == "bitcast":
            return operands[0].view(term.type.numpy)
        if name in ("reduce", "contract"):
            return self._reduce(term, operands)
        return _FUNCTIONS[name](*operands).astype(term.type.numpy, copy=False)

    def _load(self, term: Scalar, operands: list[Array]) -> Array:
        array = self.buffers[term.attr("buffer")]
        if not operands:
            return array.reshape((1,) * len(self.dims))
        position: list[Array] = []
        for operand, size in zip(operands, array.shape, strict=True):
            if term not in self.guarded and operand.size and (operand.min() < 0 or operand.max() >= size):
                raise IndexError(f"load from {term.attr('buffer')} outside a dim of size {size}")
            position.append(np.clip(operand, 0, max(size - 1, 0)))
        if array.size == 0:
            return np.zeros(np.broadcast_shapes(*[position_term.shape for position_term in position]), array.dtype)
        return array[tuple(position)]

    def _reduce(self, term: Scalar, operands: list[Array]) -> Array:
        dims = [self.dims[axis] for axis in bound_axes(term)]
        count = [self.extent(axis) for axis in bound_axes(term)]
        shape = list(np.broadcast_shapes(*[operand.shape for operand in operands]))
        for dim, size in zip(dims, count, strict=True):
            shape[dim] = size
        counted = self._counted(term, shape)
        if counted is not None:
            shape = list(counted.shape)
            counted = _lined_up(counted, dims)
        lined = [_lined_up(np.broadcast_to(operand, shape), dims) for operand in operands]
        if term.op.name == "reduce":
            kind = term.attr("kind")
            neutral = identity(kind, term.type)
            folded = fold(lined[0], neutral, _FOLDS[kind], term.attr("order"), counted, term.type.numpy)
        else:
            wide = [array.astype(term.type.numpy, copy=False) for array in lined]
            folded = fold_products(wide[0], wide[1], term.attr("order"), counted)
        kept = [1 if dim in dims else size for dim, size in enumerate(shape)]
        return folded.reshape(kept)

    def _counted(self, term: Scalar, shape: list[int]) -> Array | None:
        """Which elements a reduction over axes of varying length takes; None where all lengths are constant."""
        inside: Array | None = None
        for axis in bound_axes(term):
            size = self.size(axis_size(axis))
            if size.size > 1:
                within = self.size(axis) < size
                inside = within if inside is None else inside & within
        return None if inside is None else np.broadcast_to(inside, np.broadcast_shapes(inside.shape, tuple(shape)))


def _guarded_loads(roots: Sequence[Scalar]) -> frozenset[Scalar]:
    """Loads that are reached only through the first branch of a `guard`."""

    def unguarded(term: Scalar) -> Iterable[Scalar]:
        return (term.operands[0], term.operands[2]) if term.op.name == "guard" else term.operands

    free = set(postorder(roots, unguarded))
    return frozenset([term for term in postorder(roots) if term.op.name == "load" and term not in free])


def _lined_up(value: Array, dims: list[int]) -> Array:
    """The reduced dims moved to the end, in their order, and flattened."""
    moved = np.moveaxis(value, dims, range(value.ndim - len(dims), value.ndim))
    kept = moved.shape[: value.ndim - len(dims)]
    return moved.reshape((*kept, int(np.prod(moved.shape[len(kept) :], dtype=np.int64))))


def fold(
    values: Array,
    identity: float,
    combine: Callable[[Array, Array], Array],
    order: Order,
    counted: Array | None = None,
    total: np.dtype[Any] | None = None,
) -> Array:
    """Reduces the last dim of `values` in exactly the given order, without elements not `counted`.

    `total` is the dtype of the result, where that is wider than that of the values.
    """

    def step(accumulator: Array, start: int, stop: int) -> Array:
        return combine(accumulator, values[..., start:stop])

    dtypes = values.dtype, total or values.dtype
    return _fold_blocks(values.shape, dtypes, identity, step, combine, order, counted)


def fold_products(a: Array, b: Array, order: Order, counted: Array | None = None) -> Array:
    """The sum over the last dim of a*b: chains of fma for floats, joined as `order` says."""

    def step(accumulator: Array, start: int, stop: int) -> Array:
        return multiply_add(a[..., start:stop], b[..., start:stop], accumulator)

    return _fold_blocks(a.shape, (a.dtype, a.dtype), a.dtype.type(0), step, np.add, order, counted)


def _fold_blocks(
    shape: tuple[int, ...],
    dtypes: tuple[np.dtype[Any], np.dtype[Any]],
    identity: float,
    step: Callable[[Array, int, int], Array],
    combine: Callable[[Array, Array], Array],
    order: Order,
    counted: Array | None,
) -> Array:
    *kept, count = shape
    dtype, wide = dtypes
    total = np.full(kept, identity, wide)
    for begin in range(0, count, order.block):
        end = min(begin + order.block, count)
        block = np.full(kept, identity, dtype)
        for first in range(begin, end, order.lanes * order.chain):
            lanes = np.full((*kept, order.lanes), identity, dtype)
            for start in range(first, min(first + order.lanes * order.chain, end), order.lanes):
                stop = min(start + order.lanes, end)
                old = lanes[..., : stop - start]
                new = step(old, start, stop)
                lanes[..., : stop - start] = new if counted is None else np.where(counted[..., start:stop], new, old)
            while lanes.shape[-1] > 1:
                if lanes.shape[-1] <= WIDE_LANES:
                    lanes = lanes.astype(wide, copy=False)
                half = lanes.shape[-1] // 2
                lanes = combine(lanes[..., :half], lanes[..., half:])
            run = lanes[..., 0]
            block = run if first == begin else _joined(combine, block, run, counted, first)
        total = _joined(combine, total, block, counted, begin)
    return total


def _joined(
    combine: Callable[[Array, Array], Array], total: Array, part: Array, counted: Array | None, first: int
) -> Array:
    """A part of a reduction folded into its total, where the part has elements: it begins with the first one."""
    joined = combine(total, part)
    return joined if counted is None else np.where(counted[..., first], joined, total)


def cast_array(value: Array, dtype: DType) -> Array:
    """The scalar language's `cast`: floats truncate and saturate to integers, NaN gives 0, bool is `!= 0`."""
    if dtype.kind is Kind.BOOL:
        return value != 0
    if dtype.kind is Kind.INT and value.dtype.kind not in "iub":
        low_limit, high_limit = integer_limits(dtype)
        wide = np.trunc(np.nan_to_num(value.astype(np.float64), nan=0.0, posinf=np.inf, neginf=-np.inf))
        low, high = wide < float(low_limit), wide >= float(high_limit)
        exact = np.where(low | high, 0.0, wide).astype(dtype.numpy)
        return np.where(low, low_limit, np.where(high, high_limit, exact)).astype(dtype.numpy)
    return rounded_array(value, dtype) if dtype.kind is Kind.FLOAT else value.astype(dtype.numpy)


def multiply_add(a: Array, b: Array, c: Array) -> Array:
    """a*b + c with one rounding, on arrays; integers wrap."""
    if a.dtype.kind != "f":
        return a * b + c
    if a.dtype == float32.numpy:
        product = a.astype(np.float64) * b.astype(np.float64)
        return _add_to_odd(product, c.astype(np.float64)).astype(np.float32)
    # Boldo and Melquiond, "Emulation of FMA and correctly rounded sums" (2008); plain where a part is extreme.
    high, low = _exact_product(a, b)
    upper, lower = _exact_sum(np.asarray(c), low)
    top, rest = _exact_sum(high, upper)
    result = top + _add_to_odd(lower, rest)
    ordinary = (
        np.isfinite(result)
        & (np.abs(high) > 1e-270)
        & (np.abs(high) < 1e290)
        & (np.abs(a) < 1e290)
        & (np.abs(b) < 1e290)
    )
    return np.where(ordinary, result, a * b + c)


def _exact_sum(a: Array, b: Array) -> tuple[Array, Array]:
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def _exact_product(a: Array, b: Array) -> tuple[Array, Array]:
    def split(x: Array) -> tuple[Array, Array]:
        scaled = 134217729.0 * x
        high = scaled - (scaled - x)
        return high, x - high

    product = a * b
    (a1, a2), (b1, b2) = split(a), split(b)
    return product, ((a1 * b1 - product) + a1 * b2 + a2 * b1) + a2 * b2


def _add_to_odd(a: Array, b: Array) -> Array:
    """a + b rounded to odd, so that a second rounding to a narrower type is as if it were the only one."""
    total, rest = _exact_sum(a, b)
    total, rest = np.broadcast_arrays(total, rest)
    bits = np.ascontiguousarray(total).view(np.int64)
    inexact = np.isfinite(total) & (rest != 0) & np.isfinite(rest) & ((bits & 1) == 0)
    toward = np.where((rest > 0) == (total > 0), 1, -1)
    return np.where(inexact, bits + toward, bits).view(np.float64)


def minimum_array(a: Array, b: Array) -> Array:
    """The scalar language's `minimum`: NaN if one is, and -0.0 before +0.0."""
    lower = np.minimum(a, b)
    return np.where(a == b, np.where(np.signbit(a), a, b), lower) if lower.dtype.kind == "f" else lower


def maximum_array(a: Array, b: Array) -> Array:
    """The scalar language's `maximum`: NaN if one is, and -0.0 before +0.0."""
    upper = np.maximum(a, b)
    return np.where(a == b, np.where(np.signbit(a), b, a), upper) if upper.dtype.kind == "f" else upper


def _divide_integers(function: Callable[[Array, Array], Array]) -> Callable[[Array, Array], Array]:
    def checked(a: Array, b: Array) -> Array:
        if a.dtype.kind == "f":
            return function(a, b)
        return np.where(b == 0, 0, function(a, np.where(b == 0, 1, b)))

    return checked


def _shift(function: Callable[[Array, Array], Array]) -> Callable[[Array, Array], Array]:
    def checked(a: Array, b: Array) -> Array:
        width = a.dtype.itemsize * 8
        count = b.astype(np.uint64) if b.dtype.kind == "u" else np.where(b < 0, width, b).astype(np.uint64)
        shifted = function(a, np.minimum(count, np.uint64(width - 1)).astype(a.dtype))
        filled = function(shifted, np.ones_like(a)) if function is np.left_shift else np.where(a < 0, -1, 0)
        if function is np.left_shift:
            filled = np.zeros_like(a)
        return np.where(count >= width, filled, shifted)

    return checked


def _high_product(a: Array, b: Array) -> Array:
    bits = a.dtype.itemsize * 8
    if bits < 64:
        return ((a.astype(np.uint64) * b.astype(np.uint64)) >> np.uint64(bits)).astype(a.dtype)
    half, mask = np.uint64(32), np.uint64(0xFFFFFFFF)
    a1, a0, b1, b0 = a >> half, a & mask, b >> half, b & mask
    middle = a1 * b0 + ((a0 * b0) >> half)
    return a1 * b1 + (middle >> half) + (((middle & mask) + a0 * b1) >> half)


def _invert(a: Array) -> Array:
    return np.logical_not(a) if a.dtype.kind == "b" else np.invert(a)


def _python_remainder(a: Array, b: Array) -> Array:
    rest = np.fmod(a, b)
    return (
        np.where((rest != 0) & ((rest < 0) != (b < 0)), rest + b, rest) if a.dtype.kind == "f" else np.remainder(a, b)
    )


_SIZE_FUNCTIONS: dict[str, Callable[..., Array]] = {"floordiv": np.floor_divide, "min": np.minimum, "max": np.maximum}
_FUNCTIONS: dict[str, Callable[..., Array]] = {
    "neg": np.negative,
    "abs": np.abs,
    "sqrt": np.sqrt,
    "floor": np.floor,
    "ceil": np.ceil,
    "trunc": np.trunc,
    "round_even": np.rint,
    "not": _invert,
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "floordiv": _divide_integers(np.floor_divide),
    "remainder": _divide_integers(_python_remainder),
    "minimum": minimum_array,
    "maximum": maximum_array,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "shl": _shift(np.left_shift),
    "shr": _shift(np.right_shift),
    "mulhi": _high_product,
    "scale": lambda x, n: np.ldexp(x, np.where(np.isfinite(n), n, 0).astype(np.int32)) * np.where(np.isnan(n), n, 1),
    "lt": np.less,
    "le": np.less_equal,
    "eq": np.equal,
    "ne": np.not_equal,
    "complex": lambda real, imag: real + 1j * imag,
    "real": np.real,
    "imag": np.imag,
    "fma": multiply_add,
    "select": np.where,
    "guard": np.where,
}
_SCATTERS: dict[str, np.ufunc] = {
    "sum": np.add,
    "signed_sum": np.add,
    "prod": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
}
_FOLDS: dict[str, Callable[[Array, Array], Array]] = {
    "sum": np.add,
    "signed_sum": np.add,
    "prod": np.multiply,
    "max": maximum_array,
    "min": minimum_array,
    "any": np.logical_or,
    "all": np.logical_and,
}

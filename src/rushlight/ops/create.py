"""Tensors made from nothing: constants, ranges, a size as a value. Each is one scalar per index, so it fuses."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from rushlight.ir.dtype import (
    DType,
    Kind,
    bool_,
    complex64,
    complex128,
    compute_dtype,
    float32,
    float64,
    int64,
    real_dtype,
)
from rushlight.ir.loops import Operand
from rushlight.ir.scalar import Scalar, apply, cast, constant, index, lift, select
from rushlight.ir.type import CPU, Device, TensorType
from rushlight.ir.value import Value
from rushlight.ops.dims import Array, At, Shape, convert, normal
from rushlight.ops.pointwise.definition import array_type
from rushlight.ops.promote import DEFAULT_FLOAT, pointwise_strides
from rushlight.ops.record import OPERATORS, Fact, Gradients, Sample, define
from rushlight.support.errors import require
from rushlight.sym import Size, ceildiv, ge, maximum, ne, required

CREATION = Fact.NONDIFFERENTIABLE

full = define(
    "full(Size[] size, Tensor fill_value, *, DType? dtype=None, Device? device=None) -> Tensor",
    "A tensor of one value. A Python number as the value gives bool, int64 or the default float.",
    facts=Fact.FITTING,
    variants="function",
)


def _number_dtype(type_: TensorType) -> DType:
    if not type_.weak:
        return type_.dtype
    return DEFAULT_FLOAT if type_.dtype.kind is Kind.FLOAT else type_.dtype


def _require_sizes(size: Shape, op: str) -> None:
    for extent in size:
        require(required(ge(extent, 0)), "S007", f"{op}: a size is negative", size=size)


@full.meta
def full_meta(size: Shape, fill_value: TensorType, dtype: DType | None, device: Device | None) -> TensorType:
    _require_sizes(size, "full")
    return TensorType(size, dtype or _number_dtype(fill_value), device or fill_value.device)


@full.ref
def full_ref(size: tuple[int, ...], fill_value: ArrayLike, dtype: DType | None, device: Device | None) -> Array:
    dtype_ = dtype or _number_dtype(array_type(fill_value))
    return np.full(size, np.asarray(fill_value).astype(dtype_.numpy))


@full.lower
def full_lower(at: At, size: Shape, fill_value: Operand, dtype: DType | None, device: Device | None) -> Scalar:
    return cast(fill_value[()], dtype or _number_dtype(fill_value.type))


@full.vjp
def full_vjp(g: Value, fill_value: Value) -> Value | None:
    return _constant_gradient(g, fill_value)


def _constant_gradient(g: Value, fill_value: object) -> Value | None:
    # A Python number, which has no gradient, stays a number outside graphs.
    return convert(OPERATORS["sum"](g), fill_value.dtype) if isinstance(fill_value, Value) else None


@full.samples
def full_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample((2, 3), 1.5)
    yield Sample((4,), 7)
    yield Sample((), True)
    yield Sample((2, 0), 1, dtype=float64)
    yield Sample((2, 2), normal(rng))


def filled(world: Value, shape: Shape, number: complex, dtype: DType | None = None) -> Value:
    """Return a tensor filled with `number`, in the world and on the device of the value `world`.

    It has that value's dtype unless one is given.
    """
    attrs = {"size": tuple(shape), "dtype": dtype or world.dtype, "device": world.device}
    return world.apply(full, (number,), attrs)


def zeros_of(world: Value, shape: Shape, dtype: DType | None = None) -> Value:
    """Zeros in the world and on the device of another value, of its dtype unless one is given."""
    return filled(world, shape, 0, dtype)


from_size = define(
    "from_size(Size size, *, Device? device=None) -> Tensor",
    "A size as a value that mixes with tensors as a Python int does.",
    variants="",
    facts=CREATION,
)


@from_size.meta
def from_size_meta(size: Size, device: Device | None) -> TensorType:
    return TensorType((), int64, device or CPU, weak=True)


@from_size.ref
def from_size_ref(size: int, device: Device | None) -> Array:
    return np.array(size, np.int64)


@from_size.lower
def from_size_lower(at: At, size: Size, device: Device | None) -> Scalar:
    return index(size)


@from_size.samples
def from_size_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(5)


def count_of(world: Value, size: Size) -> Value | int:
    """A size to calculate with in operators: a plain int, or where it is symbolic a value in the world of another."""
    return size if isinstance(size, int) else world.apply(from_size, (), {"size": size, "device": world.device})


zeros = define(
    "zeros(Size[] size, *, DType? dtype=None, Device? device=None) -> Tensor",
    "Zeros.",
    variants="function",
    facts=CREATION,
)


def _created(size: Shape, dtype: DType | None, device: Device | None, op: str) -> TensorType:
    _require_sizes(size, op)
    return TensorType(size, dtype or DEFAULT_FLOAT, device or CPU)


@zeros.meta
def zeros_meta(size: Shape, dtype: DType | None, device: Device | None) -> TensorType:
    return _created(size, dtype, device, "zeros")


@zeros.ref
def zeros_ref(size: tuple[int, ...], dtype: DType | None, device: Device | None) -> Array:
    return np.zeros(size, (dtype or DEFAULT_FLOAT).numpy)


@zeros.lower
def zeros_lower(at: At, size: Shape, dtype: DType | None, device: Device | None) -> Scalar:
    return constant(0, dtype or DEFAULT_FLOAT)


@zeros.samples
def zeros_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample((2, 3))
    yield Sample((), dtype=int64)


ones = define(
    "ones(Size[] size, *, DType? dtype=None, Device? device=None) -> Tensor",
    "Ones.",
    variants="function",
    facts=CREATION,
)


@ones.meta
def ones_meta(size: Shape, dtype: DType | None, device: Device | None) -> TensorType:
    return _created(size, dtype, device, "ones")


@ones.ref
def ones_ref(size: tuple[int, ...], dtype: DType | None, device: Device | None) -> Array:
    return np.ones(size, (dtype or DEFAULT_FLOAT).numpy)


@ones.lower
def ones_lower(at: At, size: Shape, dtype: DType | None, device: Device | None) -> Scalar:
    return constant(1, dtype or DEFAULT_FLOAT)


@ones.samples
def ones_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample((2, 3))
    yield Sample((3,), dtype=bool_)


empty = define(
    "empty(Size[] size, *, DType? dtype=None, Device? device=None) -> Tensor",
    "A tensor whose values are not promised; in graphs they are zeros.",
    variants="function",
    facts=CREATION,
)


@empty.meta
def empty_meta(size: Shape, dtype: DType | None, device: Device | None) -> TensorType:
    return _created(size, dtype, device, "empty")


@empty.ref
def empty_ref(size: tuple[int, ...], dtype: DType | None, device: Device | None) -> Array:
    return np.zeros(size, (dtype or DEFAULT_FLOAT).numpy)


@empty.lower
def empty_lower(at: At, size: Shape, dtype: DType | None, device: Device | None) -> Scalar:
    return constant(0, dtype or DEFAULT_FLOAT)


@empty.samples
def empty_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample((2, 3))


full_like = define(
    "full_like(Tensor input, Tensor fill_value, *, DType? dtype=None, Device? device=None) -> Tensor",
    "One value in the shape, dtype and device of another tensor.",
    facts=Fact.FITTING | Fact.STORED,
    variants="function",
)


def _like(input: TensorType, dtype: DType | None, device: Device | None) -> TensorType:
    strides = pointwise_strides([input], input.shape)
    return TensorType(input.shape, dtype or input.dtype, device or input.device, strides)


@full_like.meta
def full_like_meta(input: TensorType, fill_value: TensorType, dtype: DType | None, device: Device | None) -> TensorType:
    return _like(input, dtype, device)


@full_like.ref
def full_like_ref(input: Array, fill_value: ArrayLike, dtype: DType | None, device: Device | None) -> Array:
    return np.full(input.shape, np.asarray(fill_value).astype(dtype.numpy if dtype else input.dtype))


@full_like.lower
def full_like_lower(at: At, input: Operand, fill_value: Operand, dtype: DType | None, device: Device | None) -> Scalar:
    return cast(fill_value[()], dtype or input.dtype)


@full_like.vjp
def full_like_vjp(g: Value, fill_value: Value) -> Gradients:
    return None, _constant_gradient(g, fill_value)


@full_like.samples
def full_like_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 2, 3), 2.5)
    yield Sample(normal(rng, 2, 3), 2, dtype=int64)


zeros_like = define(
    "zeros_like(Tensor input, *, DType? dtype=None, Device? device=None) -> Tensor",
    "Zeros in the shape, dtype and device of another tensor.",
    variants="function",
    facts=CREATION | Fact.STORED,
)


@zeros_like.decompose
def zeros_like_decompose(input: Value, dtype: DType | None, device: Device | None) -> Value:
    return full_like(input, 0, dtype=dtype, device=device)


@zeros_like.ref
def zeros_like_ref(input: Array, dtype: DType | None, device: Device | None) -> Array:
    return full_like_ref(input, 0, dtype, device)


@zeros_like.samples
def zeros_like_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 2, 3))


ones_like = define(
    "ones_like(Tensor input, *, DType? dtype=None, Device? device=None) -> Tensor",
    "Ones in the shape, dtype and device of another tensor.",
    variants="function",
    facts=CREATION | Fact.STORED,
)


@ones_like.decompose
def ones_like_decompose(input: Value, dtype: DType | None, device: Device | None) -> Value:
    return full_like(input, 1, dtype=dtype, device=device)


@ones_like.ref
def ones_like_ref(input: Array, dtype: DType | None, device: Device | None) -> Array:
    return full_like_ref(input, 1, dtype, device)


@ones_like.samples
def ones_like_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 2, 3), dtype=bool_)


empty_like = define(
    "empty_like(Tensor input, *, DType? dtype=None, Device? device=None) -> Tensor",
    "Unpromised values in the shape, dtype and device of another tensor; in graphs they are zeros.",
    variants="function",
    facts=CREATION | Fact.STORED,
)


@empty_like.decompose
def empty_like_decompose(input: Value, dtype: DType | None, device: Device | None) -> Value:
    return full_like(input, 0, dtype=dtype, device=device)


@empty_like.ref
def empty_like_ref(input: Array, dtype: DType | None, device: Device | None) -> Array:
    return full_like_ref(input, 0, dtype, device)


@empty_like.samples
def empty_like_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 2, 3))


arange = define(
    "arange(Size start, Size end, Size step=1, *, DType? dtype=None, Device? device=None) -> Tensor",
    "start, start + step, ... before end, of ints and sizes: int64 unless a dtype is given.",
    variants="function",
    facts=CREATION,
)


def _range_count(start: Size, end: Size, step: Size) -> Size:
    require(required(ne(step, 0)), "A002", "arange: step must not be 0")
    if isinstance(step, int) and step < 0:
        return maximum(ceildiv(start - end, -step), 0)
    return maximum(ceildiv(end - start, step), 0)


@arange.meta
def arange_meta(start: Size, end: Size, step: Size, dtype: DType | None, device: Device | None) -> TensorType:
    return TensorType((_range_count(start, end, step),), dtype or int64, device or CPU)


@arange.ref
def arange_ref(start: Size, end: Size, step: Size, dtype: DType | None, device: Device | None) -> Array:
    count: Any = _range_count(start, end, step)
    return (start + np.arange(count) * step).astype((dtype or int64).numpy)


@arange.lower
def arange_lower(at: At, start: Size, end: Size, step: Size, dtype: DType | None, device: Device | None) -> Scalar:
    return cast(index(start + at[0] * step), dtype or int64)


@arange.samples
def arange_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(0, 5)
    yield Sample(7, -2, -3)
    yield Sample(1, 4, dtype=float32)
    yield Sample(3, 3)


arange_float = define(
    "arange.float(Tensor start, Tensor step, Size count, *, DType? dtype=None, Device? device=None) -> Tensor",
    "start, start + step, ...: `count` of them, computed in float64.",
    variants="",
    facts=CREATION,
)


@arange_float.meta
def arange_float_meta(
    start: TensorType, step: TensorType, count: Size, dtype: DType | None, device: Device | None
) -> TensorType:
    return TensorType((count,), dtype or DEFAULT_FLOAT, device or CPU)


@arange_float.ref
def arange_float_ref(start: Array, step: Array, count: int, dtype: DType | None, device: Device | None) -> Array:
    return (np.float64(start) + np.arange(count) * np.float64(step)).astype((dtype or DEFAULT_FLOAT).numpy)


@arange_float.lower
def arange_float_lower(
    at: At, start: Operand, step: Operand, count: Size, dtype: DType | None, device: Device | None
) -> Scalar:
    # In float64, as PyTorch does on the CPU, so that long float32 ranges do not drift.
    first, stride = cast(start[()], float64), cast(step[()], float64)
    return cast(first + cast(index(at[0]), float64) * stride, dtype or DEFAULT_FLOAT)


@arange_float.samples
def arange_float_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(0.0, 0.1, 10)
    yield Sample(2.5, -1, 3, dtype=float64)
    yield Sample(1, 0.75, 4, dtype=int64)


def positions(world: Value, size: Size) -> Value:
    """0, 1, ... size-1 as int64 in the world and on the device of another value."""
    return world.apply(arange, (), {"start": 0, "end": size, "step": 1, "dtype": int64, "device": world.device})


linspace = define(
    "linspace(Tensor start, Tensor end, Size steps, *, DType? dtype=None, Device? device=None) -> Tensor",
    "Evenly spaced numbers from start to end, both included; complex ones where an end is.",
    variants="function",
    facts=CREATION,
)


def _spaced_dtype(start: TensorType, end: TensorType, dtype: DType | None) -> DType:
    complex_end = start.dtype.is_complex or end.dtype.is_complex
    result = dtype or (complex64 if complex_end else DEFAULT_FLOAT)
    fits = result.is_complex or not complex_end
    require(fits, "D007", f"linspace: {result.name} cannot hold a complex end", start=start, end=end)
    return result


@linspace.meta
def linspace_meta(
    start: TensorType, end: TensorType, steps: Size, dtype: DType | None, device: Device | None
) -> TensorType:
    require(not start.shape and not end.shape, "S002", "linspace: the ends have no dims", start=start, end=end)
    require(required(ge(steps, 0)), "A002", "linspace: steps must not be negative", steps=steps)
    return TensorType((steps,), _spaced_dtype(start, end, dtype), device or CPU)


@linspace.ref
def linspace_ref(start: Array, end: Array, steps: int, dtype: DType | None, device: Device | None) -> Array:
    if dtype and dtype.is_integer:
        start, end = np.trunc(start), np.trunc(end)
    numbers = np.linspace(start, end, steps)
    wanted = _spaced_dtype(array_type(start), array_type(end), dtype)
    return (np.trunc(numbers) if wanted.is_integer else numbers).astype(wanted.numpy)


@linspace.lower
def linspace_lower(
    at: At, start: Operand, end: Operand, steps: Size, dtype: DType | None, device: Device | None
) -> Scalar:
    # Ends are truncated to integers.
    wanted = _spaced_dtype(start.type, end.type, dtype)
    ends = [cast(operand[()], wanted) if wanted.is_integer else operand[()] for operand in (start, end)]
    if not wanted.is_complex:
        return cast(_spaced(at, ends, steps), wanted)
    ends = [cast(one, complex128) for one in ends]
    parts = [_spaced(at, [apply(part, one) for one in ends], steps) for part in ("real", "imag")]
    return cast(apply("complex", *parts), wanted)


def _spaced(at: At, ends: Sequence[Scalar], steps: Size) -> Scalar:
    # From both ends towards the middle, as PyTorch does, so that both ends are exact.
    first, last = [cast(one, float64) for one in ends]
    gaps = lift(maximum(steps - 1, 1), float64)
    stride = (last - first) / gaps
    forward = first + stride * cast(index(at[0]), float64)
    backward = last - stride * cast(index(steps - 1 - at[0]), float64)
    in_first_half = index(at[0] * 2) < index(maximum(steps, 2))
    return select(in_first_half, forward, backward)


@linspace.samples
def linspace_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(0.0, 1.0, 7)
    yield Sample(-3, 3, 4, dtype=float64)
    yield Sample(2.0, 5.0, 1)
    yield Sample(4.3, 50.0, 50, dtype=int64)
    yield Sample(1j, 2.0, 5)
    yield Sample(0.5, 2 - 3j, 4, dtype=complex128)


eye = define(
    "eye(Size n, Size? m=None, *, DType? dtype=None, Device? device=None) -> Tensor",
    "Ones on the diagonal, zeros elsewhere.",
    variants="function",
    facts=CREATION,
)


@eye.meta
def eye_meta(n: Size, m: Size | None, dtype: DType | None, device: Device | None) -> TensorType:
    return _created((n, n if m is None else m), dtype, device, "eye")


@eye.ref
def eye_ref(n: int, m: int | None, dtype: DType | None, device: Device | None) -> Array:
    return np.eye(n, m, dtype=(dtype or DEFAULT_FLOAT).numpy)


@eye.lower
def eye_lower(at: At, n: Size, m: Size | None, dtype: DType | None, device: Device | None) -> Scalar:
    chosen = dtype or DEFAULT_FLOAT
    on_diagonal = index(at[0]).equals(index(at[1]))
    real = real_dtype(compute_dtype(chosen))
    return cast(select(on_diagonal, constant(1, real), constant(0, real)), chosen)


@eye.samples
def eye_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(3)
    yield Sample(2, 4, dtype=int64)
    yield Sample(3, dtype=complex64)

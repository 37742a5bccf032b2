"""Random numbers. Each depends on (seed, ordinal of the call, logical index of the element) and on nothing else.

Operators with Fact.RANDOM take `seed` and `ordinal` as operands, two integers (64 bits, as signed ones). Where a caller
gives none, whoever runs the operator fills them in from a generator before anything records the call, so a gradient or
a recomputation that is called with the same two sees the same numbers.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from rushlight.ir.dtype import (
    DType,
    Kind,
    complex64,
    complex128,
    compute_dtype,
    float32,
    float64,
    int64,
    real_dtype,
    uint32,
    uint64,
)
from rushlight.ir.loops import Operand
from rushlight.ir.scalar import Scalar, apply, bitcast, cast, index
from rushlight.ir.type import CPU, Device, TensorType
from rushlight.ir.value import Value
from rushlight.ops.math import philox
from rushlight.ops.math.philox import UNIFORM_BITS, Words
from rushlight.ops.pointwise.definition import Array, At, element, sample_array
from rushlight.ops.pointwise.selection import clone, to_dtype, where
from rushlight.ops.promote import DEFAULT_FLOAT
from rushlight.ops.record import Fact, Gradients, Operator, Sample, define
from rushlight.ops.reduce.reduction import sum_
from rushlight.ops.reduce.scan import cumsum
from rushlight.ops.split import narrow
from rushlight.ops.view.reorder import unsqueeze
from rushlight.support.errors import require
from rushlight.sym import Size

# A seed or an ordinal, as rules on values and rules on arrays receive it.
Draw: TypeAlias = Value | int | None
ArrayDraw: TypeAlias = ArrayLike | None

_FACTS = Fact.RANDOM | Fact.NONDIFFERENTIABLE
_STATE = "Tensor? seed=None, Tensor? ordinal=None"


def _check_draw(op: Operator, seed: TensorType, ordinal: TensorType) -> None:
    for name, type_ in (("seed", seed), ("ordinal", ordinal)):
        fits = not type_.shape and type_.dtype.kind <= Kind.INT
        require(fits, "A001", f"{op.name}: {name} must be an int", given=type_)


def _words(at: At, shape: tuple[Size, ...], seed: Operand, ordinal: Operand) -> Words:
    position: Size = 0
    for axis, size in zip(at, shape, strict=True):
        position = position * size + axis
    return philox.words_of(element(seed, ()), element(ordinal, ()), index(position))


def _array_words(shape: tuple[int, ...], seed: object, ordinal: object) -> philox.ArrayWords:
    words = philox.words_of_array(_unsigned(seed), _unsigned(ordinal), math.prod(shape))
    a, b, c, d = [word.reshape(shape) for word in words]
    return a, b, c, d


def _unsigned(value: object) -> int:
    return int(np.asarray(value).item()) & ((1 << 64) - 1)


def _joined(low: Array, high: Array) -> Array:
    return low.astype(np.uint64) | (high.astype(np.uint64) << np.uint64(32))


def _require_float(op: Operator, dtype: DType) -> DType:
    valid = real_dtype(dtype) in UNIFORM_BITS
    require(valid, "D001", f"{op.name}: the dtype must be floating-point or complex", dtype=dtype)
    return dtype


random_bits = define(
    f"random_bits(Size[] size, *, {_STATE}, DType? dtype=None, Device? device=None) -> Tensor",
    "Random bits, 32 or 64 of them by dtype: uint32 or uint64.",
    facts=_FACTS,
    variants="",
)


@random_bits.meta
def random_bits_meta(
    size: tuple[Size, ...], seed: TensorType, ordinal: TensorType, dtype: DType | None, device: Device | None
) -> TensorType:
    _check_draw(random_bits, seed, ordinal)
    valid = dtype in (None, uint32, uint64)
    require(valid, "D001", "random_bits: the dtype must be uint32 or uint64", dtype=dtype)
    return TensorType(size, dtype or uint32, device or CPU)


@random_bits.ref
def random_bits_ref(
    size: tuple[int, ...], seed: ArrayDraw, ordinal: ArrayDraw, dtype: DType | None, device: Device | None
) -> Array:
    words = _array_words(size, seed, ordinal)
    return _joined(words[0], words[1]) if dtype is uint64 else words[0]


@random_bits.lower
def random_bits_lower(
    at: At, size: tuple[Size, ...], seed: Operand, ordinal: Operand, dtype: DType | None, device: Device | None
) -> Scalar:
    words = _words(at, size, seed, ordinal)
    return philox.joined(words[0], words[1]) if dtype is uint64 else words[0]


@random_bits.samples
def random_bits_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample((3, 5), seed=42, ordinal=7)
    yield Sample((7,), seed=-1, ordinal=1 << 40, dtype=uint64)


# Uniform and normal numbers.

rand = define(
    f"rand(Size[] size, *, {_STATE}, DType? dtype=None, Device? device=None) -> Tensor",
    "Uniform numbers of [0, 1), of which a complex number has two.",
    facts=_FACTS,
    variants="function",
)


def _drawn_meta(op: Operator, size: tuple[Size, ...], dtype: DType | None, device: Device | None) -> TensorType:
    return TensorType(size, _require_float(op, dtype or DEFAULT_FLOAT), device or CPU)


@rand.meta
def rand_meta(
    size: tuple[Size, ...], seed: TensorType, ordinal: TensorType, dtype: DType | None, device: Device | None
) -> TensorType:
    _check_draw(rand, seed, ordinal)
    return _drawn_meta(rand, size, dtype, device)


@rand.ref
def rand_ref(
    size: tuple[int, ...], seed: ArrayDraw, ordinal: ArrayDraw, dtype: DType | None, device: Device | None
) -> Array:
    dtype, words = dtype or DEFAULT_FLOAT, _array_words(size, seed, ordinal)
    if dtype.is_complex:
        parts = [_uniform_array(given, real_dtype(dtype)) for given in (words, (*words[2:], *words[:2]))]
        return (parts[0] + 1j * parts[1]).astype(dtype.numpy)
    return _uniform_array(words, dtype)


def _uniform_array(words: philox.ArrayWords, dtype: DType) -> Array:
    bits = UNIFORM_BITS[dtype]
    if dtype is float64:
        return (_joined(words[0], words[1]) >> np.uint64(64 - bits)).astype(np.float64) * 2.0**-bits
    return ((words[0] >> np.uint32(32 - bits)).astype(np.float32) * np.float32(2.0**-bits)).astype(dtype.numpy)


@rand.lower
def rand_lower(
    at: At, size: tuple[Size, ...], seed: Operand, ordinal: Operand, dtype: DType | None, device: Device | None
) -> Scalar:
    dtype, words = dtype or DEFAULT_FLOAT, _words(at, size, seed, ordinal)
    if dtype.is_complex:
        real = real_dtype(dtype)
        return apply("complex", philox.uniform(words, real), philox.uniform(philox.turned(words), real))
    return cast(philox.uniform(words, dtype), dtype)


@rand.samples
def rand_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample((3, 5), seed=42, ordinal=7)
    yield Sample((7,), seed=42, ordinal=7, dtype=float64)
    yield Sample((7,), seed=42, ordinal=7, dtype=complex64)
    yield Sample((5,), seed=42, ordinal=7, dtype=complex128)


randn = define(
    f"randn(Size[] size, *, {_STATE}, DType? dtype=None, Device? device=None) -> Tensor",
    "Normally distributed numbers of mean 0 and variance 1; of complex ones each part has half of it.",
    facts=_FACTS,
    variants="function",
)


@randn.meta
def randn_meta(
    size: tuple[Size, ...], seed: TensorType, ordinal: TensorType, dtype: DType | None, device: Device | None
) -> TensorType:
    _check_draw(randn, seed, ordinal)
    return _drawn_meta(randn, size, dtype, device)


@randn.ref
def randn_ref(
    size: tuple[int, ...], seed: ArrayDraw, ordinal: ArrayDraw, dtype: DType | None, device: Device | None
) -> Array:
    dtype = dtype or DEFAULT_FLOAT
    words = _array_words(size, seed, ordinal)
    if real_dtype(dtype) is float64:
        length = _joined(words[0], words[1]).astype(np.float64) * 2.0**-64 + 2.0**-65
        turns = _joined(words[2], words[3]).astype(np.float64) * 2.0**-64
    else:
        length = words[0].astype(np.float32).astype(np.float64) * 2.0**-32 + 2.0**-33
        turns = words[1].astype(np.float64) * 2.0**-32
    radius = np.sqrt(-2.0 * np.log(length))
    if dtype.is_complex:
        return (radius * np.sqrt(0.5) * np.exp(2.0j * np.pi * turns)).astype(dtype.numpy)
    return (radius * np.cos(2.0 * np.pi * turns)).astype(dtype.numpy)


@randn.lower
def randn_lower(
    at: At, size: tuple[Size, ...], seed: Operand, ordinal: Operand, dtype: DType | None, device: Device | None
) -> Scalar:
    dtype, words = dtype or DEFAULT_FLOAT, _words(at, size, seed, ordinal)
    if dtype.is_complex:
        return apply("complex", *philox.normal_parts(words, real_dtype(dtype)))
    return cast(philox.normal(words, dtype), dtype)


@randn.samples
def randn_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample((3, 5), seed=42, ordinal=7)
    yield Sample((7,), seed=42, ordinal=7, dtype=float64)
    yield Sample((7,), seed=42, ordinal=7, dtype=complex64)
    yield Sample((5,), seed=42, ordinal=7, dtype=complex128)


# Integers.

randint = define(
    f"randint(Tensor low, Tensor high, Size[] size, *, {_STATE}, DType? dtype=None, Device? device=None) -> Tensor",
    "Integers of [low, high), all equally likely to one part in 2^32 or better.",
    facts=_FACTS,
    variants="function",
)


@randint.meta
def randint_meta(
    low: TensorType,
    high: TensorType,
    size: tuple[Size, ...],
    seed: TensorType,
    ordinal: TensorType,
    dtype: DType | None,
    device: Device | None,
) -> TensorType:
    _check_draw(randint, seed, ordinal)
    fits = not low.shape and not high.shape
    require(fits, "S002", "randint: low and high must have no dims", low=low, high=high)
    return TensorType(size, dtype or int64, device or CPU)


@randint.ref
def randint_ref(
    low: Array,
    high: Array,
    size: tuple[int, ...],
    seed: ArrayDraw,
    ordinal: ArrayDraw,
    dtype: DType | None,
    device: Device | None,
) -> Array:
    words = _array_words(size, seed, ordinal)
    bits = _joined(words[0], words[1]).astype(object)
    first, count = int(low), int(high) - int(low)
    drawn = np.array([first + ((int(word) * count) >> 64) for word in bits.ravel()], np.int64).reshape(size)
    return drawn.astype((dtype or int64).numpy)


@randint.lower
def randint_lower(
    at: At,
    low: Operand,
    high: Operand,
    size: tuple[Size, ...],
    seed: Operand,
    ordinal: Operand,
    dtype: DType | None,
    device: Device | None,
) -> Scalar:
    words = _words(at, size, seed, ordinal)
    first = cast(element(low, ()), int64)
    count = bitcast(cast(element(high, ()), int64) - first, uint64)
    drawn = apply("mulhi", philox.joined(words[0], words[1]), count)
    return cast(first + bitcast(drawn, int64), dtype or int64)


@randint.samples
def randint_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(0, 10, (3, 5), seed=42, ordinal=7)
    yield Sample(-5, 1 << 40, (7,), seed=42, ordinal=8)


# In the shape of another tensor.


def _drawn(op: Operator, world: Value, size: tuple[Size, ...], seed: object, ordinal: object, dtype: DType) -> Value:
    """`op` called in a value's world, which nothing among the operands of a drawing names."""
    return world.apply(op, (seed, ordinal), {"size": size, "dtype": dtype, "device": world.device})


rand_like = define(
    f"rand_like(Tensor input, *, {_STATE}, DType? dtype=None) -> Tensor",
    "Uniform numbers of [0, 1) in the shape of input.",
    facts=_FACTS,
    dtypes="inexact",
    variants="function",
)


@rand_like.decompose
def rand_like_decompose(input: Value, seed: Draw, ordinal: Draw, dtype: DType | None) -> Value:
    return _drawn(rand, input, input.shape, seed, ordinal, dtype or input.dtype)


@rand_like.samples
def rand_like_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(sample_array(rng, (3, 5)), seed=42, ordinal=7)


@rand_like.ref
def rand_like_ref(input: Array, seed: ArrayDraw, ordinal: ArrayDraw, dtype: DType | None) -> Array:
    return rand_ref(input.shape, seed, ordinal, dtype or _dtype_of(input), None)


def _dtype_of(array: Array) -> DType:
    return next(dtype for dtype in (*UNIFORM_BITS, int64, complex64, complex128) if dtype.numpy == array.dtype)


randn_like = define(
    f"randn_like(Tensor input, *, {_STATE}, DType? dtype=None) -> Tensor",
    "Normally distributed numbers in the shape of input.",
    facts=_FACTS,
    dtypes="inexact",
    variants="function",
)


@randn_like.decompose
def randn_like_decompose(input: Value, seed: Draw, ordinal: Draw, dtype: DType | None) -> Value:
    return _drawn(randn, input, input.shape, seed, ordinal, dtype or input.dtype)


@randn_like.ref
def randn_like_ref(input: Array, seed: ArrayDraw, ordinal: ArrayDraw, dtype: DType | None) -> Array:
    return randn_ref(input.shape, seed, ordinal, dtype or _dtype_of(input), None)


@randn_like.samples
def randn_like_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(sample_array(rng, (3, 5)), seed=42, ordinal=7)


uniform = define(
    f"uniform(Tensor input, Tensor low=0.0, Tensor high=1.0, *, {_STATE}) -> Tensor",
    "Uniform numbers of [low, high) in the shape and dtype of input.",
    facts=_FACTS,
    dtypes="inexact",
    variants="inplace",
)


@uniform.decompose
def uniform_decompose(input: Value, low: Value | float, high: Value | float, seed: Draw, ordinal: Draw) -> Value:
    drawn = _drawn(rand, input, input.shape, seed, ordinal, input.dtype)
    return drawn * (high - low) + _of_each_part(low, drawn)


def _of_each_part(shift: Value | float, of: Value) -> Value | complex:
    """What to add to numbers so that a complex one's parts are both moved, as PyTorch does."""
    return shift * (1 + 1j) if of.dtype.is_complex else shift


@uniform.ref
def uniform_ref(input: Array, low: Array | float, high: Array | float, seed: ArrayDraw, ordinal: ArrayDraw) -> Array:
    dtype = _dtype_of(input)
    drawn: Array = rand_ref(input.shape, seed, ordinal, dtype, None).astype(compute_dtype(dtype).numpy)
    shift = np.multiply(low, 1 + 1j) if dtype.is_complex else low
    return np.asarray(drawn * (high - low) + shift).astype(input.dtype)


@uniform.samples
def uniform_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(sample_array(rng, (3, 5)), -2.0, 3.0, seed=42, ordinal=7)
    yield Sample(np.zeros((3, 5), np.complex64), -2.0, 3.0, seed=42, ordinal=7)


normal = define(
    f"normal(Tensor input, Tensor mean=0.0, Tensor std=1.0, *, {_STATE}) -> Tensor",
    "Normally distributed numbers in the shape and dtype of input.",
    facts=_FACTS,
    dtypes="inexact",
    variants="inplace",
)


@normal.decompose
def normal_decompose(input: Value, mean: Value | float, std: Value | float, seed: Draw, ordinal: Draw) -> Value:
    drawn = _drawn(randn, input, input.shape, seed, ordinal, input.dtype)
    return drawn * std + _of_each_part(mean, drawn)


@normal.ref
def normal_ref(input: Array, mean: Array | float, std: Array | float, seed: ArrayDraw, ordinal: ArrayDraw) -> Array:
    dtype = _dtype_of(input)
    drawn: Array = randn_ref(input.shape, seed, ordinal, dtype, None).astype(compute_dtype(dtype).numpy)
    shift = np.multiply(mean, 1 + 1j) if dtype.is_complex else mean
    return np.asarray(drawn * std + shift).astype(input.dtype)


@normal.samples
def normal_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(sample_array(rng, (3, 5)), 1.0, 2.0, seed=42, ordinal=7)
    yield Sample(np.zeros((3, 5), np.complex64), 1.0, 2.0, seed=42, ordinal=7)


# Chances.

bernoulli = define(
    f"bernoulli(Tensor input, *, {_STATE}) -> Tensor",
    "1 with the chance that each element says, else 0.",
    facts=_FACTS,
    dtypes="float",
    variants="",
)


@bernoulli.decompose
def bernoulli_decompose(input: Value, seed: Draw, ordinal: Draw) -> Value:
    drawn = _drawn(rand, input, input.shape, seed, ordinal, float32)
    return to_dtype(drawn < input, input.dtype)


@bernoulli.ref
def bernoulli_ref(input: Array, seed: ArrayDraw, ordinal: ArrayDraw) -> Array:
    return (rand_ref(input.shape, seed, ordinal, float32, None) < input).astype(input.dtype)


@bernoulli.samples
def bernoulli_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(sample_array(rng, (3, 5), "probability"), seed=42, ordinal=7, domain="probability")


dropout = define(
    f"dropout(Tensor input, float p=0.5, bool training=True, *, {_STATE}) -> Tensor",
    "While training: 0 with chance p, else input / (1 - p). Otherwise input.",
    facts=Fact.RANDOM,
    dtypes="float",
    variants="function",
)


@dropout.decompose
def dropout_decompose(input: Value, p: float, training: bool, seed: Draw, ordinal: Draw) -> Value:
    require(0.0 <= p <= 1.0, "A002", f"dropout: p must be a chance between 0 and 1, not {p}")
    if not training or p == 0.0:
        return clone(input)
    drawn = _drawn(rand, input, input.shape, seed, ordinal, float32)
    return where(drawn >= p, input * (1.0 / (1.0 - p) if p < 1.0 else 0.0), 0.0)


@dropout.ref
def dropout_ref(input: Array, p: float, training: bool, seed: ArrayDraw, ordinal: ArrayDraw) -> Array:
    if not training or p == 0.0:
        return input
    kept = rand_ref(input.shape, seed, ordinal, float32, None) >= np.float32(p)
    wide = input.astype(compute_dtype(_dtype_of(input)).numpy)
    scale = np.asarray(1.0 / (1.0 - p) if p < 1.0 else 0.0, wide.dtype)
    return np.where(kept, np.multiply(wide, scale), 0.0).astype(input.dtype)


@dropout.vjp
def dropout_vjp(g: Value, p: float, training: bool, seed: Draw, ordinal: Draw) -> Gradients:
    # The mask is drawn again from the same state: nothing is saved but two integers.
    return dropout(g, p, training, seed=seed, ordinal=ordinal), None, None


@dropout.samples
def dropout_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(sample_array(rng, (3, 5)), 0.3, seed=42, ordinal=7)
    yield Sample(sample_array(rng, (3, 5)), 0.3, False, seed=42, ordinal=7)


multinomial = define(
    f"multinomial(Tensor input, int num_samples, bool replacement=False, *, {_STATE}) -> Tensor",
    "Indices along the last dim, each with the chance that its element, divided by their sum, says.",
    facts=_FACTS,
    dtypes="float",
    variants="",
)


@multinomial.decompose
def multinomial_decompose(input: Value, num_samples: int, replacement: bool, seed: Draw, ordinal: Draw) -> Value:
    fits = replacement or num_samples == 1
    require(fits, "A006", "multinomial: several samples need replacement=True", num_samples=num_samples)
    require(input.ndim, "S002", "multinomial: the input needs a dim", input=input.shape)
    below = cumsum(input, -1)
    shape = (*input.shape[:-1], num_samples)
    drawn = _drawn(rand, input, shape, seed, ordinal, input.dtype)
    total = narrow(below, -1, input.shape[-1] - 1, 1)
    passed = unsqueeze(below, -2) <= unsqueeze(drawn * total, -1)
    return sum_(passed, (-1,), False)


@multinomial.ref
def multinomial_ref(input: Array, num_samples: int, replacement: bool, seed: ArrayDraw, ordinal: ArrayDraw) -> Array:
    below = np.cumsum(input, -1)
    drawn = rand_ref((*input.shape[:-1], num_samples), seed, ordinal, _dtype_of(input), None)
    return np.asarray(np.sum(below[..., None, :] <= (drawn * below[..., -1:])[..., None], -1, dtype=np.int64))


@multinomial.samples
def multinomial_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(np.abs(sample_array(rng, (3, 5))), 1, seed=42, ordinal=7)
    yield Sample(np.abs(sample_array(rng, (6,))), 4, True, seed=42, ordinal=7)

"""Comparisons, logical and bitwise operators, tests for NaN and infinity. None has a gradient."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import ArrayLike

from rushlight.ir.dtype import Kind, bool_, float64
from rushlight.ir.loops import Operand
from rushlight.ir.scalar import Scalar, apply, cast, constant, is_nan
from rushlight.ir.type import TensorType
from rushlight.ops.math.complex_elementary import either_part
from rushlight.ops.math.core import INF, length, like, magnitude
from rushlight.ops.pointwise.definition import (
    BOOL,
    Array,
    At,
    binary,
    computed,
    element,
    lowered,
    sample_array,
    samples_of_pairs,
    typed_result,
    unary,
)
from rushlight.ops.record import Fact, Operator, Sample, define
from rushlight.support.errors import require

# Comparisons: the operands are promoted, the result is bool.


def _comparison(
    name: str, doc: str, ref: Callable[..., object], scalar: Callable[[Scalar, Scalar], Scalar], dtypes: str = "real"
) -> Operator:
    syntax = None if name in ("eq", "ne") else name
    return binary(
        name,
        doc,
        ref=ref,
        scalar=scalar,
        result=BOOL,
        dtypes=dtypes,
        syntax=syntax,
        facts=Fact.NONDIFFERENTIABLE | (Fact.STORED if dtypes == "all" else Fact.NONE),
    )


eq = _comparison("eq", "Whether elements are equal.", np.equal, lambda a, b: a.equals(b), "all")
ne = _comparison(
    "ne", "Whether elements differ; NaN differs from itself.", np.not_equal, lambda a, b: a.differs(b), "all"
)
lt = _comparison("lt", "Whether input < other.", np.less, lambda a, b: a < b)
le = _comparison("le", "Whether input <= other.", np.less_equal, lambda a, b: a <= b)
gt = _comparison("gt", "Whether input > other.", np.greater, lambda a, b: a > b)
ge = _comparison("ge", "Whether input >= other.", np.greater_equal, lambda a, b: a >= b)


# Logical operators: any dtype, nonzero is true, and no promotion between the operands.


def _truths(at: At, *operands: Operand) -> list[Scalar]:
    return [cast(element(operand, at), bool_) for operand in operands]


def _logical(name: str, doc: str, ref: Callable[..., object], word: str) -> Operator:
    op = define(
        f"{name}(Tensor input, Tensor other) -> Tensor",
        doc,
        facts=Fact.POINTWISE | Fact.NONDIFFERENTIABLE,
        variants="function method inplace out",
    )

    @op.meta
    def logical_meta(input: TensorType, other: TensorType) -> TensorType:
        return typed_result(op, [input, other], BOOL, dtype=bool_)

    @op.ref
    def logical_ref(input: ArrayLike, other: ArrayLike) -> Array:
        return np.asarray(ref(np.asarray(input) != 0, np.asarray(other) != 0))

    @op.lower
    def logical_lower(at: At, input: Operand, other: Operand) -> Scalar:
        return apply(word, *_truths(at, input, other))

    @op.samples
    def logical_samples(rng: np.random.Generator) -> Iterator[Sample]:
        yield from samples_of_pairs(rng, dtypes="integral")
        yield Sample(sample_array(rng, (3, 5)), sample_array(rng, (5,)) > 0)

    return op


logical_and = _logical("logical_and", "Whether both are nonzero.", np.logical_and, "and")
logical_or = _logical("logical_or", "Whether one is nonzero.", np.logical_or, "or")
logical_xor = _logical("logical_xor", "Whether just one is nonzero.", np.logical_xor, "xor")

logical_not = define(
    "logical_not(Tensor input) -> Tensor",
    "Whether each element is 0.",
    facts=Fact.POINTWISE | Fact.NONDIFFERENTIABLE,
    variants="function method inplace out",
)


@logical_not.meta
def logical_not_meta(input: TensorType) -> TensorType:
    return typed_result(logical_not, [input], BOOL, dtype=bool_)


@logical_not.ref
def logical_not_ref(input: ArrayLike) -> Array:
    return np.asarray(np.asarray(input) == 0)


@logical_not.lower
def logical_not_lower(at: At, input: Operand) -> Scalar:
    return ~_truths(at, input)[0]


@logical_not.samples
def logical_not_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(sample_array(rng, (7,), dtypes="integral"))
    yield Sample(sample_array(rng, (3, 5)))


# Bitwise operators: integers and bools, of one promoted dtype.

bitwise_and = binary(
    "bitwise_and",
    "The bits set in both.",
    ref=np.bitwise_and,
    scalar=lambda a, b: a & b,
    dtypes="integral",
    syntax="and",
    facts=Fact.NONDIFFERENTIABLE | Fact.LEADING,
)
bitwise_or = binary(
    "bitwise_or",
    "The bits set in one or both.",
    ref=np.bitwise_or,
    scalar=lambda a, b: a | b,
    dtypes="integral",
    syntax="or",
    facts=Fact.NONDIFFERENTIABLE | Fact.LEADING,
)
bitwise_xor = binary(
    "bitwise_xor",
    "The bits set in just one.",
    ref=np.bitwise_xor,
    scalar=lambda a, b: a ^ b,
    dtypes="integral",
    syntax="xor",
    facts=Fact.NONDIFFERENTIABLE | Fact.LEADING,
)
bitwise_not = unary(
    "bitwise_not",
    "All bits flipped; the other truth value of bools.",
    ref=np.invert,
    scalar=lambda x: ~x,
    dtypes="integral",
    syntax="invert",
    facts=Fact.NONDIFFERENTIABLE,
)


def _shift_array(left: bool) -> Callable[[Array, Array], Array]:
    def shifted(a: Array, count: Array) -> Array:
        width = a.dtype.itemsize * 8
        inside = (count >= 0) & (count < width)
        safe = np.where(inside, count, 0).astype(a.dtype)
        if left:
            return np.where(inside, np.left_shift(a, safe), 0)
        return np.where(inside, np.right_shift(a, safe), np.where(a < 0, ~np.zeros_like(a), np.zeros_like(a)))

    return shifted


bitwise_left_shift = binary(
    "bitwise_left_shift",
    "input with its bits moved up; 0 for counts outside the width.",
    ref=_shift_array(left=True),
    scalar=lambda a, b: a << b,
    dtypes="int",
    syntax="lshift",
    domain="count",
    facts=Fact.NONDIFFERENTIABLE | Fact.LEADING,
)
bitwise_right_shift = binary(
    "bitwise_right_shift",
    "input with its bits moved down, the sign kept; 0 or -1 for counts outside the width.",
    ref=_shift_array(left=False),
    scalar=lambda a, b: a >> b,
    dtypes="int",
    syntax="rshift",
    domain="count",
    facts=Fact.NONDIFFERENTIABLE | Fact.LEADING,
)

# Tests.


def _test(
    name: str,
    doc: str,
    ref: Callable[..., object],
    scalar: Callable[[Scalar], Scalar],
    for_integers: bool,
    dtypes: str = "real",
) -> Operator:
    """A test of floats, and complex numbers where `dtypes` says so, with one answer for all integers."""

    def tested(x: Scalar) -> Scalar:
        return scalar(x) if x.type.kind >= Kind.FLOAT else constant(for_integers, bool_)

    return unary(
        name,
        doc,
        ref=ref,
        scalar=tested,
        result=BOOL,
        dtypes=dtypes,
        variants="function method" if dtypes == "all" else "function method out",
        facts=Fact.NONDIFFERENTIABLE | (Fact.STORED if dtypes == "all" else Fact.NONE),
    )


isnan = _test("isnan", "Whether each element, or a part of it, is NaN.", np.isnan, either_part(is_nan), False, "all")
isinf = _test(
    "isinf",
    "Whether each element, or a part of it, is infinite.",
    np.isinf,
    either_part(lambda x: magnitude(x).equals(INF)),
    False,
    "all",
)
isfinite = _test(
    "isfinite",
    "Whether each element is neither infinite nor NaN, nor is a part of it.",
    np.isfinite,
    either_part(lambda x: magnitude(x) < INF, every=True),
    True,
    "all",
)
isposinf = _test("isposinf", "Whether each element is infinity.", np.isposinf, lambda x: x.equals(INF), False)
isneginf = _test("isneginf", "Whether each element is -infinity.", np.isneginf, lambda x: x.equals(-INF), False)

isclose = define(
    "isclose(Tensor input, Tensor other, float rtol=1e-05, float atol=1e-08, bool equal_nan=False) -> Tensor",
    "Whether |input - other| <= atol + rtol * |other|, or they are equal.",
    facts=Fact.POINTWISE | Fact.NONDIFFERENTIABLE,
)


def _size(x: Scalar) -> Scalar:
    return length(apply("real", x), apply("imag", x)) if x.type.is_complex else magnitude(x)


@isclose.meta
def isclose_meta(input: TensorType, other: TensorType, rtol: float, atol: float, equal_nan: bool) -> TensorType:
    require(rtol >= 0 and atol >= 0, "A002", "isclose: tolerances must not be negative", rtol=rtol, atol=atol)
    return typed_result(isclose, [input, other], BOOL)


@isclose.ref
def isclose_ref(input: ArrayLike, other: ArrayLike, rtol: float, atol: float, equal_nan: bool) -> Array:
    return computed(isclose, lambda a, b: np.isclose(a, b, rtol, atol, equal_nan), [input, other], BOOL)


@isclose.lower
def isclose_lower(at: At, input: Operand, other: Operand, rtol: float, atol: float, equal_nan: bool) -> Scalar:
    def close(a: Scalar, b: Scalar) -> Scalar:
        if a.type.kind < Kind.FLOAT:
            a, b = cast(a, float64), cast(b, float64)
        size = _size(b)
        near = _size(a - b) <= like(size, atol) + like(size, rtol) * size
        same = a.equals(b) | (near & (size < INF))
        nan = either_part(is_nan)
        return same | (nan(a) & nan(b)) if equal_nan else same

    return lowered(isclose, close, at, [input, other], BOOL)


@isclose.samples
def isclose_samples(rng: np.random.Generator) -> Iterator[Sample]:
    x = sample_array(rng, (3, 5))
    yield Sample(x, x + np.float32(1e-6))
    yield Sample(x, np.where(x > 0, x, np.float32("nan")), equal_nan=True)

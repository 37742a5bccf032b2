"""How pointwise operators are made: one element of the result from the operands' elements at the broadcast index.

    sin = unary("sin", "Sine of each element, in radians.", ref=np.sin, scalar=math_trig.sin, result=FLOAT)

    @sin.vjp
    def sin_vjp(g, input): return g * cos(input)

`unary` and `binary` make whole operators from a numpy function and a scalar one. Operators with attributes or more
operands are written as blocks of their own on `typed_result`, `lowered` and `computed`, as the two helpers are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from typing import Any, TypeAlias, TypeGuard

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rushlight.ir.dtype import DType, Kind, bool_, compute_dtype, from_numpy_dtype
from rushlight.ir.graph import number_dtype
from rushlight.ir.loops import Operand
from rushlight.ir.scalar import Scalar, cast
from rushlight.ir.type import CPU, TensorType
from rushlight.ir.value import Value
from rushlight.ops.promote import (
    broadcast,
    device_of,
    is_one,
    pointwise_strides,
    promote,
    promote_float,
    promote_numbers,
)
from rushlight.ops.record import FAMILIES, OPERATORS, Fact, Operator, Sample, define
from rushlight.support.errors import fail, require
from rushlight.sym import SizeExpr

Array: TypeAlias = NDArray[Any]
At: TypeAlias = Sequence[SizeExpr]


class Result(Enum):
    """The dtype of a pointwise result: the promoted one, that raised to float, or bool."""

    SAME = "same"
    FLOAT = "float"
    BOOL = "bool"


SAME, FLOAT, BOOL = Result.SAME, Result.FLOAT, Result.BOOL


def check_dtype(op: Operator, dtype: DType) -> DType:
    """`dtype` if the operator accepts it, else D001, or D006 for a complex one."""
    if dtype.kind not in FAMILIES[op.dtypes]:
        if dtype.kind is Kind.COMPLEX:
            fail("D006", f"{op.name}: complex operands are not supported")
        fail("D001", f"{op.name}: not supported for {dtype.name}", hint=f"accepted dtypes: {op.dtypes}")
    return dtype


def operating_dtype(op: Operator, types: Sequence[TensorType | None], result: Result = SAME) -> DType:
    """Return the dtype that the operands are converted to.

    Python numbers alone keep the widest of their dtypes, which is at least float64 where `result` is FLOAT.
    """
    given = [type_ for type_ in types if type_ is not None]
    if all(type_.weak for type_ in given):
        dtype = check_dtype(op, promote_numbers(*given))
        return max(dtype, number_dtype(0.0), key=lambda candidate: candidate.kind) if result is FLOAT else dtype
    dtype = check_dtype(op, promote(*given))
    return promote_float(*given) if result is FLOAT else dtype


def typed_result(
    op: Operator, types: Sequence[TensorType | None], result: Result = SAME, dtype: DType | None = None
) -> TensorType:
    """Return the type of a pointwise result, with the operands' broadcast shape and eager's strides.

    Its dtype is `dtype` where that is given, else the one that `result` says.
    """
    given = [type_ for type_ in types if type_ is not None]
    if dtype is None:
        dtype = operating_dtype(op, given, result)
        dtype = bool_ if result is BOOL else dtype
    shape = broadcast(*[type_.shape for type_ in given])
    strides = pointwise_strides([type_ for type_ in given if type_.shape], shape)
    return TensorType(shape, dtype, device_of(*given), strides, all(type_.weak for type_ in given))


def scaled_result(op: Operator, types: Sequence[TensorType], **factor: TensorType | None) -> TensorType:
    """`typed_result` of the operands without the one that scales some of them: S002, A004 where that is no number."""
    result = typed_result(op, types)
    shown: dict[str, Any] = {**factor}
    for name, type_ in factor.items():
        require(type_ is None or not type_.shape, "S002", f"{op.name}: {name} must have no dims", **shown)
        fits = type_ is None or type_.dtype.kind <= max(result.dtype.kind, Kind.INT)
        require(fits, "A004", f"{op.name}: {name} is of a higher kind than the result", result=result, **shown)
    return result


def element(operand: Operand, at: At) -> Scalar:
    """The operand's element at the broadcast index."""
    offset = len(at) - len(operand.shape)
    return operand[tuple([0 if is_one(size) else at[dim] for dim, size in enumerate(operand.shape, offset)])]


def converted(operand: Operand, at: At, dtype: DType, result: Result = SAME, factor: bool = False) -> Scalar:
    """Return the operand's element, rounded to `dtype`, in the dtype in which `dtype` is computed.

    A Python number is rounded to the latter alone, or to `dtype` too where the result is bool, as PyTorch compares. So
    is a `factor` without dims.
    """
    value = element(operand, at)
    rounded = result is BOOL or not (operand.type.weak or (factor and not operand.shape))
    return cast(cast(value, dtype) if rounded else value, compute_dtype(dtype))


def lowered(
    op: Operator,
    scalar: Callable[..., Scalar],
    at: At,
    operands: Sequence[Operand | None],
    result: Result = SAME,
    factor: bool = False,
) -> Scalar:
    """`scalar` of the operands' elements: computed in float32 for 16-bit floats and rounded at the end.

    With `factor` the last operand is one: see `converted`.
    """
    dtype = operating_dtype(op, [None if operand is None else operand.type for operand in operands], result)
    last = operands[-1] if factor else None
    values = [
        None if operand is None else converted(operand, at, dtype, result, operand is last) for operand in operands
    ]
    return cast(scalar(*values), bool_ if result is BOOL else dtype)


def is_number(value: object) -> TypeGuard[complex]:
    """Whether a value is a Python number; numpy's scalars, which are subclasses of those, are not."""
    return type(value) in (bool, int, float, complex)


def array_type(value: ArrayLike) -> TensorType:
    """The type of a numpy array, or of a Python number, which is weak."""
    if is_number(value):
        return TensorType((), number_dtype(value), CPU, weak=True)
    array = np.asarray(value)
    dtype = from_numpy_dtype(array.dtype)
    if dtype is None:
        fail("D004", f"numpy dtype {array.dtype} has no counterpart")
    return TensorType(array.shape, dtype)


def computed(
    op: Operator,
    function: Callable[..., ArrayLike],
    operands: Sequence[ArrayLike | None],
    result: Result = SAME,
    dtype: DType | None = None,
    factor: bool = False,
) -> Array:
    """`function` of arrays in the operating dtype (float32 for 16-bit floats), with the result's dtype.

    With `factor` the last array is one: see `converted`.
    """
    operating = dtype or operating_dtype(
        op, [None if value is None else array_type(value) for value in operands], result
    )
    compute = compute_dtype(operating).numpy
    values: list[Array | None] = []
    with np.errstate(all="ignore"):
        for position, value in enumerate(operands, 1):
            if value is None:
                values.append(None)
            elif factor and position == len(operands) and np.ndim(value) == 0 and not is_number(value):
                values.append(np.asarray(value).astype(compute))
            elif is_number(value):
                rounded = operating.numpy if result is BOOL else compute
                values.append(_number(value, rounded).astype(compute))
            else:
                values.append(np.asarray(value).astype(operating.numpy).astype(compute))
        return np.asarray(function(*values)).astype(np.bool_ if result is BOOL else operating.numpy)


def _number(value: complex, dtype: np.dtype[Any]) -> Array:
    """A Python number in a dtype; integers wrap, and floats are truncated to integers."""
    if dtype.kind in "iu":
        wrapped = int(value.real) & ((1 << 64) - 1)
        return np.array(wrapped, np.uint64).astype(dtype)
    return np.array(value).astype(dtype)


def unary(
    name: str,
    doc: str,
    *,
    ref: Callable[..., Any],
    scalar: Callable[[Scalar], Scalar],
    result: Result = SAME,
    dtypes: str = "real",
    variants: str = "function method inplace out",
    syntax: str | None = None,
    domain: str | None = None,
    facts: Fact = Fact.NONE,
) -> Operator:
    """A pointwise operator of one operand, `name(Tensor input) -> Tensor`. `domain` goes to its samples."""
    op = define(
        f"{name}(Tensor input) -> Tensor",
        doc,
        facts=facts | Fact.POINTWISE,
        dtypes=dtypes,
        variants=variants,
        syntax=syntax,
    )

    @op.meta
    def unary_meta(input: TensorType) -> TensorType:
        return typed_result(op, [input], result)

    @op.ref
    def unary_ref(input: ArrayLike) -> Array:
        return computed(op, ref, [input], result)

    @op.lower
    def unary_lower(at: At, input: Operand) -> Scalar:
        return lowered(op, scalar, at, [input], result)

    @op.samples
    def unary_samples(rng: np.random.Generator) -> Iterator[Sample]:
        for shape in ((), (7,), (3, 5)):
            yield Sample(sample_array(rng, shape, domain, dtypes), domain=domain)

    return op


def binary(
    name: str,
    doc: str,
    *,
    ref: Callable[..., Any],
    scalar: Callable[[Scalar, Scalar], Scalar],
    result: Result = SAME,
    dtypes: str = "real",
    variants: str = "function method inplace out",
    syntax: str | None = None,
    domain: str | None = None,
    facts: Fact = Fact.NONE,
    factor: bool = False,
) -> Operator:
    """A pointwise operator of two operands, `name(Tensor input, Tensor other) -> Tensor`. `domain`: of its samples.

    With `factor` the second operand is one: without dims it is not rounded to the result's dtype (see `converted`).
    """
    op = define(
        f"{name}(Tensor input, Tensor other) -> Tensor",
        doc,
        facts=facts | Fact.POINTWISE,
        dtypes=dtypes,
        variants=variants,
        syntax=syntax,
    )

    @op.meta
    def binary_meta(input: TensorType, other: TensorType) -> TensorType:
        return typed_result(op, [input, other], result)

    @op.ref
    def binary_ref(input: ArrayLike, other: ArrayLike) -> Array:
        return computed(op, ref, [input, other], result, factor=factor)

    @op.lower
    def binary_lower(at: At, input: Operand, other: Operand) -> Scalar:
        return lowered(op, scalar, at, [input, other], result, factor)

    @op.samples
    def binary_samples(rng: np.random.Generator) -> Iterator[Sample]:
        yield from samples_of_pairs(rng, domain, dtypes)

    return op


def zero_gradient(value: object) -> Value | None:
    """A zero gradient for a Value; None for a number, which has none."""
    return OPERATORS["zeros_like"](value) if isinstance(value, Value) else None


def samples_of_pairs(rng: np.random.Generator, domain: str | None = None, dtypes: str = "real") -> Iterator[Sample]:
    """Pairs of one shape, of shapes that broadcast, and with a number on either side."""
    for left, right in (((), ()), ((7,), (7,)), ((3, 5), (5,)), ((3, 1), (1, 5)), ((2, 1, 3), (4, 1))):
        yield Sample(sample_array(rng, left, domain, dtypes), sample_array(rng, right, domain, dtypes), domain=domain)
    yield Sample(sample_array(rng, (4,), domain, dtypes), 2 if dtypes in ("int", "integral") else 1.5, domain=domain)


def sample_array(
    rng: np.random.Generator, shape: tuple[int, ...], domain: str | None = None, dtypes: str = "real"
) -> Array:
    """Random elements of a domain: float32 numbers of about unit size; small integers where only those are accepted."""
    if dtypes in ("int", "integral"):
        low = 0 if domain in ("count", "nonnegative") else 1 if domain == "nonzero" else -9
        return rng.integers(low, 9, shape, dtype=np.int64)
    values = rng.standard_normal(shape).astype(np.float32)
    return DOMAINS[domain](values).astype(np.float32) if domain is not None else values


# Where samples are drawn from: a map from all numbers to those of the domain, for the harness's other dtypes too.
DOMAINS: dict[str, Callable[[Array], Array]] = {
    "positive": lambda x: np.abs(x) + 0.25,
    "nonnegative": lambda x: np.abs(x),
    "nonzero": lambda x: np.where(x < 0, x - 0.25, x + 0.25),
    "unit": lambda x: np.tanh(x) * 0.9,
    "probability": lambda x: 0.5 + np.tanh(x) * 0.45,
    "above_one": lambda x: np.abs(x) + 1.25,
    "count": lambda x: np.floor(np.abs(x) * 4),
    "smooth": lambda x: np.where(np.abs(x - np.round(x * 2) / 2) < 0.05, x + 0.1, x),
}

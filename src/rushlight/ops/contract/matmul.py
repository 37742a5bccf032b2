"""Matrix products: contractions over one axis, plain enough to be recognised as the GEMM template.

16-bit floats are multiplied and summed in float32 and rounded once. Products with a vector on the right, and of two
vectors, are sums along rows, so they state LANES; all others state BLOCKED. Those of bfloat16 are stated as products of
bfloat16, which many a machine has an instruction for; those of int8 are summed in int32, and the last bits kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from rushlight.ir.dtype import DType, Kind, bfloat16, bool_, compute_dtype, int8, int32
from rushlight.ir.loops import Operand
from rushlight.ir.scalar import BLOCKED, LANES, Scalar, cast, contract
from rushlight.ir.type import TensorType
from rushlight.ir.value import Value
from rushlight.ops.dims import Array, At, compute_array, convert, integers, normal, same_size, widened
from rushlight.ops.pointwise.complex import conjugate
from rushlight.ops.promote import broadcast, device_of, is_one, promote_dtypes, sum_to
from rushlight.ops.record import Fact, Gradients, Sample, define
from rushlight.ops.reduce.reduction import sum_
from rushlight.ops.view.reorder import mT, squeeze, unsqueeze
from rushlight.ops.view.reshape import reshape
from rushlight.support.errors import fail, require
from rushlight.sym import Size, SizeExpr, axis_symbol, product


def common_dtype(op: str, **types: TensorType | Value | None) -> DType:
    """The one dtype of all operands; D002 when they differ, D001 for bool."""
    given: dict[str, Any] = {name: type_ for name, type_ in types.items() if type_ is not None}
    dtypes = {type_.dtype for type_ in given.values()}
    if len(dtypes) > 1:
        fail("D002", f"{op}: operands differ in dtype", **given)
    dtype_ = dtypes.pop()
    require(dtype_ is not bool_, "D001", f"{op}: not supported for bool", **given)
    return dtype_


_LINEAR_HINT = "the input's last size must be the weight's last size, in_features of a layer"


def _inner(op: str, a: Size, b: Size, hint: str | None = None, **types: Any) -> None:
    if not same_size(a, b):
        fail("S003", f"{op}: inner sizes differ ({a} and {b})", hint=hint, **types)


def _require_ndim(op: str, ndim: int, **types: Any) -> None:
    for type_ in types.values():
        require(type_.ndim == ndim, "S002", f"{op}: operands must have {ndim} dims", **types)


matmul = define(
    "matmul(Tensor input, Tensor other) -> Tensor",
    "Matrix product of the last two dims, broadcast over the rest; a 1-D operand is a row, or on the right a column.",
    facts=Fact.REDUCTION,
    dtypes="number",
    autocast="lower",
    syntax="matmul",
    variants="function method out",
)


@matmul.meta
def matmul_meta(input: TensorType, other: TensorType) -> TensorType:
    dtype = common_dtype("matmul", input=input, other=other)
    a, b = input.shape, other.shape
    require(
        min(input.ndim, other.ndim) > 0, "S002", "matmul: both operands need at least 1 dim", input=input, other=other
    )
    _inner("matmul", a[-1], b[max(len(b) - 2, 0)], input=input, other=other)
    batch = broadcast(a[:-2], b[:-2])
    return TensorType((*batch, *a[-2:-1], *(b[-1:] if len(b) > 1 else ())), dtype, device_of(input, other))


@matmul.ref
def matmul_ref(input: Array, other: Array) -> Array:
    return np.asarray(np.matmul(compute_array(input), compute_array(other))).astype(input.dtype)


@matmul.lower
def matmul_lower(at: At, input: Operand, other: Operand) -> Scalar:
    return cast(wide_matmul_lower(at, input, other), input.dtype)


wide_matmul = define(
    "wide_matmul(Tensor input, Tensor other) -> Tensor",
    "`matmul` before its sums are rounded: of 16-bit floats it is float32.",
    facts=Fact.REDUCTION,
    dtypes="float",
    variants="",
)


@wide_matmul.meta
def wide_matmul_meta(input: TensorType, other: TensorType) -> TensorType:
    rounded = matmul_meta(input, other)
    return TensorType(rounded.shape, compute_dtype(rounded.dtype), rounded.device)


@wide_matmul.ref
def wide_matmul_ref(input: Array, other: Array) -> Array:
    return np.asarray(np.matmul(compute_array(input), compute_array(other)))


@wide_matmul.lower
def wide_matmul_lower(at: At, input: Operand, other: Operand) -> Scalar:
    k = axis_symbol(input.shape[-1], "k")
    has_row, has_column = len(input.shape) > 1, len(other.shape) > 1
    batch = at[: len(at) - has_row - has_column]
    row, column = at[len(batch) : len(batch) + has_row], at[len(batch) + has_row :]
    left = input[(*_batch_index(input, batch), *row, k)]
    right = other[(*_batch_index(other, batch), k, *column)]
    return wide_contract((k,), left, right, not has_column)


def _batch_index(operand: Operand, batch: At) -> tuple[Size, ...]:
    sizes = operand.shape[:-2]
    own = batch[len(batch) - len(sizes) :]
    return tuple([0 if is_one(size) else axis for size, axis in zip(sizes, own, strict=True)])


def wide_contract(axes: At, left: Scalar, right: Scalar, vector: bool = False) -> Scalar:
    """The sum of products over the axes in the dtype in which it is computed."""
    if left.type is bfloat16 and not vector:
        return contract(tuple(axes), left, right, BLOCKED)
    if left.type is int8:
        return _integer_contract(tuple(axes), left, right)
    wide = compute_dtype(left.type)
    return contract(tuple(axes), cast(left, wide), cast(right, wide), LANES if vector else BLOCKED)


def _integer_contract(axes: tuple[SizeExpr, ...], left: Scalar, right: Scalar) -> Scalar:
    """The sum of products of integers in int32, which wraps."""
    if left.type is int8:
        return contract(axes, left, right, BLOCKED, int32)
    return contract(axes, cast(left, int32), cast(right, int32), BLOCKED)


@matmul.vjp
def matmul_vjp(g: Value, input: Value, other: Value) -> Gradients:
    a = unsqueeze(input, 0) if input.ndim == 1 else input
    b = unsqueeze(other, -1) if other.ndim == 1 else other
    if input.ndim == 1:
        g = unsqueeze(g, -1 if other.ndim == 1 else -2)
    if other.ndim == 1:
        g = unsqueeze(g, -1)
    grad_a, grad_b = _matrix_vjp(g, a, b)
    return (
        squeeze(grad_a, 0) if input.ndim == 1 else grad_a,
        squeeze(grad_b, -1) if other.ndim == 1 else grad_b,
    )


@wide_matmul.vjp
def wide_matmul_vjp(g: Value, input: Value, other: Value) -> Gradients:
    return matmul_vjp(convert(g, input.dtype), input, other)


@wide_matmul.samples
def wide_matmul_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 3, 5), normal(rng, 5, 4))
    yield Sample(normal(rng, 2, 3, 5), normal(rng, 2, 5, 4))
    yield Sample(normal(rng, 3, 5), normal(rng, 5))


def _matrix_vjp(g: Value, a: Value, b: Value) -> tuple[Value, Value]:
    if b.ndim == 2 and a.ndim > 2:
        # One product over all rows of the batch, rather than a product for each matrix and a sum.
        rows = product(a.shape[:-1])
        flat_a, flat_g = reshape(a, (rows, a.shape[-1])), reshape(g, (rows, g.shape[-1]))
        return matmul(g, mT(conjugate(b))), matmul(mT(conjugate(flat_a)), flat_g)
    return sum_to(matmul(g, mT(conjugate(b))), a.shape), sum_to(matmul(mT(conjugate(a)), g), b.shape)


@matmul.samples
def matmul_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 3, 5), normal(rng, 5, 4))
    yield Sample(normal(rng, 5), normal(rng, 5))
    yield Sample(normal(rng, 3, 5), normal(rng, 5))
    yield Sample(normal(rng, 5), normal(rng, 5, 4))
    yield Sample(normal(rng, 2, 3, 5), normal(rng, 5, 4))
    yield Sample(normal(rng, 2, 1, 3, 5), normal(rng, 4, 5, 2))
    yield Sample(normal(rng, 5), normal(rng, 2, 5, 3))
    yield Sample(normal(rng, 2, 3, 5), normal(rng, 5))
    yield Sample(normal(rng, 2, 300), normal(rng, 300, 3))
    yield Sample(normal(rng, 3, 0), normal(rng, 0, 4))
    yield Sample(integers(rng, -9, 9, 3, 5), integers(rng, -9, 9, 5, 2))


_int_mm = define(
    "_int_mm(Tensor input, Tensor mat2) -> Tensor",
    "Product of two matrices of integers, summed in int32.",
    facts=Fact.REDUCTION,
    dtypes="int",
    variants="function",
)


@_int_mm.meta
def _int_mm_meta(input: TensorType, mat2: TensorType) -> TensorType:
    _require_ndim("_int_mm", 2, input=input, mat2=mat2)
    common_dtype("_int_mm", input=input, mat2=mat2)
    _inner("_int_mm", input.shape[1], mat2.shape[0], input=input, mat2=mat2)
    return TensorType((input.shape[0], mat2.shape[1]), int32, device_of(input, mat2))


@_int_mm.ref
def _int_mm_ref(input: Array, mat2: Array) -> Array:
    return np.matmul(input.astype(np.int32), mat2.astype(np.int32))


@_int_mm.lower
def _int_mm_lower(at: At, input: Operand, mat2: Operand) -> Scalar:
    k = axis_symbol(input.shape[1], "k")
    return _integer_contract((k,), input[at[0], k], mat2[k, at[1]])


@_int_mm.samples
def _int_mm_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(integers(rng, -100, 100, 3, 5), integers(rng, -100, 100, 5, 4))


mm = define(
    "mm(Tensor input, Tensor mat2) -> Tensor",
    "Product of two matrices.",
    autocast="lower",
    dtypes="number",
    variants="function method out",
)


@mm.decompose
def mm_decompose(input: Value, mat2: Value) -> Value:
    _require_matrices("mm", input, mat2)
    return matmul(input, mat2)


def _require_matrices(op: str, input: Value, mat2: Value) -> None:
    _require_ndim(op, 2, input=_type(input), mat2=_type(mat2))


def _type(value: Value) -> TensorType:
    return TensorType(value.shape, value.dtype, value.device)


@mm.ref
def mm_ref(input: Array, mat2: Array) -> Array:
    return matmul_ref(input, mat2)


@mm.samples
def mm_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 3, 5), normal(rng, 5, 4))


bmm = define(
    "bmm(Tensor input, Tensor mat2) -> Tensor",
    "Products of batches of matrices.",
    autocast="lower",
    dtypes="number",
    variants="function method out",
)


@bmm.decompose
def bmm_decompose(input: Value, mat2: Value) -> Value:
    require_batches("bmm", input, mat2)
    return matmul(input, mat2)


def require_batches(op: str, input: Value, mat2: Value) -> None:
    """S002, S014 unless both are batches of as many matrices."""
    _require_ndim(op, 3, input=_type(input), mat2=_type(mat2))
    require(same_size(input.shape[0], mat2.shape[0]), "S014", f"{op}: batch sizes differ", input=input, mat2=mat2)


@bmm.ref
def bmm_ref(input: Array, mat2: Array) -> Array:
    return matmul_ref(input, mat2)


@bmm.samples
def bmm_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 2, 3, 5), normal(rng, 2, 5, 4))


mv = define(
    "mv(Tensor input, Tensor vec) -> Tensor",
    "Matrix times vector.",
    dtypes="number",
    variants="function method out",
)


@mv.decompose
def mv_decompose(input: Value, vec: Value) -> Value:
    require_vector("mv", input, vec)
    return matmul(input, vec)


def require_vector(op: str, input: Value, vec: Value) -> None:
    """S002 unless these are a matrix and a vector."""
    _require_ndim(op, 2, input=_type(input))
    _require_ndim(op, 1, vec=_type(vec))


@mv.ref
def mv_ref(input: Array, vec: Array) -> Array:
    return matmul_ref(input, vec)


@mv.samples
def mv_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 3, 5), normal(rng, 5))


dot = define(
    "dot(Tensor input, Tensor tensor) -> Tensor",
    "Inner product of two vectors.",
    dtypes="number",
    variants="function method out",
)


@dot.decompose
def dot_decompose(input: Value, tensor: Value) -> Value:
    _require_ndim("dot", 1, input=_type(input), tensor=_type(tensor))
    return matmul(input, tensor)


@dot.ref
def dot_ref(input: Array, tensor: Array) -> Array:
    return matmul_ref(input, tensor)


@dot.samples
def dot_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 5), normal(rng, 5))


outer = define(
    "outer(Tensor input, Tensor vec2) -> Tensor",
    "All products of two vectors' elements.",
    dtypes="all",
    variants="function method out",
)


@outer.decompose
def outer_decompose(input: Value, vec2: Value) -> Value:
    _require_ndim("outer", 1, input=_type(input), vec2=_type(vec2))
    return unsqueeze(input, 1) * vec2


@outer.ref
def outer_ref(input: Array, vec2: Array) -> Array:
    return np.outer(input, vec2)


@outer.samples
def outer_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 3), normal(rng, 4))


addmm = define(
    "addmm(Tensor input, Tensor mat1, Tensor mat2, *, float beta=1, float alpha=1) -> Tensor",
    "beta * input + alpha * (mat1 @ mat2).",
    autocast="lower",
    dtypes="number",
    variants="function method inplace out",
)


def exact_product(input: Value, other: Value) -> Value:
    """The matrix product of what is rounded later; of other dtypes than 16-bit floats `matmul` itself."""
    exact = compute_dtype(input.dtype) is input.dtype or input.dtype.kind is not Kind.FLOAT
    return matmul(input, other) if exact else wide_matmul(input, other)


def scaled_sum(input: Value, product: Value, beta: float, alpha: float, dtype: DType) -> Value:
    """`beta * input + alpha * product`, rounded once to a dtype.

    Without `beta` the input is ignored, NaN included.
    """
    if product.dtype is not dtype:
        result = promote_dtypes(input.dtype, dtype)
        return convert(scaled_sum(widened(input), product, beta, alpha, product.dtype), result)
    if product.dtype.kind <= Kind.INT:
        alpha, beta = _whole(alpha), _whole(beta)
    scaled = product if alpha == 1 else product * alpha
    if beta == 0:
        return scaled
    return scaled + (input if beta == 1 else input * beta)


def _whole(factor: float) -> int:
    whole = isinstance(factor, int) or factor.is_integer()
    require(
        whole, "A002", "a product of integers is scaled by whole numbers", factor=factor, hint="convert to floats first"
    )
    return int(factor)


@addmm.decompose
def addmm_decompose(input: Value, mat1: Value, mat2: Value, beta: float, alpha: float) -> Value:
    _require_matrices("addmm", mat1, mat2)
    return scaled_sum(input, exact_product(mat1, mat2), beta, alpha, mat1.dtype)


@addmm.ref
def addmm_ref(input: Array, mat1: Array, mat2: Array, beta: float, alpha: float) -> Array:
    product = np.matmul(compute_array(mat1), compute_array(mat2)) * alpha
    return (product + (beta * compute_array(input) if beta else 0)).astype(mat1.dtype)


@addmm.samples
def addmm_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 4), normal(rng, 3, 5), normal(rng, 5, 4))
    yield Sample(normal(rng, 3, 4), normal(rng, 3, 5), normal(rng, 5, 4), beta=-3.0, alpha=2.0)
    yield Sample(normal(rng, 3, 4) * np.float32(np.nan), normal(rng, 3, 5), normal(rng, 5, 4), beta=0)


baddbmm = define(
    "baddbmm(Tensor input, Tensor batch1, Tensor batch2, *, float beta=1, float alpha=1) -> Tensor",
    "beta * input + alpha * (batch1 @ batch2).",
    autocast="lower",
    dtypes="number",
    variants="function method inplace out",
)


@baddbmm.decompose
def baddbmm_decompose(input: Value, batch1: Value, batch2: Value, beta: float, alpha: float) -> Value:
    require_batches("baddbmm", batch1, batch2)
    return scaled_sum(input, exact_product(batch1, batch2), beta, alpha, batch1.dtype)


@baddbmm.ref
def baddbmm_ref(input: Array, batch1: Array, batch2: Array, beta: float, alpha: float) -> Array:
    return addmm_ref(input, batch1, batch2, beta, alpha)


@baddbmm.samples
def baddbmm_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 2, 1, 4), normal(rng, 2, 3, 5), normal(rng, 2, 5, 4), alpha=0.5)
    yield Sample(normal(rng, 2, 3, 4), normal(rng, 2, 3, 5), normal(rng, 2, 5, 4))


linear = define(
    "linear(Tensor input, Tensor weight, Tensor? bias=None) -> Tensor",
    "input @ weight.mT + bias: the last dim of `input` (..., in) against a weight (out, in).",
    facts=Fact.REDUCTION,
    dtypes="number",
    autocast="lower",
    variants="function out",
)


@linear.meta
def linear_meta(input: TensorType, weight: TensorType, bias: TensorType | None) -> TensorType:
    dtype = common_dtype("linear", input=input, weight=weight, bias=bias)
    require(input.ndim >= 1, "S002", "linear: the input needs at least 1 dim", input=input)
    require(weight.ndim == 2, "S002", "linear: the weight must have 2 dims", weight=weight)
    _inner("linear", input.shape[-1], weight.shape[1], _LINEAR_HINT, input=input, weight=weight)
    if bias is not None:
        fits = bias.ndim == 1 and same_size(bias.shape[0], weight.shape[0])
        require(fits, "S014", "linear: the bias does not fit the weight", weight=weight, bias=bias)
    return TensorType((*input.shape[:-1], weight.shape[0]), dtype, device_of(input, weight, bias))


@linear.ref
def linear_ref(input: Array, weight: Array, bias: Array | None) -> Array:
    product = np.matmul(compute_array(input), compute_array(weight).T)
    return np.asarray(product if bias is None else product + compute_array(bias)).astype(input.dtype)


@linear.lower
def linear_lower(at: At, input: Operand, weight: Operand, bias: Operand | None) -> Scalar:
    k = axis_symbol(input.shape[-1], "k")
    product_sum = wide_contract((k,), input[(*at[:-1], k)], weight[at[-1], k])
    if bias is not None:
        product_sum = product_sum + cast(bias[at[-1]], product_sum.type)
    return cast(product_sum, input.dtype)


@linear.vjp(types=("bias",))
def linear_vjp(g: Value, input: Value, weight: Value, bias: TensorType | None) -> Gradients:
    rows = product(input.shape[:-1])
    flat_g, flat_x = reshape(g, (rows, g.shape[-1])), reshape(input, (rows, input.shape[-1]))
    grad_bias = None if bias is None else sum_(flat_g, 0)
    return matmul(g, conjugate(weight)), matmul(mT(flat_g), conjugate(flat_x)), grad_bias


@linear.samples
def linear_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 3, 5), normal(rng, 4, 5), normal(rng, 4))
    yield Sample(normal(rng, 2, 3, 5), normal(rng, 4, 5))
    yield Sample(normal(rng, 5), normal(rng, 4, 5), normal(rng, 4))

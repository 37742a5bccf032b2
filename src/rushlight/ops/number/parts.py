"""Complex numbers and their parts, which lie side by side in memory: tensors of parts, and views of them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import ArrayLike

from rushlight.ir.dtype import DType, complex64, complex128, compute_dtype, float32, float64, real_dtype
from rushlight.ir.loops import Operand
from rushlight.ir.scalar import Scalar, apply, cast, index, select
from rushlight.ir.type import Layout, TensorType
from rushlight.ir.value import Value
from rushlight.ops.dims import Array, At, Shape, compute_array, normal
from rushlight.ops.pointwise.definition import element, sample_array, typed_result
from rushlight.ops.promote import unbroadcast
from rushlight.ops.record import OPERATORS, Fact, Gradients, Sample, define
from rushlight.ops.view.part import select as select_
from rushlight.support.errors import fail, require
from rushlight.sym import eq, required

_WHOLE: dict[DType, DType] = {float32: complex64, float64: complex128}


def _normal_complex(rng: np.random.Generator, *shape: int) -> Array:
    return (normal(rng, *shape) + 1j * normal(rng, *shape)).astype(np.complex64)


complex_ = define(
    "complex(Tensor real, Tensor imag) -> Tensor",
    "Complex numbers of their real and imaginary parts.",
    facts=Fact.POINTWISE,
    dtypes="float",
    variants="function out",
)


def require_parts(name: str, first: DType, second: DType) -> None:
    """D002, D001 unless both dtypes are the same floating-point one."""
    require(first is second, "D002", f"{name}: dtypes differ", first=first, second=second)
    require(first.is_floating_point, "D001", f"{name}: the dtype must be floating-point", given=first)


@complex_.meta
def complex_meta(real: TensorType, imag: TensorType) -> TensorType:
    require_parts("complex", real.dtype, imag.dtype)
    return typed_result(complex_, [real, imag], dtype=complex128 if real.dtype is float64 else complex64)


@complex_.ref
def complex_ref(real: Array, imag: Array) -> Array:
    first, second = np.broadcast_arrays(compute_array(real), compute_array(imag))
    result = np.empty(first.shape, np.result_type(first.dtype, np.complex64))
    result.real, result.imag = first, second
    return result


@complex_.lower
def complex_lower(at: At, real: Operand, imag: Operand) -> Scalar:
    return apply("complex", *[cast(element(part, at), compute_dtype(part.dtype)) for part in (real, imag)])


@complex_.vjp
def complex_vjp(g: Value, real: Value, imag: Value) -> Gradients:
    return unbroadcast(real_(g), real), unbroadcast(imag_(g), imag)


@complex_.samples
def complex_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(sample_array(rng, (3, 1)), sample_array(rng, (1, 5)))


def _of_parts(value: Value) -> Value:
    """The complex numbers of a real tensor's last dim, in storage of their own."""
    return complex_(select_(value, -1, 0), select_(value, -1, 1))


view_as_real = define(
    "view_as_real(Tensor(a) input) -> Tensor(a)",
    "A complex tensor's parts as a new last dim of size 2, in the same storage. Errors: D001 for real tensors.",
    facts=Fact.VIEW,
    dtypes="complex",
    variants="function",
)


@view_as_real.view
def view_as_real_view(input: Layout) -> Layout:
    dtype = input.dtype
    if dtype is None or not dtype.is_complex:
        fail("D001", "view_as_real: not a complex tensor", dtype=dtype)
    strides = (*[stride * 2 for stride in input.strides], 1)
    return Layout((*input.shape, 2), strides, input.offset * 2, real_dtype(dtype))


@view_as_real.ref
def view_as_real_ref(input: Array) -> Array:
    return np.stack([np.real(input), np.imag(input)], -1)


@view_as_real.lower
def view_as_real_lower(at: At, input: Operand) -> Scalar:
    value, part = input[at[:-1]], at[-1]
    real, imag = apply("real", value), apply("imag", value)
    if isinstance(part, int):
        return imag if part else real
    return select(index(part).equals(0), real, imag)


@view_as_real.vjp
def view_as_real_vjp(g: Value) -> Value:
    return _of_parts(g)


@view_as_real.inverse
def view_as_real_inverse(base: Value, value: Value) -> Value:
    return _of_parts(value)


@view_as_real.samples
def view_as_real_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(_normal_complex(rng, 3, 4))
    yield Sample(_normal_complex(rng))


view_as_complex = define(
    "view_as_complex(Tensor(a) input) -> Tensor(a)",
    "The complex numbers whose parts are the last dim, of size 2, in the same storage. Errors: D001, S003, S006.",
    facts=Fact.VIEW | Fact.PLACED,
    dtypes="float",
    variants="function",
    autocast="float32",
)


@view_as_complex.view
def view_as_complex_view(input: Layout) -> Layout:
    whole = None if input.dtype is None else _WHOLE.get(input.dtype)
    require(whole is not None, "D001", "view_as_complex: the parts must be float32 or float64", dtype=input.dtype)
    _require_pairs(input)
    strides = tuple([stride // 2 for stride in input.strides[:-1]])
    return Layout(input.shape[:-1], strides, input.offset // 2, whole)


def _require_pairs(input: Layout) -> None:
    shape: Shape = input.shape
    pairs = bool(shape) and required(eq(shape[-1], 2), "view_as_complex: the last dim has size 2")
    require(pairs, "S003", "view_as_complex: the last dim must have size 2", shape=shape)
    hint = "call contiguous() first"
    beside = required(eq(input.strides[-1], 1), "view_as_complex: the parts lie side by side")
    require(beside, "S006", "view_as_complex: the last dim must have stride 1", strides=input.strides, hint=hint)
    even = all(required(eq(stride % 2, 0)) for stride in input.strides[:-1])
    require(even, "S006", "view_as_complex: other strides must be even", strides=input.strides, hint=hint)


@view_as_complex.ref
def view_as_complex_ref(input: Array) -> Array:
    return complex_ref(input[..., 0], input[..., 1])


@view_as_complex.lower
def view_as_complex_lower(at: At, input: Operand) -> Scalar:
    return apply("complex", input[(*at, 0)], input[(*at, 1)])


@view_as_complex.vjp
def view_as_complex_vjp(g: Value) -> Value:
    return view_as_real(g)


@view_as_complex.inverse
def view_as_complex_inverse(base: Value, value: Value) -> Value:
    return view_as_real(value)


@view_as_complex.samples
def view_as_complex_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 3, 4, 2))
    yield Sample(normal(rng, 2))


real_ = define(
    "real(Tensor(a) input) -> Tensor(a)",
    "The real part of each element, in the same storage; a real tensor itself.",
    variants="function",
)


@real_.decompose
def real_decompose(input: Value) -> Value:
    return select_(view_as_real(input), -1, 0) if input.dtype.is_complex else OPERATORS["alias"](input)


@real_.ref
def real_ref(input: ArrayLike) -> Array:
    return np.real(np.asarray(input))


@real_.samples
def real_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 3, 5))
    yield Sample(_normal_complex(rng, 4, 3))


imag_ = define(
    "imag(Tensor(a) input) -> Tensor(a)",
    "The imaginary part of each element, in the same storage. Errors: D001 for real tensors.",
    dtypes="complex",
    variants="function",
)


@imag_.decompose
def imag_decompose(input: Value) -> Value:
    require(input.dtype.is_complex, "D001", "imag: the tensor has no imaginary part", input=input.dtype)
    return select_(view_as_real(input), -1, 1)


@imag_.ref
def imag_ref(input: ArrayLike) -> Array:
    return np.imag(np.asarray(input))


@imag_.samples
def imag_samples(rng: np.random.Generator) -> Iterator[Sample]:
    for shape in ((), (7,), (3, 5)):
        yield Sample(_normal_complex(rng, *shape))

"""Bilinear forms of two vectors, one for each element of the result."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from rushlight.ir.dtype import Kind
from rushlight.ir.value import Value
from rushlight.ops.contract.matmul import common_dtype, matmul
from rushlight.ops.dims import Array, compute_array, convert, normal, same_shape, same_size, widened
from rushlight.ops.record import Sample, define
from rushlight.ops.reduce.reduction import sum_
from rushlight.ops.view.reorder import permute, unsqueeze
from rushlight.ops.view.reshape import reshape
from rushlight.support.errors import require

bilinear = define(
    "bilinear(Tensor input1, Tensor input2, Tensor weight, Tensor? bias=None) -> Tensor",
    "x1' W_k x2 + b_k for each matrix of weight (out, in1, in2), of vectors along the last dims.",
    dtypes="number",
    variants="function",
)


@bilinear.decompose
def bilinear_decompose(input1: Value, input2: Value, weight: Value, bias: Value | None) -> Value:
    dtype = common_dtype("bilinear", input1=input1, input2=input2, weight=weight, bias=bias)
    fits = weight.ndim == 3 and input1.ndim > 0 and input1.ndim == input2.ndim
    shapes: dict[str, Any] = {"input1": input1.shape, "input2": input2.shape, "weight": weight.shape}
    require(fits, "S002", "bilinear: inputs have one number of dims, and the weight has 3", **shapes)
    require(same_shape(input1.shape[:-1], input2.shape[:-1]), "S014", "bilinear: inputs differ in shape", **shapes)
    fits = same_size(input1.shape[-1], weight.shape[1]) and same_size(input2.shape[-1], weight.shape[2])
    require(fits, "S003", "bilinear: inputs do not fit the weight", **shapes)
    out, first, second = weight.shape
    matrix = reshape(permute(weight, (1, 0, 2)), (first, out * second))
    half = reshape(matmul(input1, matrix), (*input1.shape[:-1], out, second))
    result = sum_(widened(half) * unsqueeze(widened(input2), -2), -1)
    result = convert(result, dtype) if dtype.kind is Kind.INT else result
    if bias is not None:
        require(same_shape(bias.shape, (out,)), "S014", "bilinear: a bias for each matrix", bias=bias.shape, **shapes)
        result = result + widened(bias)
    return convert(result, dtype)


@bilinear.ref
def bilinear_ref(input1: Array, input2: Array, weight: Array, bias: Array | None) -> Array:
    operands = [compute_array(operand) for operand in (input1, weight, input2)]
    result = np.einsum("...i,kij,...j->...k", *operands)
    return np.asarray(result if bias is None else result + compute_array(bias)).astype(input1.dtype)


@bilinear.samples
def bilinear_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 2, 3), normal(rng, 2, 4), normal(rng, 5, 3, 4), normal(rng, 5))

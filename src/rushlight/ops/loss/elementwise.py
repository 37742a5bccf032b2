"""Losses. All are computed in float32 or wider; `reduction` is "none", "mean" or "sum"."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from rushlight.ir.dtype import DType, real_dtype
from rushlight.ir.value import Value
from rushlight.ops.create import count_of
from rushlight.ops.dims import Array, compute_array, convert, normal, same_shape, widened
from rushlight.ops.pointwise.comparison import eq, lt
from rushlight.ops.pointwise.complex import abs_
from rushlight.ops.pointwise.elementary import exp, log, log1p
from rushlight.ops.pointwise.rounding import maximum
from rushlight.ops.pointwise.selection import where
from rushlight.ops.promote import broadcast, promote_dtypes
from rushlight.ops.record import FAMILIES, Sample, define
from rushlight.ops.reduce.reduction import mean, sum_
from rushlight.support.errors import require


def reduced_loss(loss: Value, reduction: str, op: str) -> Value:
    """A loss per element, or its mean or sum."""
    check_reduction(reduction, op)
    return loss if reduction == "none" else mean(loss) if reduction == "mean" else sum_(loss)


def check_reduction(reduction: str, op: str) -> None:
    """A002 unless the reduction has a meaning."""
    require(reduction in ("none", "mean", "sum"), "A002", f"{op}: reduction is none, mean or sum", reduction=reduction)


def _reduced_array(loss: Array, reduction: str, dtype: np.dtype[Any]) -> Array:
    reduced = loss if reduction == "none" else np.mean(loss) if reduction == "mean" else np.sum(loss)
    return np.asarray(reduced).astype(dtype)


def _pair(input: Value, target: Value, op: str, dtypes: str = "float") -> tuple[Value, Value, DType]:
    """Both operands in the dtype in which the loss is computed, and the dtype of the result."""
    result = promote_dtypes(input.dtype, target.dtype)
    broadcast(input.shape, target.shape)
    require(result.kind in FAMILIES[dtypes], "D001", f"{op}: operands must be floating-point")
    return widened(convert(input, result)), widened(convert(target, result)), result


def _pair_arrays(input: Array, target: Array) -> tuple[Array, Array, np.dtype[Any]]:
    return compute_array(input), compute_array(target), np.result_type(input, target)


mse_loss = define(
    "mse_loss(Tensor input, Tensor target, str reduction='mean') -> Tensor",
    "Squared differences.",
    dtypes="float",
    autocast="float32",
    variants="function",
)


@mse_loss.decompose
def mse_loss_decompose(input: Value, target: Value, reduction: str) -> Value:
    x, y, result = _pair(input, target, "mse_loss")
    offset = x - y
    return convert(reduced_loss(offset * offset, reduction, "mse_loss"), result)


@mse_loss.ref
def mse_loss_ref(input: Array, target: Array, reduction: str) -> Array:
    x, y, result = _pair_arrays(input, target)
    return _reduced_array((x - y) ** 2, reduction, result)


@mse_loss.samples
def mse_loss_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 3, 5), normal(rng, 3, 5))
    yield Sample(normal(rng, 3, 5), normal(rng, 3, 5), "sum")
    yield Sample(normal(rng, 3, 5), normal(rng, 3, 5), "none")


l1_loss = define(
    "l1_loss(Tensor input, Tensor target, str reduction='mean') -> Tensor",
    "Absolute differences; real ones of complex operands.",
    dtypes="inexact",
    autocast="float32",
    variants="function",
)


@l1_loss.decompose
def l1_loss_decompose(input: Value, target: Value, reduction: str) -> Value:
    x, y, result = _pair(input, target, "l1_loss", "inexact")
    return convert(reduced_loss(abs_(x - y), reduction, "l1_loss"), real_dtype(result))


@l1_loss.ref
def l1_loss_ref(input: Array, target: Array, reduction: str) -> Array:
    x, y, result = _pair_arrays(input, target)
    return _reduced_array(np.abs(x - y), reduction, np.real(np.zeros((), result)).dtype)


@l1_loss.samples
def l1_loss_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield from mse_loss_samples(rng)


smooth_l1_loss = define(
    "smooth_l1_loss(Tensor input, Tensor target, str reduction='mean', float beta=1.0) -> Tensor",
    "Absolute differences less beta/2, and squared ones over 2 beta where they are below beta.",
    dtypes="float",
    autocast="float32",
    variants="function",
)


@smooth_l1_loss.decompose
def smooth_l1_loss_decompose(input: Value, target: Value, reduction: str, beta: float) -> Value:
    if beta == 0:
        return l1_loss(input, target, reduction)
    require(beta > 0, "A002", "smooth_l1_loss: beta must not be negative", beta=beta)
    x, y, result = _pair(input, target, "smooth_l1_loss")
    distance = abs_(x - y)
    squared = distance * distance * (0.5 / beta)
    loss = where(lt(distance, beta), squared, distance - 0.5 * beta)
    return convert(reduced_loss(loss, reduction, "smooth_l1_loss"), result)


@smooth_l1_loss.ref
def smooth_l1_loss_ref(input: Array, target: Array, reduction: str, beta: float) -> Array:
    x, y, result = _pair_arrays(input, target)
    distance = np.abs(x - y)
    squared = 0.5 * distance**2 / (beta or 1)
    return _reduced_array(np.where(distance < beta, squared, distance - 0.5 * beta), reduction, result)


@smooth_l1_loss.samples
def smooth_l1_loss_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 3, 5), normal(rng, 3, 5))
    yield Sample(normal(rng, 3, 5), normal(rng, 3, 5), "none", 0.5)
    yield Sample(normal(rng, 3, 5), normal(rng, 3, 5), "sum", 0.0)


huber_loss = define(
    "huber_loss(Tensor input, Tensor target, str reduction='mean', float delta=1.0) -> Tensor",
    "Half the squared difference up to delta, linear beyond.",
    dtypes="float",
    autocast="float32",
    variants="function",
)


@huber_loss.decompose
def huber_loss_decompose(input: Value, target: Value, reduction: str, delta: float) -> Value:
    require(delta > 0, "A002", "huber_loss: delta must be positive", delta=delta)
    x, y, result = _pair(input, target, "huber_loss")
    distance = abs_(x - y)
    linear = (distance - 0.5 * delta) * delta
    loss = where(lt(distance, delta), distance * distance * 0.5, linear)
    return convert(reduced_loss(loss, reduction, "huber_loss"), result)


@huber_loss.ref
def huber_loss_ref(input: Array, target: Array, reduction: str, delta: float) -> Array:
    x, y, result = _pair_arrays(input, target)
    distance = np.abs(x - y)
    loss = np.where(distance < delta, 0.5 * distance**2, delta * (distance - 0.5 * delta))
    return _reduced_array(loss, reduction, result)


@huber_loss.samples
def huber_loss_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 3, 5), normal(rng, 3, 5), delta=0.7)


binary_cross_entropy = define(
    "binary_cross_entropy(Tensor input, Tensor target, Tensor? weight=None, str reduction='mean') -> Tensor",
    "-(target log input + (1 - target) log(1 - input)), with logarithms of at least -100, as in PyTorch.",
    dtypes="float",
    autocast="float32",
    variants="function",
)


@binary_cross_entropy.decompose
def binary_cross_entropy_decompose(input: Value, target: Value, weight: Value | None, reduction: str) -> Value:
    _require_same(input, target, "binary_cross_entropy")
    x, y, result = _pair(input, target, "binary_cross_entropy")
    there, other = maximum(log(x), -100.0), maximum(log1p(-x), -100.0)
    loss = (y - 1.0) * other - y * there
    loss = loss if weight is None else loss * widened(weight)
    return convert(reduced_loss(loss, reduction, "binary_cross_entropy"), result)


def _require_same(input: Value, target: Value, op: str) -> None:
    fits = same_shape(input.shape, target.shape)
    require(fits, "S014", f"{op}: input and target differ in shape", input=input.shape, target=target.shape)


@binary_cross_entropy.ref
def binary_cross_entropy_ref(input: Array, target: Array, weight: Array | None, reduction: str) -> Array:
    x, y, result = _pair_arrays(input, target)
    with np.errstate(divide="ignore"):
        there, other = np.maximum(np.log(x), -100), np.maximum(np.log1p(-x), -100)
    loss = (y - 1) * other - y * there
    return _reduced_array(loss if weight is None else loss * compute_array(weight), reduction, result)


def _chances(rng: np.random.Generator, *shape: int) -> Array:
    return (0.1 + 0.8 * rng.random(shape)).astype(np.float32)


@binary_cross_entropy.samples
def binary_cross_entropy_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(_chances(rng, 3, 5), _chances(rng, 3, 5))
    yield Sample(_chances(rng, 3, 5), _chances(rng, 3, 5), _chances(rng, 5), "none")


binary_cross_entropy_with_logits = define(
    "binary_cross_entropy_with_logits(Tensor input, Tensor target, Tensor? weight=None, str reduction='mean', "
    "Tensor? pos_weight=None) -> Tensor",
    "binary_cross_entropy of sigmoid(input), without overflow.",
    dtypes="float",
    autocast="float32",
    variants="function",
)


@binary_cross_entropy_with_logits.decompose
def binary_cross_entropy_with_logits_decompose(
    input: Value, target: Value, weight: Value | None, reduction: str, pos_weight: Value | None
) -> Value:
    _require_same(input, target, "binary_cross_entropy_with_logits")
    x, y, result = _pair(input, target, "binary_cross_entropy_with_logits")
    # -log sigmoid(x) = log1p(exp(-|x|)) + max(-x, 0)
    softened = log1p(exp(-abs_(x))) + maximum(-x, 0.0)
    if pos_weight is not None:
        softened = softened * (1.0 + (widened(pos_weight) - 1.0) * y)
    loss = (1.0 - y) * x + softened
    loss = loss if weight is None else loss * widened(weight)
    return convert(reduced_loss(loss, reduction, "binary_cross_entropy_with_logits"), result)


@binary_cross_entropy_with_logits.ref
def binary_cross_entropy_with_logits_ref(
    input: Array, target: Array, weight: Array | None, reduction: str, pos_weight: Array | None
) -> Array:
    x, y, result = _pair_arrays(input, target)
    factor = 1 if pos_weight is None else 1 + (compute_array(pos_weight) - 1) * y
    loss = (1 - y) * x + factor * (np.log1p(np.exp(-np.abs(x))) + np.maximum(-x, 0))
    return _reduced_array(loss if weight is None else loss * compute_array(weight), reduction, result)


@binary_cross_entropy_with_logits.samples
def binary_cross_entropy_with_logits_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 3, 5), _chances(rng, 3, 5))
    yield Sample(normal(rng, 3, 5) * 3, _chances(rng, 3, 5), _chances(rng, 5), "none", _chances(rng, 5))


kl_div = define(
    "kl_div(Tensor input, Tensor target, str reduction='mean', bool log_target=False) -> Tensor",
    'target (log target - input), 0 where the target is 0; reduction "batchmean" divides the sum by the batch size.',
    dtypes="float",
    autocast="float32",
    variants="function",
)


@kl_div.decompose
def kl_div_decompose(input: Value, target: Value, reduction: str, log_target: bool) -> Value:
    x, y, result = _pair(input, target, "kl_div")
    if log_target:
        loss = exp(y) * (y - x)
    else:
        is_zero = eq(y, 0)
        logarithm = log(where(is_zero, 1.0, y))
        loss = y * (logarithm - x)
    if reduction == "batchmean":
        size = input.shape[0] if input.shape else 1
        return convert(sum_(loss) / count_of(loss, size), result)
    return convert(reduced_loss(loss, reduction, "kl_div"), result)


@kl_div.ref
def kl_div_ref(input: Array, target: Array, reduction: str, log_target: bool) -> Array:
    x, y, result = _pair_arrays(input, target)
    if log_target:
        loss = np.exp(y) * (y - x)
    else:
        loss = np.where(y == 0, 0, y * (np.log(np.where(y == 0, 1, y)) - x))
    if reduction == "batchmean":
        return np.asarray(np.sum(loss) / max(input.shape[0] if input.shape else 1, 1)).astype(result)
    return _reduced_array(loss, reduction, result)


@kl_div.samples
def kl_div_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 3, 5), _chances(rng, 3, 5), "batchmean")
    yield Sample(normal(rng, 3, 5), normal(rng, 3, 5), "sum", True)
    yield Sample(normal(rng, 3, 5), _chances(rng, 3, 5), "none")

"""Losses that are negative logarithms of likelihoods."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from rushlight.eager import functions as ops
from rushlight.eager.autocast import autocasts
from rushlight.eager.boundary import checked
from rushlight.eager.creation import tensor
from rushlight.eager.dispatch import STATE
from rushlight.eager.symbols import holds
from rushlight.eager.tensor import Tensor
from rushlight.ir.dtype import DType, Kind, float32, int64
from rushlight.nn.functional.loss import cross_entropy, reduced, reduction_of
from rushlight.ops.record import OPERATORS
from rushlight.support.errors import require


@autocasts("float32")
@checked
def poisson_nll_loss(
    input: Tensor,
    target: Tensor,
    log_input: bool = True,
    full: bool = False,
    size_average: bool | None = None,
    eps: float = 1e-8,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Return `rate - target * log(rate)`, reduced; the input is the rate or its logarithm.

    `full` adds Stirling's approximation of `log(target!)`.
    """
    losses = ops.exp(input) - target * input if log_input else input - target * ops.log(input + eps)
    if full:
        several = target > 1
        count = ops.where(several, target, 1)
        stirling = count * ops.log(count) - count + 0.5 * ops.log(2 * math.pi * count)
        losses = losses + ops.where(several, stirling, 0.0)
    return reduced(losses, reduction_of(size_average, reduce, reduction), "poisson_nll_loss")


def _variance(input: Tensor, var: Tensor | float) -> Tensor:
    """The variance as a tensor that broadcasts against the input: of its shape, or one for each row."""
    if not isinstance(var, Tensor):
        require(var >= 0, "A002", "gaussian_nll_loss: var has negative entries", var=var)
        return ops.full_like(input, var)
    # A program that is traced does not read values.
    valid = STATE.tracer is not None or not bool((var < 0).any())
    require(valid, "A002", "gaussian_nll_loss: var has negative entries")
    if tuple(var.shape) == tuple(input.shape):
        return var
    if tuple(var.shape) == tuple(input.shape[:-1]):
        return var.unsqueeze(-1)
    pairs = list(zip(input.shape, var.shape, strict=False))
    fits = input.ndim == var.ndim and sum([other for own, other in pairs if own != other]) == 1
    require(fits, "S014", "gaussian_nll_loss: var is of incorrect size", input=input, var=var)
    return var


@checked
def gaussian_nll_loss(
    input: Tensor,
    target: Tensor,
    var: Tensor | float,
    full: bool = False,
    eps: float = 1e-6,
    reduction: str = "mean",
) -> Tensor:
    """Return `(log(var) + (input - target)² / var) / 2`, reduced.

    `full` adds the constant of the density. Variances count as at least `eps`, which has no effect on their gradient.
    """
    given = _variance(input, var)
    raised = ops.clamp_min(given.detach(), eps)
    spread = raised + (given - given.detach())
    losses = 0.5 * (ops.log(spread) + (input - target) ** 2 / spread)
    losses = losses + 0.5 * math.log(2 * math.pi) if full else losses
    return reduced(losses, reduction, "gaussian_nll_loss")


@dataclass(frozen=True, slots=True)
class LinearCrossEntropyOptions:
    """How PyTorch computes `linear_cross_entropy` in chunks of rows, so that it never holds all logits.

    All fields are checked. The dtype that sums are added in is what changes results: `acc_dtype`, or float32 for 16-bit
    floats where `acc_policy` is "auto". The others change none here: a compiled function stores what it has to, and any
    backward pass may run again.

    ```python
    rl.nn.LinearCrossEntropyOptions(batch_chunk_size=64, chunking_method=None)
    ```
    """

    allow_retain_graph: bool = False
    batch_chunk_size: int | None = None
    chunking_method: str | None = "auto"
    acc_policy: str = "auto"
    acc_dtype: DType | None = None

    def __post_init__(self) -> None:
        name = "LinearCrossEntropyOptions"
        policy, size, dtype = self.acc_policy, self.batch_chunk_size, self.acc_dtype
        method = self.chunking_method in (None, "auto") or _BY_RATIO.fullmatch(str(self.chunking_method)) is not None
        require(policy in _POLICIES, "A002", f"{name}: acc_policy is one of {', '.join(_POLICIES)}", acc_policy=policy)
        require(
            method, "A002", f"{name}: chunking_method is auto or aspect_ratio:n", chunking_method=self.chunking_method
        )
        require(size is None or (isinstance(size, int) and size > 0), "A002", f"{name}: chunks have rows", size=size)
        require(dtype is None or dtype.kind is Kind.FLOAT, "D001", f"{name}: acc_dtype is a float's", acc_dtype=dtype)

    def accumulator(self, dtype: DType) -> DType:
        """The dtype that a loss of inputs of `dtype` is computed in."""
        wide = float32 if self.acc_policy == "auto" and dtype.itemsize < float32.itemsize else dtype
        return wide if self.acc_dtype is None else self.acc_dtype


_POLICIES = ("auto", "accurate", "balanced", "compact")
_BY_RATIO = re.compile(r"aspect_ratio(:0*[1-9][0-9]*)?")


@checked
def linear_cross_entropy(
    input: Tensor,
    linear_weight: Tensor,
    target: Tensor,
    *,
    linear_bias: Tensor | None = None,
    weight: Tensor | None = None,
    reduction: str = "mean",
    ignore_index: int | None = None,
    label_smoothing: float = 0.0,
    options: LinearCrossEntropyOptions | None = None,
) -> Tensor:
    """Return `cross_entropy` of `linear`; the weight may have dims between classes and features.

    `options` are for classes as int64, a weight of 2 dims and no smoothing, and of no effect elsewhere.
    """
    known = options is None or isinstance(options, LinearCrossEntropyOptions)
    require(known, "A001", "linear_cross_entropy: options are LinearCrossEntropyOptions", options=options)
    require(input.ndim in (1, 2), "S002", "linear_cross_entropy: the input has 1 or 2 dims", input=input)
    require(
        linear_weight.ndim >= 2, "S002", "linear_cross_entropy: the weight has 2 dims or more", weight=linear_weight
    )
    classes, *extra, features = linear_weight.shape
    dtype, chunked = input.dtype, not extra and label_smoothing == 0.0 and target.dtype is int64
    if options is not None and chunked:
        wide = options.accumulator(dtype)
        input, linear_weight = input.to(wide), linear_weight.to(wide)
        linear_bias = None if linear_bias is None else linear_bias.to(wide)
        weight = None if weight is None else weight.to(wide)
    alike = holds(features == input.shape[-1], "linear_cross_entropy: the weight fits the input")
    require(alike, "S003", "linear_cross_entropy: the weight does not fit", input=input, weight=linear_weight)
    fits = linear_bias is None or tuple(linear_bias.shape) == (classes, *extra)
    require(fits, "S014", "linear_cross_entropy: the bias does not fit the weight", bias=linear_bias)
    batched = not extra or input.ndim == 2
    require(batched, "S002", "linear_cross_entropy: a loss of several dims needs a batch", input=input)
    rows = math.prod(extra, start=classes)
    bias = linear_bias if linear_bias is None else linear_bias.reshape(rows)
    logits = ops.linear(input, linear_weight.reshape(rows, features), bias)
    logits = logits.reshape(*input.shape[:-1], classes, *extra)
    classed = ignore_index is None or tuple(target.shape) != tuple(logits.shape)
    require(classed, "A004", "linear_cross_entropy: ignore_index is for classes", ignore_index=ignore_index)
    ignored = -100 if ignore_index is None else ignore_index
    loss = cross_entropy(
        logits, target, weight, ignore_index=ignored, reduction=reduction, label_smoothing=label_smoothing
    )
    return loss.to(dtype) if options is not None else loss


def _lengths(lengths: object, like: Tensor) -> Tensor:
    counts = lengths if isinstance(lengths, Tensor) else tensor(lengths)
    require(counts.dtype.kind is Kind.INT, "D001", "ctc_loss: lengths are integers", lengths=counts)
    return counts.to(device=like.device).long()


@autocasts("float32")
@checked
def ctc_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Tensor | tuple[int, ...],
    target_lengths: Tensor | tuple[int, ...],
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> Tensor:
    """Return -log of the likelihood of texts by connectionist temporal classification, reduced.

    The mean is of losses over the lengths of their texts. With `zero_infinity`, a text that no path gives counts as 0.
    """
    require(log_probs.ndim in (2, 3), "S002", "ctc_loss: log_probs have 2 or 3 dims", log_probs=log_probs)
    batched = log_probs.ndim == 3
    steps, lengths = _lengths(input_lengths, log_probs), _lengths(target_lengths, log_probs)
    if not batched:
        log_probs, steps, lengths = log_probs.unsqueeze(1), steps.reshape(-1), lengths.reshape(-1)
    losses = OPERATORS["ctc_losses"](log_probs, targets, steps, lengths, blank)
    losses = ops.where(losses == math.inf, 0.0, losses) if zero_infinity else losses
    if reduction == "mean":
        losses = losses / ops.clamp_min(lengths, 1)
    return reduced(losses if batched else losses.squeeze(0), reduction, "ctc_loss")

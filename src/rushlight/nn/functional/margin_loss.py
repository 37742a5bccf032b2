"""Losses that ask for a margin: between scores of classes, or between distances of pairs and triplets."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from rushlight.eager import functions as ops
from rushlight.eager.autocast import autocasts
from rushlight.eager.boundary import checked
from rushlight.eager.dispatch import call_user
from rushlight.eager.symbols import holds
from rushlight.eager.tensor import Tensor
from rushlight.ir.dtype import Kind
from rushlight.nn.functional.loss import reduced, reduction_of
from rushlight.support.errors import require


def _require_vectors(op: str, **tensors: Any) -> None:
    first, *others = tensors.values()
    same = all(other.ndim == first.ndim for other in others)
    require(same, "S002", f"{op}: operands differ in their number of dims", **tensors)


@autocasts("float32")
@checked
def margin_ranking_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Return `max(0, margin - target * (input1 - input2))`, reduced; targets are 1 or -1."""
    _require_vectors("margin_ranking_loss", input1=input1, input2=input2, target=target)
    losses = ops.clamp_min(-target * (input1 - input2) + margin, 0)
    return reduced(losses, reduction_of(size_average, reduce, reduction), "margin_ranking_loss")


@autocasts("float32")
@checked
def hinge_embedding_loss(
    input: Tensor,
    target: Tensor,
    margin: float = 1.0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Return the input where the target is 1 and `max(0, margin - input)` where it is -1, reduced."""
    apart = ops.where(target != 1, ops.clamp_min(margin - input, 0), 0.0)
    near = ops.where(target != -1, input, 0.0)
    return reduced(near + apart, reduction_of(size_average, reduce, reduction), "hinge_embedding_loss")


_LEAST = 1e-12  # what squared lengths are raised by


@autocasts("float32")
@checked
def cosine_embedding_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Return 1 - cosine of pairs whose target is 1 and `max(0, cosine - margin)` where it is -1, reduced."""
    dim = target.ndim
    fits = dim <= 1 and input1.ndim == input2.ndim == dim + 1
    require(fits, "S002", "cosine_embedding_loss: a target for each pair of vectors", input1=input1, target=target)
    product = (input1 * input2).sum(dim)
    lengths = ((input1 * input1).sum(dim) + _LEAST) * ((input2 * input2).sum(dim) + _LEAST)
    cosine = product / lengths.sqrt()
    apart = ops.where(target == -1, ops.clamp_min(cosine - margin, 0), 0.0)
    losses = ops.where(target == 1, 1 - cosine, 0.0) + apart
    return reduced(losses, reduction_of(size_average, reduce, reduction), "cosine_embedding_loss")


def _batched(input: Tensor, op: str) -> Tensor:
    """(Samples, classes), of an input that may lack the samples, or both for a single class."""
    require(input.ndim <= 2, "S002", f"{op}: the input is (samples, classes), or classes alone", input=input)
    require(input.is_floating_point(), "D001", f"{op}: the input must be floating-point", input=input)
    rows = input if input.ndim == 2 else input.reshape(1, -1)
    filled = holds(rows.shape[-1] != 0, f"{op}: there are classes")
    require(filled, "S010", f"{op}: the input has no classes", input=input)
    return rows


def _require_targets(target: Tensor, op: str) -> None:
    require(target.dtype.kind is Kind.INT, "D001", f"{op}: targets are classes", target=target)


@autocasts("float32")
@checked
def multi_margin_loss(
    input: Tensor,
    target: Tensor,
    p: int = 1,
    margin: float = 1.0,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Return the mean over other classes of `max(0, margin - own score + score) ** p`, reduced."""
    require(p in (1, 2), "A002", "multi_margin_loss: p is 1 or 2", p=p)
    scores = _batched(input, "multi_margin_loss")
    _require_targets(target, "multi_margin_loss")
    classes = target.reshape(-1, 1)
    fits = target.ndim <= 1 and holds(
        classes.shape[0] == scores.shape[0], "multi_margin_loss: a target for each sample"
    )
    require(fits, "S014", "multi_margin_loss: a target for each sample", input=input, target=target)
    over = margin - scores.gather(1, classes) + scores
    losses = ops.where(over > 0, over if p == 1 else over * over, 0.0)
    if weight is not None:
        alone = weight.ndim == 1 and holds(weight.shape[0] == scores.shape[1], "multi_margin_loss: class weights")
        require(alone, "S014", "multi_margin_loss: a weight for each class", input=input, weight=weight)
        losses = losses * weight[classes]
    numbers = ops.arange(0, scores.shape[1], device=scores.device)
    losses = ops.where(numbers == classes, 0.0, losses).sum(1) / scores.shape[1]
    losses = losses if input.ndim == 2 or target.ndim else losses.squeeze(0)
    return reduced(losses, reduction_of(size_average, reduce, reduction), "multi_margin_loss")


@autocasts("float32")
@checked
def multilabel_margin_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Return the sum of `max(0, 1 - score of a target + score of another class)` over classes, reduced.

    Each row of targets lists classes up to the first -1.
    """
    scores = _batched(input, "multilabel_margin_loss")
    _require_targets(target, "multilabel_margin_loss")
    fits = tuple(input.shape) == tuple(target.shape)
    require(fits, "S014", "multilabel_margin_loss: input and target differ in shape", input=input, target=target)
    rows = target if input.ndim == 2 else target.reshape(1, -1)
    listed = ops.cumprod((rows >= 0).long(), 1) > 0
    classes = ops.where(listed, rows, 0)
    own = scores.gather(1, classes).unsqueeze(2)
    numbers = ops.arange(0, scores.shape[1], device=scores.device)
    is_target = ((classes.unsqueeze(2) == numbers) & listed.unsqueeze(2)).any(1, True)
    over = 1 - own + scores.unsqueeze(1)
    counted = listed.unsqueeze(2) & ~is_target & (over > 0)
    losses = ops.where(counted, over, 0.0).sum((1, 2)) / scores.shape[1]
    losses = losses if input.ndim == 2 else losses.squeeze(0)
    return reduced(losses, reduction_of(size_average, reduce, reduction), "multilabel_margin_loss")


@autocasts("float32")
@checked
def soft_margin_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Return `log(1 + exp(-target * input))`, reduced; targets are 1 or -1."""
    return reduced(-ops.logsigmoid(target * input), reduction_of(size_average, reduce, reduction), "soft_margin_loss")


@checked
def multilabel_soft_margin_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Return the mean over classes of the cross-entropy of the input's sigmoid, reduced over samples."""
    losses = -(target * ops.logsigmoid(input) + (1 - target) * ops.logsigmoid(-input))
    losses = losses if weight is None else losses * weight
    require(input.ndim, "S002", "multilabel_soft_margin_loss: the input needs a dim of classes", input=input)
    losses = losses.sum(-1) / input.shape[-1]
    return reduced(losses, reduction_of(size_average, reduce, reduction), "multilabel_soft_margin_loss")


@autocasts("float32")
@checked
def triplet_margin_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    margin: float = 1.0,
    p: float = 2,
    eps: float = 1e-6,
    swap: bool = False,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Return `max(0, margin + distance to the positive - distance to the negative)`, reduced.

    With `swap`, the positive's distance to the negative counts where it is less than the anchor's.
    """
    reduction = reduction_of(size_average, reduce, reduction)
    return _triplet(
        anchor, positive, negative, lambda x, y: ops.pairwise_distance(x, y, p, eps), margin, swap, reduction
    )


@checked
def triplet_margin_with_distance_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    *,
    distance_function: Callable[[Tensor, Tensor], Tensor] | None = None,
    margin: float = 1.0,
    swap: bool = False,
    reduction: str = "mean",
) -> Tensor:
    """Return `triplet_margin_loss` with a distance of the caller's."""
    distance = ops.pairwise_distance if distance_function is None else partial(call_user, distance_function)
    return _triplet(anchor, positive, negative, distance, margin, swap, reduction)


def _triplet(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    distance: Callable[[Tensor, Tensor], Tensor],
    margin: float,
    swap: bool,
    reduction: str,
) -> Tensor:
    _require_vectors("triplet_margin_loss", anchor=anchor, positive=positive, negative=negative)
    require(margin > 0, "A002", "triplet_margin_loss: margin must be greater than 0", margin=margin)
    near, far = distance(anchor, positive), distance(anchor, negative)
    far = ops.minimum(far, distance(positive, negative)) if swap else far
    return reduced(ops.clamp_min(margin + near - far, 0), reduction, "triplet_margin_loss")

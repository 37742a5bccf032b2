"""Losses of class predictions: nll_loss and cross_entropy. Classes are dim 1 of the input, or dim 0 of a 1-D one."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from rushlight.ir.dtype import Kind
from rushlight.ir.value import Value
from rushlight.ops.create import count_of, positions
from rushlight.ops.dims import Array, Shape, compute_array, convert, integers, normal, replaced, same_shape, widened
from rushlight.ops.index.read import gather, index
from rushlight.ops.loss.elementwise import check_reduction
from rushlight.ops.pointwise.comparison import eq, logical_and, ne
from rushlight.ops.pointwise.elementary import exp, log
from rushlight.ops.pointwise.selection import where
from rushlight.ops.record import Gradients, Sample, define
from rushlight.ops.reduce.minmax import amax
from rushlight.ops.reduce.reduction import sum_
from rushlight.ops.reduce.softmax import log_softmax
from rushlight.ops.view.reorder import squeeze, unsqueeze
from rushlight.ops.view.reshape import reshape
from rushlight.support.errors import require
from rushlight.sym import Size, maximum, product


def _class_dim(shape: Shape, op: str) -> int:
    require(shape, "S002", f"{op}: the input needs a dim of classes", input=shape)
    return min(1, len(shape) - 1)


def _check_weight(input: Value, weight: Value | None, class_dim: int, op: str) -> None:
    if weight is not None:
        fits = same_shape(weight.shape, (input.shape[class_dim],))
        require(fits, "S014", f"{op}: one weight for each class is needed", input=input.shape, weight=weight.shape)


def _check_target(input: Value, target: Value, weight: Value | None, op: str) -> int:
    class_dim = _class_dim(input.shape, op)
    fits = same_shape(replaced(input.shape, class_dim), target.shape)
    require(fits, "S014", f"{op}: the target does not fit the input", input=input.shape, target=target.shape)
    require(target.dtype.kind is Kind.INT, "D001", f"{op}: class targets must be integers", target=target.shape)
    _check_weight(input, weight, class_dim, op)
    return class_dim


class Targets:
    """Class targets made ready; all have size 1 in the class dim `place`.

    `safe` has class 0 where the target is ignored, `kept` is False there, and `weight` is each target's, or None for 1.
    """

    __slots__ = ("kept", "place", "safe", "weight")

    def __init__(self, input: Value, target: Value, weight: Value | None, ignore_index: int, op: str) -> None:
        self.place = _check_target(input, target, weight, op)
        wide = unsqueeze(target, self.place)
        self.kept = ne(wide, ignore_index)
        self.safe = where(self.kept, wide, 0)
        self.weight = None if weight is None else index(widened(weight), (self.safe,), (0,))

    def masked(self, value: Value) -> Value:
        """A value per target, 0 where ignored."""
        return where(self.kept, value, 0.0)

    def total(self) -> Value:
        """What a mean is divided by: the number, or the sum of weights, of the targets that are not ignored."""
        return sum_(self.kept) if self.weight is None else sum_(self.masked(self.weight))

    def weighted(self, value: Value) -> Value:
        """A value per target times its weight."""
        return value if self.weight is None else value * self.weight


nll_loss = define(
    "nll_loss(Tensor input, Tensor target, Tensor? weight=None, int ignore_index=-100, str reduction='mean') -> Tensor",
    "Minus the target class's element, which is a log probability; a mean is weighted and leaves ignored targets out.",
    dtypes="float",
    autocast="float32",
    variants="function",
)


@nll_loss.decompose
def nll_loss_decompose(input: Value, target: Value, weight: Value | None, ignore_index: int, reduction: str) -> Value:
    check_reduction(reduction, "nll_loss")
    targets = Targets(input, target, weight, ignore_index, "nll_loss")
    loss = targets.masked(targets.weighted(-gather(widened(input), targets.place, targets.safe)))
    return convert(_reduced(loss, targets, reduction), input.dtype)


def _reduced(loss: Value, targets: Targets, reduction: str) -> Value:
    if reduction == "none":
        return squeeze(loss, targets.place)
    return sum_(loss) / targets.total() if reduction == "mean" else sum_(loss)


@nll_loss.ref
def nll_loss_ref(input: Array, target: Array, weight: Array | None, ignore_index: int, reduction: str) -> Array:
    return _losses_of_log(compute_array(input), target, weight, ignore_index, reduction, 0.0).astype(input.dtype)


def _losses_of_log(
    logs: Array, target: Array, weight: Array | None, ignore_index: int, reduction: str, label_smoothing: float
) -> Array:
    class_dim = min(1, logs.ndim - 1)
    kept = target != ignore_index
    safe = np.where(kept, target, 0)
    weights = np.ones(logs.shape[class_dim], logs.dtype) if weight is None else compute_array(weight)
    picked = -np.take_along_axis(logs, np.expand_dims(safe, class_dim), class_dim).squeeze(class_dim) * weights[safe]
    if label_smoothing:
        shape = [-1 if dim == class_dim else 1 for dim in range(logs.ndim)]
        smooth = -np.sum(logs * weights.reshape(shape), class_dim) / logs.shape[class_dim]
        picked = (1 - label_smoothing) * picked + label_smoothing * smooth
    loss = np.where(kept, picked, 0)
    with np.errstate(all="ignore"):
        if reduction == "mean":
            return np.asarray(np.sum(loss) / np.sum(np.where(kept, weights[safe], 0)))
    return np.asarray(loss if reduction == "none" else np.sum(loss))


@nll_loss.samples
def nll_loss_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 3, 5), integers(rng, 0, 5, 3))
    yield Sample(normal(rng, 3, 5), np.array([1, -100, 4]), np.abs(normal(rng, 5)))
    yield Sample(normal(rng, 3, 5, 2), integers(rng, 0, 5, 3, 2), None, 2, "none")
    yield Sample(normal(rng, 5), np.array(2), reduction="sum")


cross_entropy = define(
    "cross_entropy(Tensor input, Tensor target, Tensor? weight=None, int ignore_index=-100, str reduction='mean', "
    "float label_smoothing=0.0) -> Tensor",
    "nll_loss of log_softmax for integer classes; with probabilities of the input's shape, their cross-entropy.",
    dtypes="float",
    autocast="float32",
    variants="function",
)


@cross_entropy.decompose
def cross_entropy_decompose(
    input: Value, target: Value, weight: Value | None, ignore_index: int, reduction: str, label_smoothing: float
) -> Value:
    check_reduction(reduction, "cross_entropy")
    require(
        0.0 <= label_smoothing <= 1.0, "A002", "cross_entropy: label_smoothing lies in [0, 1]", given=label_smoothing
    )
    if target.dtype.is_floating_point:
        return _soft_cross_entropy(input, target, weight, reduction, label_smoothing)
    return class_cross_entropy(input, target, weight, ignore_index, reduction, label_smoothing)


def _soft_cross_entropy(
    input: Value, target: Value, weight: Value | None, reduction: str, label_smoothing: float
) -> Value:
    fits = same_shape(input.shape, target.shape)
    require(fits, "S014", "cross_entropy: input and target differ in shape", input=input.shape, target=target.shape)
    x, y, class_dim = widened(input), widened(target), _class_dim(input.shape, "cross_entropy")
    _check_weight(input, weight, class_dim, "cross_entropy")
    classes = input.shape[class_dim]
    if label_smoothing:
        y = y * (1.0 - label_smoothing) + label_smoothing / count_of(y, maximum(classes, 1))
    terms = log_softmax(x, class_dim) * y
    if weight is not None:
        terms = terms * _per_class(widened(weight), x.ndim, class_dim)
    loss = -sum_(terms, class_dim)
    if reduction == "mean":
        loss = sum_(loss) / count_of(loss, product(replaced(input.shape, class_dim)))
    return convert(sum_(loss) if reduction == "sum" else loss, input.dtype)


def _per_class(value: Value, ndim: int, position: int) -> Value:
    shape: tuple[Size, ...] = tuple([value.shape[0] if dim == position else 1 for dim in range(ndim)])
    return reshape(value, shape)


@cross_entropy.ref
def cross_entropy_ref(
    input: Array, target: Array, weight: Array | None, ignore_index: int, reduction: str, label_smoothing: float
) -> Array:
    x, class_dim = compute_array(input), min(1, input.ndim - 1)
    shifted = x - np.max(x, class_dim, keepdims=True)
    logs = shifted - np.log(np.sum(np.exp(shifted), class_dim, keepdims=True))
    if target.dtype.kind in "iu":
        return _losses_of_log(logs, target, weight, ignore_index, reduction, label_smoothing).astype(input.dtype)
    y = compute_array(target) * (1 - label_smoothing) + label_smoothing / max(x.shape[class_dim], 1)
    shape = [-1 if dim == class_dim else 1 for dim in range(x.ndim)]
    weights = 1 if weight is None else compute_array(weight).reshape(shape)
    loss = -np.sum(logs * y * weights, class_dim)
    reduced = loss if reduction == "none" else np.sum(loss) / (max(loss.size, 1) if reduction == "mean" else 1)
    return np.asarray(reduced).astype(input.dtype)


@cross_entropy.samples
def cross_entropy_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 3, 5), integers(rng, 0, 5, 3))
    yield Sample(normal(rng, 3, 5), np.array([1, -100, 4]), np.abs(normal(rng, 5)), label_smoothing=0.1)
    yield Sample(normal(rng, 3, 5, 2), integers(rng, 0, 5, 3, 2), None, 2, "none")
    yield Sample(normal(rng, 5), np.array(2), reduction="sum")
    yield Sample(normal(rng, 3, 5), np.abs(normal(rng, 3, 5)), np.abs(normal(rng, 5)), label_smoothing=0.2)


class_cross_entropy = define(
    "class_cross_entropy(Tensor input, Tensor target, Tensor? weight, int ignore_index, str reduction, "
    "float label_smoothing) -> Tensor",
    "cross_entropy with integer classes.",
    dtypes="float",
    autocast="float32",
    variants="",
)


@class_cross_entropy.decompose
def class_cross_entropy_decompose(
    input: Value, target: Value, weight: Value | None, ignore_index: int, reduction: str, label_smoothing: float
) -> Value:
    x = widened(input)
    targets = Targets(x, target, weight, ignore_index, "cross_entropy")
    top, logs = _log_partition(x, targets.place)
    # The target's element is read from the input, so that the log probabilities are never stored.
    loss = targets.weighted(logs - (gather(x, targets.place, targets.safe) - top))
    if label_smoothing:
        terms = logs - (x - top)
        if weight is not None:
            terms = terms * _per_class(widened(weight), x.ndim, targets.place)
        smooth = sum_(terms, targets.place, True) / count_of(x, x.shape[targets.place])
        loss = loss * (1.0 - label_smoothing) + smooth * label_smoothing
    return convert(_reduced(targets.masked(loss), targets, reduction), input.dtype)


def _log_partition(x: Value, dim: int) -> tuple[Value, Value]:
    """(The largest element m, log of the sum of exp(x - m)) over a dim, kept at size 1."""
    top = amax(x, dim, True)
    return top, log(sum_(exp(x - top), dim, True))


@class_cross_entropy.ref
def class_cross_entropy_ref(
    input: Array, target: Array, weight: Array | None, ignore_index: int, reduction: str, label_smoothing: float
) -> Array:
    return cross_entropy_ref(input, target, weight, ignore_index, reduction, label_smoothing)


@class_cross_entropy.vjp
def class_cross_entropy_vjp(
    g: Value,
    input: Value,
    target: Value,
    weight: Value | None,
    ignore_index: int,
    reduction: str,
    label_smoothing: float,
) -> Gradients:
    gradient = cross_entropy_backward(g, input, target, weight, ignore_index, reduction, label_smoothing)
    if weight is None:
        return gradient, None, None
    loss = class_cross_entropy(input, target, weight, ignore_index, reduction, label_smoothing)
    targets = Targets(input, target, weight, ignore_index, "cross_entropy")
    return gradient, None, _weight_gradient(g, loss, input, targets, reduction, label_smoothing)


def _weight_gradient(
    g: Value, loss: Value, input: Value, targets: Targets, reduction: str, label_smoothing: float
) -> Value:
    """The gradient of class weights: what each class adds to the loss, and to what a mean is divided by."""
    x, class_dim = widened(input), targets.place
    others = tuple([dim for dim in range(x.ndim) if dim != class_dim])
    top, logs = _log_partition(x, class_dim)
    losses = logs - (x - top)
    classes = reshape(positions(x, x.shape[class_dim]), tuple([-1 if dim == class_dim else 1 for dim in range(x.ndim)]))
    hit = logical_and(eq(classes, targets.safe), targets.kept)
    mixed = where(hit, losses * (1.0 - label_smoothing), 0.0)
    if label_smoothing:
        mixed = mixed + targets.masked(losses * (label_smoothing / count_of(x, maximum(x.shape[class_dim], 1))))
    g = unsqueeze(widened(g), class_dim) if reduction == "none" else widened(g)
    if reduction == "mean":
        g = g / targets.total()
        mixed = mixed - where(hit, widened(loss), 0.0)
    gradient = mixed * g
    return convert(sum_(gradient, others) if others else gradient, input.dtype)


@class_cross_entropy.samples
def class_cross_entropy_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 3, 5), integers(rng, 0, 5, 3), None, -100, "mean", 0.0)


cross_entropy_backward = define(
    "cross_entropy_backward(Tensor grad, Tensor input, Tensor target, Tensor? weight, int ignore_index, str reduction, "
    "float label_smoothing) -> Tensor",
    "The gradient of cross_entropy's input: (softmax - target distribution) times the loss's gradient.",
    dtypes="float",
    variants="",
)


@cross_entropy_backward.decompose
def cross_entropy_backward_decompose(
    grad: Value,
    input: Value,
    target: Value,
    weight: Value | None,
    ignore_index: int,
    reduction: str,
    label_smoothing: float,
) -> Value:
    x = widened(input)
    targets = Targets(x, target, weight, ignore_index, "cross_entropy")
    g = widened(grad)
    g = unsqueeze(g, targets.place) if reduction == "none" else g
    g = targets.masked(g / targets.total() if reduction == "mean" else g)
    top, logs = _log_partition(x, targets.place)
    chance = exp((x - top) - logs)
    own = targets.weighted(g) if not label_smoothing else targets.weighted(g) * (1.0 - label_smoothing)
    classes = positions(x, x.shape[targets.place])
    classes = reshape(classes, tuple([-1 if dim == targets.place else 1 for dim in range(x.ndim)]))
    hit = eq(classes, targets.safe)
    gradient = chance * own - where(hit, own, 0.0)
    if label_smoothing:
        share = g * (label_smoothing / count_of(x, maximum(x.shape[targets.place], 1)))
        each = 1.0 if weight is None else _per_class(widened(weight), x.ndim, targets.place)
        total = count_of(x, x.shape[targets.place]) if weight is None else sum_(widened(weight))
        gradient = gradient + chance * (share * total) - share * each
    return convert(gradient, input.dtype)


@cross_entropy_backward.ref
def cross_entropy_backward_ref(
    grad: Array,
    input: Array,
    target: Array,
    weight: Array | None,
    ignore_index: int,
    reduction: str,
    label_smoothing: float,
) -> Array:
    x, class_dim = compute_array(input), min(1, input.ndim - 1)
    kept = np.expand_dims(target != ignore_index, class_dim)
    safe = np.where(kept, np.expand_dims(target, class_dim), 0)
    shape = [-1 if dim == class_dim else 1 for dim in range(x.ndim)]
    weights = np.ones(x.shape[class_dim], x.dtype) if weight is None else compute_array(weight)
    g = compute_array(grad) if reduction != "none" else np.expand_dims(compute_array(grad), class_dim)
    with np.errstate(all="ignore"):
        g = np.where(kept, g / np.sum(np.where(kept, weights[safe], 0)) if reduction == "mean" else g, 0)
    chance = np.exp(x - np.max(x, class_dim, keepdims=True))
    chance = chance / np.sum(chance, class_dim, keepdims=True)
    mixed = (1 - label_smoothing) * weights[safe] * (np.arange(x.shape[class_dim]).reshape(shape) == safe)
    mixed = mixed + label_smoothing / x.shape[class_dim] * weights.reshape(shape)
    return (g * (chance * np.sum(mixed, class_dim, keepdims=True) - mixed)).astype(input.dtype)


@cross_entropy_backward.samples
def cross_entropy_backward_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng), normal(rng, 3, 5), np.array([1, -100, 4]), None, -100, "mean", 0.0)
    weight = np.abs(normal(rng, 5))
    yield Sample(normal(rng, 3, 2), normal(rng, 3, 5, 2), integers(rng, 0, 5, 3, 2), weight, 2, "none", 0.1)

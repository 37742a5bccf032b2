"""Connectionist temporal classification (Graves et al. 2006): the likelihood of a text without times.

A path gives each step a class or a blank. It stands for the text that is left once repeated classes are merged and
blanks are dropped. Forward and backward sums over paths run step by step, on the host, for all texts of a batch.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from rushlight.ir.type import TensorType
from rushlight.ir.value import Value
from rushlight.ops.create import positions
from rushlight.ops.dims import Array, integers, normal, require_floating, same_shape
from rushlight.ops.index.read import require_integers
from rushlight.ops.pointwise.comparison import logical_and, lt, ne
from rushlight.ops.pointwise.elementary import exp
from rushlight.ops.pointwise.selection import where
from rushlight.ops.record import Fact, Gradients, Sample, define
from rushlight.ops.view.reorder import unsqueeze
from rushlight.support.errors import require

ctc_losses = define(
    "ctc_losses(Tensor log_probs, Tensor targets, Tensor input_lengths, Tensor target_lengths, int blank) -> Tensor",
    "-log of the likelihood of each text, of log probabilities (steps, texts, classes). Targets are (texts, longest), "
    "or one text after another.",
    facts=Fact.HOST | Fact.REFUSING,
    dtypes="float",
    variants="",
)
ctc_occupancies = define(
    "ctc_occupancies(Tensor log_probs, Tensor targets, Tensor input_lengths, Tensor target_lengths, int blank) "
    "-> Tensor",
    "How probable it is, given each text, that its path has a class at a step; NaN where no path gives the text.",
    facts=Fact.HOST | Fact.REFUSING,
    dtypes="float",
    variants="",
)


def _require(log_probs: TensorType, targets: TensorType, input_lengths: TensorType, target_lengths: TensorType) -> None:
    require_floating(log_probs, "ctc_loss")
    require(log_probs.ndim == 3, "S002", "ctc_loss: log_probs are (steps, texts, classes)", log_probs=log_probs)
    require_integers("ctc_loss", targets=targets, input_lengths=input_lengths, target_lengths=target_lengths)
    require(targets.ndim in (1, 2), "S002", "ctc_loss: targets have 1 or 2 dims", targets=targets)
    batch = log_probs.shape[1:2]
    fits = same_shape(input_lengths.shape, batch) and same_shape(target_lengths.shape, batch)
    fits = fits and (targets.ndim == 1 or same_shape(targets.shape[:1], batch))
    require(fits, "S014", "ctc_loss: a length for each text", log_probs=log_probs, input_lengths=input_lengths)


@ctc_losses.meta
def ctc_losses_meta(
    log_probs: TensorType, targets: TensorType, input_lengths: TensorType, target_lengths: TensorType, blank: int
) -> TensorType:
    _require(log_probs, targets, input_lengths, target_lengths)
    return TensorType(log_probs.shape[1:2], log_probs.dtype, log_probs.device)


@ctc_occupancies.meta
def ctc_occupancies_meta(
    log_probs: TensorType, targets: TensorType, input_lengths: TensorType, target_lengths: TensorType, blank: int
) -> TensorType:
    _require(log_probs, targets, input_lengths, target_lengths)
    return TensorType(log_probs.shape, log_probs.dtype, log_probs.device)


class Texts:
    """A batch as arrays: `states` are (texts, 2 longest + 1), a blank around each class of a text.

    `scores` (steps, texts, states) are the log probabilities of states, and `skips` says which states may be entered
    from the class before.
    """

    __slots__ = ("last", "scores", "skips", "states", "steps")

    def __init__(
        self, log_probs: Array, targets: Array, input_lengths: Array, target_lengths: Array, blank: int
    ) -> None:
        steps, batch, classes = log_probs.shape
        require(0 <= blank < classes, "I001", "ctc_loss: blank is a class", blank=blank, classes=classes)
        fits = bool(np.all((input_lengths >= 0) & (input_lengths <= steps)))
        require(fits, "A002", "ctc_loss: input_lengths are at most the number of steps", steps=steps)
        padded = _padded(targets, target_lengths)
        fits = not padded.size or bool(np.all((padded >= 0) & (padded < classes)))
        require(fits, "I001", "ctc_loss: a target is no class", classes=classes)
        self.states = np.full((batch, 2 * padded.shape[1] + 1), blank, np.int64)
        self.states[:, 1::2] = padded
        self.steps, self.last = input_lengths, 2 * target_lengths
        self.skips = np.zeros(self.states.shape, np.bool_)
        self.skips[:, 2:] = (self.states[:, 2:] != blank) & (self.states[:, 2:] != self.states[:, :-2])
        wide = log_probs.astype(np.float64)
        wide[np.isposinf(wide)] = np.nan  # no probability
        self.scores = np.take_along_axis(wide, np.broadcast_to(self.states, (steps, *self.states.shape)), 2)

    def forward(self) -> Array:
        """Log sums over the beginnings of paths that end at a step in a state."""
        sums = np.full(self.scores.shape, -np.inf)
        if len(sums):
            sums[0, :, :2] = self.scores[0, :, :2]
            sums[0, self.last == 0, 1:] = -np.inf
        for step in range(1, len(sums)):
            before = sums[step - 1]
            near = np.logaddexp(before, _shifted(before, 1))
            sums[step] = np.logaddexp(near, np.where(self.skips, _shifted(before, 2), -np.inf)) + self.scores[step]
        return sums

    def backward(self) -> Array:
        """Log sums over the ends of paths after a step in a state."""
        sums = np.full(self.scores.shape, -np.inf)
        numbers = np.arange(self.states.shape[1])
        ends = np.where((numbers == self.last[:, None]) | (numbers == self.last[:, None] - 1), 0.0, -np.inf)
        later = np.full(ends.shape, -np.inf)
        for step in range(len(sums) - 1, -1, -1):
            near = np.logaddexp(later, _shifted(later, -1))
            total = np.logaddexp(near, _shifted(np.where(self.skips, later, -np.inf), -2))
            sums[step] = np.where((self.steps - 1 == step)[:, None], ends, total)
            later = sums[step] + self.scores[step]
        return sums

    def log_likelihoods(self, forward: Array) -> Array:
        """The log likelihood of each text."""
        likelihoods = np.full(len(self.states), -np.inf)
        for text, (steps, last) in enumerate(zip(self.steps, self.last, strict=True)):
            if steps:
                likelihoods[text] = np.logaddexp.reduce(forward[steps - 1, text, max(last - 1, 0) : last + 1])
            elif last == 0:
                likelihoods[text] = 0.0
        return likelihoods


def _shifted(sums: Array, by: int) -> Array:
    """Each state's sums from the state `by` before it, which has none at the ends."""
    result = np.full(sums.shape, -np.inf)
    if by > 0:
        result[:, by:] = sums[:, :-by]
    else:
        result[:, :by] = sums[:, -by:]
    return result


def _padded(targets: Array, target_lengths: Array) -> Array:
    """Targets as (texts, longest), with class 0 behind the end of a text."""
    lengths = [int(length) for length in target_lengths]
    room = targets.shape[1] if targets.ndim == 2 else len(targets)
    taken = max(lengths, default=0) <= room if targets.ndim == 2 else sum(lengths) == room
    fits = min(lengths, default=0) >= 0 and taken
    require(fits, "A002", "ctc_loss: target_lengths do not fit the targets", target_lengths=lengths)
    result = np.zeros((len(lengths), max(lengths, default=0)), np.int64)
    start = 0
    for text, length in enumerate(lengths):
        result[text, :length] = targets[text, :length] if targets.ndim == 2 else targets[start : start + length]
        start += length
    return result


@ctc_losses.ref
def ctc_losses_ref(log_probs: Array, targets: Array, input_lengths: Array, target_lengths: Array, blank: int) -> Array:
    texts = Texts(log_probs, targets, input_lengths, target_lengths, blank)
    with np.errstate(all="ignore"):
        return (-texts.log_likelihoods(texts.forward())).astype(log_probs.dtype)


@ctc_occupancies.ref
def ctc_occupancies_ref(
    log_probs: Array, targets: Array, input_lengths: Array, target_lengths: Array, blank: int
) -> Array:
    texts = Texts(log_probs, targets, input_lengths, target_lengths, blank)
    steps, batch, _ = log_probs.shape
    result = np.zeros(log_probs.shape)
    with np.errstate(all="ignore"):
        forward = texts.forward()
        likelihoods = texts.log_likelihoods(forward)
        paths = np.exp(forward + texts.backward() - likelihoods[:, None])
    np.add.at(result, (np.arange(steps)[:, None, None], np.arange(batch)[:, None], texts.states), paths)
    result[:, ~np.isfinite(likelihoods)] = np.nan
    result[np.arange(steps)[:, None] >= texts.steps] = 0.0
    return result.astype(log_probs.dtype)


@ctc_losses.vjp
def ctc_losses_vjp(
    g: Value, log_probs: Value, targets: Value, input_lengths: Value, target_lengths: Value, blank: int
) -> Gradients:
    occupancies = ctc_occupancies(log_probs, targets, input_lengths, target_lengths, blank)
    each, steps = unsqueeze(g, -1), positions(log_probs, log_probs.shape[0])
    within = lt(unsqueeze(unsqueeze(steps, -1), -1), unsqueeze(input_lengths, -1))
    # PyTorch's gradient, too, is that by unnormalised scores, of which a log_softmax made these. A later log_softmax
    # passes it on unchanged. What nothing asks about has none, also where no path gives a text.
    gradient = (exp(log_probs) - occupancies) * each
    return where(logical_and(within, ne(each, 0.0)), gradient, 0.0), None, None, None


def _sample(rng: np.random.Generator, *targets: object) -> Sample:
    scores = normal(rng, 5, 2, 4)
    logs = scores - np.log(np.sum(np.exp(scores), -1, keepdims=True))
    return Sample(logs, *targets, np.array([5, 4]), np.array([2, 1]), 0)


@ctc_losses.samples
def ctc_losses_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield _sample(rng, integers(rng, 1, 4, 2, 3))
    yield _sample(rng, integers(rng, 1, 4, 3))


@ctc_occupancies.samples
def ctc_occupancies_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield _sample(rng, integers(rng, 1, 4, 2, 3))

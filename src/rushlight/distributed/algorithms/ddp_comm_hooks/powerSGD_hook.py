"""Gradients sent as products of two narrow matrices: PyTorch's `powerSGD_hook`.

Vogels, Karimireddy and Jaggi, PowerSGD, 2019. What a product leaves out is added to the next step's gradient.
"""

from __future__ import annotations

import numpy as np

from rushlight.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
from rushlight.distributed.collectives import all_reduce
from rushlight.distributed.engine.work import WorkFuture
from rushlight.distributed.group import Group, member
from rushlight.eager.autograd.modes import no_grad
from rushlight.eager.creation import from_numpy
from rushlight.eager.functions import cat
from rushlight.eager.tensor import Tensor
from rushlight.nn.parallel.bucket import GradBucket
from rushlight.support.errors import require

__all__ = ["PowerSGDState", "powerSGD_hook"]


class PowerSGDState:
    """What the hook keeps between steps, and its options.

    Matrices get `matrix_approximation_rank` columns, from step `start_powerSGD_iter` on; before, and where that would
    not make less by the factor `min_compression_rate`, gradients are sent as they are. With `use_error_feedback` what a
    product leaves out is kept; with `warm_start` a step begins with the last one's factors.

    >>> model.register_comm_hook(PowerSGDState(None, matrix_approximation_rank=2), powerSGD_hook)
    """

    def __init__(
        self,
        process_group: Group,
        matrix_approximation_rank: int = 1,
        start_powerSGD_iter: int = 1000,
        min_compression_rate: float = 2,
        use_error_feedback: bool = True,
        warm_start: bool = True,
        orthogonalization_epsilon: float = 0,
        random_seed: int = 0,
        compression_stats_logging_frequency: int = 10000,
        batch_tensors_with_same_shape: bool = False,
    ) -> None:
        least = 2 if use_error_feedback or warm_start else 1
        require(matrix_approximation_rank >= 1, "A002", "PowerSGDState: a rank of at least 1")
        message = f"PowerSGDState: start_powerSGD_iter is at least {least} with these options"
        require(start_powerSGD_iter >= least, "A002", message, given=start_powerSGD_iter)
        self.process_group = process_group
        self.matrix_approximation_rank = matrix_approximation_rank
        self.start_powerSGD_iter = start_powerSGD_iter
        self.min_compression_rate = min_compression_rate
        self.use_error_feedback = use_error_feedback
        self.warm_start = warm_start
        self.orthogonalization_epsilon = orthogonalization_epsilon
        self.rng = np.random.default_rng(random_seed)
        self.iter = 0
        self.total_numel_before_compression = 0
        self.total_numel_after_compression = 0
        self.errors: dict[int, Tensor] = {}
        self.factors: dict[tuple[int, int], Tensor] = {}

    def compression_stats(self) -> tuple[float, int, int]:
        """How much less was sent: the rate, the elements before, and those after."""
        before, after = self.total_numel_before_compression, self.total_numel_after_compression
        return (before / after if after else 0.0), before, after

    def narrows(self, gradient: Tensor) -> bool:
        """Whether a gradient is sent as a product."""
        if gradient.ndim < 2:
            return False
        rows, columns = gradient.shape[0], gradient.numel() // max(1, gradient.shape[0])
        sent = (rows + columns) * self.matrix_approximation_rank
        return sent * self.min_compression_rate < rows * columns


def powerSGD_hook(state: PowerSGDState, bucket: GradBucket) -> WorkFuture | Tensor:
    """Send a bucket's matrices as products of narrow ones, and the rest as it is."""
    if state.iter < state.start_powerSGD_iter:
        _count(state, bucket)
        return allreduce_hook(state.process_group, bucket)
    with no_grad():
        _compress(state, bucket)
    _count(state, bucket)
    return bucket.buffer()


def _count(state: PowerSGDState, bucket: GradBucket) -> None:
    if bucket.is_last():
        state.iter += 1


def _compress(state: PowerSGDState, bucket: GradBucket) -> None:
    """Put the approximate mean of all ranks into a bucket."""
    buffer, index = bucket.buffer(), bucket.index()
    if state.use_error_feedback:
        kept = state.errors.get(index)
        if kept is not None:
            buffer.add_(kept)
    before = buffer.clone()
    gradients = bucket.gradients()
    matrices = [(at, one) for at, one in enumerate(gradients) if state.narrows(one)]
    others = [one for one in gradients if not state.narrows(one)]
    state.total_numel_before_compression += buffer.numel()
    _average(others, state)
    views = [one.reshape(one.shape[0], -1) for _, one in matrices]
    right = [_factor(state, (index, at), view) for (at, _), view in zip(matrices, views, strict=True)]
    left = [view @ one for view, one in zip(views, right, strict=True)]
    _average(left, state)
    left = [_orthogonal(one, state.orthogonalization_epsilon) for one in left]
    right = [view.T @ one for view, one in zip(views, left, strict=True)]
    _average(right, state)
    for (at, gradient), one, other in zip(matrices, left, right, strict=True):
        gradient.copy_((one @ other.T).reshape(gradient.shape))
        if state.warm_start:
            state.factors[index, at] = other
    if state.use_error_feedback:
        state.errors[index] = _error(before, buffer, bucket, state)


def _error(before: Tensor, after: Tensor, bucket: GradBucket, state: PowerSGDState) -> Tensor:
    """What the products leave out of this rank's gradients; nothing of those that were sent as they are."""
    error = before - after
    start = 0
    for one in bucket.gradients():
        if not state.narrows(one):
            error[start : start + one.numel()] = 0
        start += one.numel()
    return error


def _factor(state: PowerSGDState, key: tuple[int, int], matrix: Tensor) -> Tensor:
    """The factor that a step begins with, the same on all ranks."""
    rank = min(state.matrix_approximation_rank, *matrix.shape)
    known = state.factors.get(key)
    if known is not None:
        return _orthogonal(known, state.orthogonalization_epsilon)
    drawn = from_numpy(state.rng.standard_normal((matrix.shape[1], rank))).to(matrix.dtype)
    return _orthogonal(drawn, state.orthogonalization_epsilon)


def _average(tensors: list[Tensor], state: PowerSGDState) -> None:
    """Put the mean over all ranks into tensors, by one collective."""
    if not tensors:
        return
    flat = cat([one.reshape(-1) for one in tensors]) / member(state.process_group).size
    all_reduce(flat, group=state.process_group)
    state.total_numel_after_compression += flat.numel()
    start = 0
    for one in tensors:
        one.copy_(flat[start : start + one.numel()].reshape(one.shape))
        start += one.numel()


def _orthogonal(matrix: Tensor, epsilon: float) -> Tensor:
    """The columns made orthonormal, one after another; one that the others span becomes zero."""
    result = matrix.clone()
    for at in range(result.shape[1]):
        column = result[:, at : at + 1]
        norm = column.square().sum().sqrt()
        column.div_(norm + (epsilon or 1e-30))
        if at + 1 < result.shape[1]:
            rest = result[:, at + 1 :]
            rest.sub_(column @ (column.T @ rest))
    return result

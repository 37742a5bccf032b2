"""The Kullback-Leibler divergence of rows of log probabilities."""

import rushlight as rl
from rushlight import Tensor
from rushlight.tile import kernel, tile


@kernel
def kl(log_q: Tensor, target: Tensor, log_target: bool = False, eps: float = 1e-10) -> Tensor:
    """The sum over the vocabulary of p * (log p - log q), for each row, in one pass."""
    m, n = log_q.shape
    loss = rl.empty(m, dtype=log_q.dtype)
    for i in tile(m):
        total = rl.zeros(i.size, dtype=log_q.dtype)
        for j in tile(n):
            p = target[i, j].exp() if log_target else target[i, j]
            log_p = target[i, j] if log_target else p.clamp(min=eps).log()
            total = total + (p * (log_p - log_q[i, j])).sum(1)
        loss[i] = total
    return loss


def composition(log_q: Tensor, target: Tensor) -> Tensor:
    """The same by ordinary operators, on any floats."""
    return rl.nn.functional.kl_div(log_q, target, reduction="none").sum(1)


def inputs(m: int, n: int, k: int) -> tuple[Tensor, ...]:
    """Arguments from three sizes."""
    return rl.randn(m, n).log_softmax(1), rl.randn(m, n).softmax(1)


run, differentiable, measured = kl, (0,), (2048, 8192, 0)

"""The generalised Jensen-Shannon divergence of rows of log probabilities."""

import rushlight as rl
from rushlight import Tensor
from rushlight.tile import kernel, tile


@kernel
def jsd(log_q: Tensor, log_p: Tensor, beta: float = 0.5) -> Tensor:
    """For each row; `beta` of 0 is the divergence of p from q, 1 that of q from p."""
    m, n = log_q.shape
    loss = rl.empty(m, dtype=log_q.dtype)
    for i in tile(m):
        total = rl.zeros(i.size, dtype=log_q.dtype)
        for j in tile(n):
            x, y = log_q[i, j], log_p[i, j]
            if beta == 0:
                part = y.exp() * (y - x)
            elif beta == 1:
                part = x.exp() * (x - y)
            else:
                q, p = (1 - beta) * x.exp(), beta * y.exp()
                mixed = (q + p).log()
                part = p * (y - mixed) + q * (x - mixed)
            total = total + part.sum(1)
        loss[i] = total
    return loss


def composition(log_q: Tensor, log_p: Tensor, beta: float = 0.5) -> Tensor:
    """The same by ordinary operators, on any floats."""
    q, p = log_q.exp(), log_p.exp()
    mixed = ((1 - beta) * q + beta * p).log()
    divergences = beta * p * (log_p - mixed) + (1 - beta) * q * (log_q - mixed)
    return divergences.sum(1)


def inputs(m: int, n: int, k: int) -> tuple[Tensor, ...]:
    """Arguments from three sizes."""
    return rl.randn(m, n).log_softmax(1), rl.randn(m, n).log_softmax(1)


run, differentiable, measured = jsd, (0, 1), (2048, 8192, 0)

"""Divergences of rows, and losses of a linear layer whose products go straight into them.

Rows are distributions over a vocabulary, which is read once. Rows whose label is `ignore_index` count as 0, and not
among the rows of a mean.
"""

from __future__ import annotations

from typing import Any

from rushlight.eager.creation import empty
from rushlight.eager.functions import where
from rushlight.eager.tensor import Tensor
from rushlight.ir.dtype import compute_dtype
from rushlight.nn.kernels.rowwise import wide
from rushlight.support.errors import require
from rushlight.tile import dot, kernel, tile

REDUCTIONS = ("none", "sum", "mean", "batchmean")


@kernel
def kl(
    log_q: Tensor, target: Tensor, log_target: bool = False, reduction: str = "batchmean", eps: float = 1e-10
) -> Any:
    """The divergence of q from p for each row: the sum of p * (log p - log q), p and log p at least `eps`'s.

    `target` has probabilities, or with `log_target` their logarithms. Reductions are those of `kl_div`, and "none"
    gives a number for each row.

    >>> kernels.kl(rl.randn(2, 8).log_softmax(1), rl.randn(2, 8).softmax(1)).shape
    Size([])
    """
    m, n = log_q.shape
    loss = empty(m, dtype=compute_dtype(log_q.dtype))
    for i in tile(m):
        total = 0.0
        for j in tile(n):
            given, x = wide(target[i, j]), wide(log_q[i, j])
            p = given.exp() if log_target else given
            log_p = given if log_target else p.clamp(min=eps).log()
            total = total + (p * (log_p - x)).sum(1)
        loss[i] = total
    return _reduced("kl", loss, reduction, None, n)


@kernel
def jsd(
    log_q: Tensor,
    log_p: Tensor,
    labels: Tensor | None = None,
    beta: float = 0.5,
    ignore_index: int = -100,
    reduction: str = "batchmean",
) -> Any:
    """The generalised Jensen-Shannon divergence of rows of logarithms.

    `beta` of 0 is the divergence of q from p, 1 that of p from q; between them both are compared with
    `beta * p + (1 - beta) * q`.

    >>> kernels.jsd(rl.randn(2, 8).log_softmax(1), rl.randn(2, 8).log_softmax(1)).shape
    Size([])
    """
    _require_share("jsd", beta)
    m, n = log_q.shape
    loss = empty(m, dtype=compute_dtype(log_q.dtype))
    for i in tile(m):
        total = 0.0
        for j in tile(n):
            total = total + _divergence(wide(log_q[i, j]), wide(log_p[i, j]), beta)
        loss[i] = total
    return _reduced("jsd", loss, reduction, None if labels is None else labels != ignore_index, n)


@kernel
def linear_cross_entropy(
    input: Tensor, weight: Tensor, labels: Tensor, ignore_index: int = -100, reduction: str = "mean"
) -> Any:
    """The cross-entropy of `input @ weight.T` with labels: `input` is (rows, width), `weight` (vocabulary, width).

    >>> kernels.linear_cross_entropy(rl.randn(4, 8), rl.randn(32, 8), rl.tensor([1, 2, -100, 3])).shape
    Size([])
    """
    m = input.shape[0]
    loss = empty(m, dtype=compute_dtype(input.dtype))
    kept = labels != ignore_index
    for i in tile(m):
        logits = dot(input[i, :], weight.mT)
        log_q = logits.log_softmax(1)
        wanted = where(kept[i], labels[i], 0)
        loss[i] = -log_q.gather(1, wanted[:, None])[:, 0]
    return _reduced("linear_cross_entropy", loss, reduction, kept)


@kernel
def linear_jsd(
    student: Tensor,
    student_weight: Tensor,
    teacher: Tensor,
    teacher_weight: Tensor,
    labels: Tensor | None = None,
    beta: float = 0.5,
    ignore_index: int = -100,
    temperature: float = 1.0,
    reduction: str = "batchmean",
) -> Any:
    """`jsd` of the softmax of two linear layers: inputs (rows, width), weights (vocabulary, width), of two models.

    >>> x, w = rl.randn(4, 8), rl.randn(32, 8)
    >>> kernels.linear_jsd(x, w, x, w).item()
    0.0
    """
    _require_share("linear_jsd", beta)
    m = student.shape[0]
    loss = empty(m, dtype=compute_dtype(student.dtype))
    for i in tile(m):
        log_q = (dot(student[i, :], student_weight.mT) / temperature).log_softmax(1)
        log_p = (dot(teacher[i, :], teacher_weight.mT) / temperature).log_softmax(1)
        loss[i] = _divergence(log_q, log_p, beta)
    kept = None if labels is None else labels != ignore_index
    return _reduced("linear_jsd", loss, reduction, kept, student_weight.shape[0])


def _require_share(name: str, beta: float) -> None:
    require(0 <= beta <= 1, "A002", f"{name}: beta is from 0 to 1", beta=beta)


def _divergence(x: Tensor, y: Tensor, beta: float) -> Tensor:
    """The sums over rows of the divergence of `exp(x)` and `exp(y)`."""
    if beta == 0:
        return (y.exp() * (y - x)).sum(1)
    if beta == 1:
        return (x.exp() * (x - y)).sum(1)
    q, p = (1 - beta) * x.exp(), beta * y.exp()
    mixed = (q + p).log()
    # Where both are 0 the logarithm of their sum is not finite, and they add nothing.
    return where(q + p > 0, p * (y - mixed) + q * (x - mixed), 0).sum(1)


def _reduced(name: str, rows: Tensor, reduction: str, kept: Tensor | None, columns: Any = None) -> Tensor:
    """The losses of rows, reduced. A mean of divergences is over elements, of which a row has as many as `columns`."""
    require(reduction in REDUCTIONS, "A002", f"{name}: there is no such reduction", reduction=reduction)
    counted = rows if kept is None else where(kept, rows, 0)
    if reduction == "none":
        return counted
    total = counted.sum()
    if reduction == "sum":
        return total
    count = rows.shape[0] if kept is None else kept.sum().to(rows.dtype)
    if reduction == "mean" and columns is not None:
        return total / count / columns
    return total / count

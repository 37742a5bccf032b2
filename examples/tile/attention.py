"""Attention with a running softmax, in one pass over the keys."""

import rushlight as rl
from rushlight import Tensor
from rushlight.tile import dot, kernel, tile


@kernel
def attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """What each query finds of the values, by the softmax of its products with the keys."""
    heads, m, width = q.shape
    scale = width**-0.5
    out = rl.empty_like(q)
    for h, i in tile(heads, m):
        top = rl.full((h.size, i.size, 1), -float("inf"), dtype=q.dtype)
        total = rl.zeros(h.size, i.size, 1, dtype=q.dtype)
        found = rl.zeros(h.size, i.size, width, dtype=q.dtype)
        for j in tile(k.shape[1]):
            scores = dot(q[h, i, :], k[h, j, :].mT) * scale
            higher = rl.maximum(top, scores.amax(2, keepdim=True))
            weights, kept = (scores - higher).exp(), (top - higher).exp()
            total = total * kept + weights.sum(2, keepdim=True)
            found = dot(weights, v[h, j, :], found * kept)
            top = higher
        out[h, i, :] = found / total
    return out


def composition(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """The same by ordinary operators, on any floats."""
    return ((q @ k.mT) * q.shape[2] ** -0.5).softmax(2) @ v


def inputs(m: int, n: int, k: int) -> tuple[Tensor, ...]:
    """Arguments from three sizes."""
    return rl.randn(3, m, k + 1), rl.randn(3, n + 1, k + 1), rl.randn(3, n + 1, k + 1)


run, differentiable, measured = attention, (0, 1, 2), (1024, 1023, 63)

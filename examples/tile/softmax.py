"""Softmax over rows."""

import rushlight as rl
from rushlight import Tensor
from rushlight.tile import kernel, tile


@kernel
def softmax(x: Tensor) -> Tensor:
    """Rows of positive numbers that sum to 1."""
    out = rl.empty_like(x)
    for i in tile(x.shape[0]):
        top = rl.full((i.size, 1), -float("inf"), dtype=x.dtype)
        for j in tile(x.shape[1]):
            top = rl.maximum(top, x[i, j].amax(1, keepdim=True))
        total = rl.zeros(i.size, 1, dtype=x.dtype)
        for j in tile(x.shape[1]):
            total = total + (x[i, j] - top).exp().sum(1, keepdim=True)
        for j in tile(x.shape[1]):
            out[i, j] = (x[i, j] - top).exp() / total
    return out


def composition(x: Tensor) -> Tensor:
    """The same by ordinary operators, on any floats."""
    return x.softmax(1)


def inputs(m: int, n: int, k: int) -> tuple[Tensor, ...]:
    """Arguments from three sizes."""
    return (rl.randn(m, n) * 4,)


run, differentiable, measured = softmax, (0,), (4096, 2048, 0)

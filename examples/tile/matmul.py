"""A matrix product."""

import rushlight as rl
from rushlight import Tensor
from rushlight.tile import dot, kernel, tile


@kernel
def matmul(x: Tensor, y: Tensor) -> Tensor:
    """Sums over blocks of the inner dim."""
    out = rl.empty(x.shape[0], y.shape[1], dtype=x.dtype)
    for i, j in tile(x.shape[0], y.shape[1]):
        total = rl.zeros(i.size, j.size, dtype=x.dtype)
        for k in tile(x.shape[1]):
            total = dot(x[i, k], y[k, j], total)
        out[i, j] = total
    return out


def composition(x: Tensor, y: Tensor) -> Tensor:
    """The same by ordinary operators, on any floats."""
    return x @ y


def inputs(m: int, n: int, k: int) -> tuple[Tensor, ...]:
    """Arguments from three sizes."""
    return rl.randn(m, k), rl.randn(k, n)


run, differentiable, measured = matmul, (0, 1), (1024, 1024, 1024)

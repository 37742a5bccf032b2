"""A matrix product whose sums are divided: results are few, and sums are long."""

import rushlight as rl
from rushlight import Tensor
from rushlight.tile import atomic_add, dot, kernel, register_block_size, tile


@kernel
def split_k(x: Tensor, y: Tensor) -> Tensor:
    """Partial sums are added to the result."""
    m, k = x.shape
    out = rl.zeros(m, y.shape[1], dtype=x.dtype)
    part = register_block_size(64, k + 64)
    for i, j, steps in tile(m, y.shape[1], k, block=[None, None, part]):
        total = rl.zeros(i.size, j.size, dtype=x.dtype)
        for step in tile(steps):
            total = dot(x[i, step], y[step, j], total)
        atomic_add(out, [i, j], total)
    return out


def composition(x: Tensor, y: Tensor) -> Tensor:
    """The same by ordinary operators, on any floats."""
    return x @ y


def inputs(m: int, n: int, k: int) -> tuple[Tensor, ...]:
    """Arguments from three sizes."""
    return rl.randn(m, 8 * k), rl.randn(8 * k, n)


run, differentiable, measured = split_k, (0, 1), (64, 64, 4096)

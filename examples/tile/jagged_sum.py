"""Sums of the rows of segments, which offsets bound."""

import rushlight as rl
from rushlight import Tensor
from rushlight.tile import kernel, tile


@kernel
def jagged_sum(x: Tensor, offsets: Tensor) -> Tensor:
    """Row b is the sum of the rows from `offsets[b]` to `offsets[b + 1]`."""
    segments = offsets.shape[0] - 1
    out = rl.zeros(segments, x.shape[1], dtype=x.dtype)
    for b, j in tile(segments, x.shape[1]):
        total = rl.zeros(b.size, j.size, dtype=x.dtype)
        for k in tile(offsets[b], offsets[b + 1]):
            total = total + x[k, j].sum(1)
        out[b, j] = total
    return out


def composition(x: Tensor, offsets: Tensor) -> Tensor:
    """The same by ordinary operators, on any floats."""
    rows = rl.arange(x.shape[0]).unsqueeze(1)
    segment = (offsets.unsqueeze(0) <= rows).sum(1) - 1
    return rl.zeros(offsets.shape[0] - 1, x.shape[1], dtype=x.dtype).index_add(0, segment, x)


def inputs(m: int, n: int, k: int) -> tuple[Tensor, ...]:
    """Arguments from three sizes."""
    middle = rl.randint(0, m + 1, (k,)).sort()[0]
    return rl.randn(m, n), rl.cat([rl.tensor([0]), middle, rl.tensor([m])])


run, differentiable, measured = jagged_sum, (0,), (20000, 256, 255)

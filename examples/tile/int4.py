"""A product with weights of 4 bits, two in each byte along the inner dim."""

import rushlight as rl
from rushlight import Tensor
from rushlight.tile import dot, kernel, tile


@kernel
def int4(x: Tensor, packed: Tensor) -> Tensor:
    """`packed[k, n]` holds rows 2k (low bits) and 2k + 1 (high bits) of a signed matrix."""
    m, n = x.shape[0], packed.shape[1]
    out = rl.empty(m, n, dtype=x.dtype)
    for i, j in tile(m, n):
        total = rl.zeros(i.size, j.size, dtype=rl.float64 if x.dtype is rl.float64 else rl.float32)
        for k in tile(packed.shape[0]):
            byte = packed[k, j]
            low, high = (byte << 4) >> 4, byte >> 4
            weight = rl.stack([low, high], 1).reshape(2 * k.size, j.size)
            total = dot(x[i, :], weight.to(x.dtype), total)
        out[i, j] = total.to(x.dtype)
    return out


def composition(x: Tensor, packed: Tensor) -> Tensor:
    """The same by ordinary operators, on any floats."""
    low, high = (packed << 4) >> 4, packed >> 4
    weight = rl.stack([low, high], 1).reshape(2 * packed.shape[0], packed.shape[1])
    return x @ weight.to(x.dtype)


def inputs(m: int, n: int, k: int) -> tuple[Tensor, ...]:
    """Arguments from three sizes."""
    return rl.randn(m, 2 * k), rl.randint(-128, 128, (k, n), dtype=rl.int8)


run, differentiable, measured = int4, (0,), (16, 4096, 2048)

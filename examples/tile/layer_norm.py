"""LayerNorm over rows."""

import rushlight as rl
from rushlight import Tensor
from rushlight.tile import kernel, tile


@kernel
def layer_norm(x: Tensor, weight: Tensor, bias: Tensor, eps: float = 1e-5) -> Tensor:
    """Rows of mean 0 and variance 1, scaled and shifted."""
    m, n = x.shape
    out = rl.empty_like(x)
    for i in tile(m):
        mean = rl.zeros(i.size, 1, dtype=x.dtype)
        for j in tile(n):
            mean = mean + x[i, j].sum(1, keepdim=True) / n
        variance = rl.zeros(i.size, 1, dtype=x.dtype)
        for j in tile(n):
            variance = variance + (x[i, j] - mean).square().sum(1, keepdim=True) / n
        scale = (variance + eps).rsqrt()
        for j in tile(n):
            out[i, j] = (x[i, j] - mean) * scale * weight[j] + bias[j]
    return out


def composition(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """The same by ordinary operators, on any floats."""
    return rl.nn.functional.layer_norm(x, (x.shape[1],), weight, bias)


def inputs(m: int, n: int, k: int) -> tuple[Tensor, ...]:
    """Arguments from three sizes."""
    return rl.randn(m, n), rl.randn(n), rl.randn(n)


run, differentiable, measured = layer_norm, (0, 1, 2), (4096, 2048, 0)

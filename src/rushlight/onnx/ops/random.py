"""Random numbers, drawn from the default generator: a seed in the model is not obeyed."""

from __future__ import annotations

import rushlight as rl
from rushlight import Tensor
from rushlight.onnx.dtypes import dtype_of
from rushlight.onnx.registry import operator


@operator("RandomUniform")
def uniform(
    *, dtype: int = 1, high: float = 1.0, low: float = 0.0, seed: float = 0.0, shape: tuple[int, ...]
) -> Tensor:
    """Numbers of an interval."""
    return (rl.rand(shape) * (high - low) + low).to(dtype_of(dtype))


@operator("RandomNormal")
def normal(
    *, dtype: int = 1, mean: float = 0.0, scale: float = 1.0, seed: float = 0.0, shape: tuple[int, ...]
) -> Tensor:
    """Numbers of a normal distribution."""
    return (rl.randn(shape) * scale + mean).to(dtype_of(dtype))


@operator("RandomUniformLike")
def uniform_like(
    x: Tensor, *, dtype: int | None = None, high: float = 1.0, low: float = 0.0, seed: float = 0.0
) -> Tensor:
    """Numbers of an interval, in the shape of a tensor."""
    return (rl.rand(x.shape) * (high - low) + low).to(x.dtype if dtype is None else dtype_of(dtype))


@operator("RandomNormalLike")
def normal_like(
    x: Tensor, *, dtype: int | None = None, mean: float = 0.0, scale: float = 1.0, seed: float = 0.0
) -> Tensor:
    """Numbers of a normal distribution, in the shape of a tensor."""
    return (rl.randn(x.shape) * scale + mean).to(x.dtype if dtype is None else dtype_of(dtype))


@operator("Bernoulli")
def bernoulli(x: Tensor, *, dtype: int | None = None, seed: float = 0.0) -> Tensor:
    """1 with the probability that an element gives, else 0."""
    drawn = rl.rand(x.shape, dtype=rl.float64) < x.double()
    return drawn.to(x.dtype if dtype is None else dtype_of(dtype))


@operator("Multinomial")
def multinomial(x: Tensor, *, dtype: int = 6, sample_size: int = 1, seed: float = 0.0) -> Tensor:
    """Classes drawn by their logarithmic probabilities."""
    return rl.multinomial(rl.softmax(x, -1), sample_size, replacement=True).to(dtype_of(dtype))

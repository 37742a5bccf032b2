"""Distances and similarities of vectors."""

from __future__ import annotations

from rushlight.eager import functions as ops
from rushlight.eager.boundary import checked
from rushlight.eager.tensor import Tensor
from rushlight.ops.promote import broadcast


@checked
def cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """Return the cosine of the angle between vectors along a dim."""
    shape = broadcast(x1.shape, x2.shape)
    one, other = x1.expand(shape), x2.expand(shape)
    lengths = [ops.maximum(ops.linalg_vector_norm(x, 2.0, dim, True), eps) for x in (one, other)]
    return ((one / lengths[0]) * (other / lengths[1])).sum(dim)

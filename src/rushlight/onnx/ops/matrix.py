"""Matrix products."""

from __future__ import annotations

import rushlight as rl
from rushlight import Tensor
from rushlight.onnx.registry import operator, table

table({"MatMul": rl.matmul, "Det": rl.det})


@operator("Gemm")
def gemm(
    a: Tensor,
    b: Tensor,
    c: Tensor | None = None,
    *,
    alpha: float = 1.0,
    beta: float = 1.0,
    transA: int = 0,  # noqa: N803 - ONNX's name
    transB: int = 0,  # noqa: N803 - ONNX's name
    broadcast: int = 1,
) -> Tensor:
    """A product of matrices, and what is added to it."""
    product = (a.mT if transA else a) @ (b.mT if transB else b)
    product = product if alpha == 1 else alpha * product
    return product if c is None else product + (c if beta == 1 else beta * c)


@operator("Einsum")
def einsum(*operands: Tensor, equation: str) -> Tensor:
    """A sum over the letters that the result lacks."""
    return rl.einsum(equation.replace(" ", ""), *operands)

"""Products with weights of 4 bits, and of rows that belong to segments."""

from __future__ import annotations

from rushlight.eager.creation import empty, zeros
from rushlight.eager.functions import stack
from rushlight.eager.tensor import Tensor
from rushlight.ir.dtype import compute_dtype
from rushlight.nn.kernels.rowwise import wide
from rushlight.support.errors import require
from rushlight.tile import dot, kernel, tile


@kernel
def int4_mm(input: Tensor, packed: Tensor, scale: Tensor | None = None) -> Tensor:
    """A product with a signed matrix of 4 bits: `packed[k, n]` of int8 holds rows 2k (low bits) and 2k + 1 (high bits).

    `scale` is one number for each column of the result.

    >>> kernels.int4_mm(rl.randn(2, 8), rl.ones(4, 3, dtype=rl.int8)).shape
    Size([2, 3])
    """
    m, n = input.shape[0], packed.shape[1]
    require(input.shape[1] == 2 * packed.shape[0], "S003", "int4_mm: inner sizes differ", input=input, packed=packed)
    out = empty(m, n, dtype=input.dtype)
    for i, j in tile(m, n):
        byte = packed[:, j]
        weight = stack([(byte << 4) >> 4, byte >> 4], 1).reshape(input.shape[1], j.size)
        total = dot(input[i, :], weight.to(input.dtype))
        out[i, j] = (total if scale is None else total * wide(scale[j])).to(input.dtype)
    return out


@kernel
def jagged_dense(values: Tensor, segments: Tensor, matrices: Tensor) -> Tensor:
    """Rows times the matrix of their segment: `values` (rows, width), `segments` (rows,), `matrices` (count, width, n).

    Each row reads its own matrix, so this suits few columns; `nn.functional.grouped_mm` suits long segments.

    >>> kernels.jagged_dense(rl.randn(3, 4), rl.tensor([0, 0, 1]), rl.randn(2, 4, 5)).shape
    Size([3, 5])
    """
    rows, columns = values.shape[0], matrices.shape[2]
    out = empty(rows, columns, dtype=values.dtype)
    for i, j in tile(rows, columns):
        mine = wide(matrices[segments[i], :, j])
        out[i, j] = (wide(values[i, :])[:, :, None] * mine).sum(1).to(values.dtype)
    return out


@kernel
def jagged_outer(left: Tensor, right: Tensor, offsets: Tensor) -> Tensor:
    """For each segment of rows the product of one matrix, transposed, with another.

    `left` is (rows, m), `right` (rows, n), and row b of the result (m, n) sums the rows from `offsets[b]` to
    `offsets[b + 1]`.

    >>> kernels.jagged_outer(rl.randn(5, 2), rl.randn(5, 3), rl.tensor([0, 4, 5])).shape
    Size([2, 2, 3])
    """
    segments, m, n = offsets.shape[0] - 1, left.shape[1], right.shape[1]
    pairs = wide(left)[:, :, None] * wide(right)[:, None, :]
    out = zeros(segments, m, n, dtype=compute_dtype(left.dtype))
    for b in tile(segments):
        for k in tile(offsets[b], offsets[b + 1]):
            out[b, :, :] = pairs[k, :, :].sum(1)
    return out.to(left.dtype)

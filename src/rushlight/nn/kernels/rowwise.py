"""Kernels row by row: RMSNorm, rotary embedding, SwiGLU. Floats of 16 bits are computed in float32."""

from __future__ import annotations

from rushlight.eager.creation import empty_like
from rushlight.eager.tensor import Tensor
from rushlight.ir.dtype import compute_dtype
from rushlight.support.errors import require
from rushlight.tile import kernel, tile


def wide(value: Tensor) -> Tensor:
    """A tile as floats of at least 32 bits."""
    return value.to(compute_dtype(value.dtype))


def _rows(value: Tensor) -> Tensor:
    return value.flatten(0, -2) if value.ndim > 1 else value[None]


@kernel
def rms_norm(input: Tensor, weight: Tensor, eps: float = 1e-6) -> Tensor:
    """Rows over the root of the mean of their squares, times a weight for each column.

    >>> kernels.rms_norm(rl.randn(2, 8), rl.ones(8)).shape
    Size([2, 8])
    """
    rows = _rows(input)
    out = empty_like(rows)
    for i in tile(rows.shape[0]):
        row = wide(rows[i, :])
        scale = (row.square().mean(1, keepdim=True) + eps).rsqrt()
        out[i, :] = (row * scale * wide(weight)).to(input.dtype)
    return out.reshape(input.shape)


@kernel
def rotary(input: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Positions as rotations of halves: `input` is (batch, length, heads, width), `cos` and `sin` (length, width / 2).

    >>> kernels.rotary(rl.randn(1, 5, 2, 8), rl.ones(5, 4), rl.zeros(5, 4)).shape
    Size([1, 5, 2, 8])
    """
    batch, length, _, width = input.shape
    half = cos.shape[1]
    require(width == 2 * half, "S003", "rotary: a row is as long as two of cosines", input=input, cos=cos)
    out = empty_like(input)
    for b, t in tile(batch, length):
        first, second = wide(input[b, t, :, :half]), wide(input[b, t, :, half:])
        across, along = wide(cos[t, :])[:, None], wide(sin[t, :])[:, None]
        out[b, t, :, :half] = (first * across - second * along).to(input.dtype)
        out[b, t, :, half:] = (second * across + first * along).to(input.dtype)
    return out


@kernel
def swiglu(gate: Tensor, up: Tensor) -> Tensor:
    """`silu(gate) * up`.

    >>> kernels.swiglu(rl.randn(2, 8), rl.randn(2, 8)).shape
    Size([2, 8])
    """
    gates, ups = _rows(gate), _rows(up)
    out = empty_like(gates)
    for i, j in tile(gates.shape[0], gates.shape[1]):
        one = wide(gates[i, j])
        out[i, j] = (one * one.sigmoid() * wide(ups[i, j])).to(gate.dtype)
    return out.reshape(gate.shape)

"""Rows of a table whose gradient is sparse, or divided by how often each row is asked for."""

from __future__ import annotations

from typing import Any

from rushlight.eager import functions as ops
from rushlight.eager.autograd.function import Function
from rushlight.eager.creation import zeros
from rushlight.eager.sparse.tensor import sparse
from rushlight.eager.tensor import Tensor
from rushlight.ir.dtype import int64
from rushlight.support.errors import require


def lookup(input: Tensor, weight: Tensor, padding_idx: int | None, by_frequency: bool, is_sparse: bool) -> Tensor:
    """Rows of `weight` at integers; the row `padding_idx` gets no gradient.

    With `is_sparse` the gradient of `weight` is a sparse tensor with one place for each row that was asked for; equal
    places are not added up. `by_frequency` divides a row's gradient by how often the input has it. Errors: A006 for
    both.
    """
    require(not (by_frequency and is_sparse), "A006", "embedding: scale_grad_by_freq goes with dense gradients")
    return Embedding.apply(input, weight, padding_idx, is_sparse)


class Embedding(Function):
    """Rows of a table, with the gradients of `lookup`."""

    @staticmethod
    def forward(ctx: Any, *args: Any) -> Any:
        """Returns the rows."""
        input, weight, padding_idx, ctx.is_sparse = args
        ctx.shape = tuple(weight.shape)
        if ctx.needs_input_grad[1]:
            # Which rows count is found here, so that a compiled backward pass has no sizes that values tell.
            places = input.reshape(-1).to(int64)
            learning = None if padding_idx is None else (places != padding_idx).nonzero().reshape(-1)
            ctx.save_for_backward(places if learning is None else places[learning], learning)
        return ops.embedding(input, weight, padding_idx)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        """Returns the gradient of the table."""
        places, learning = ctx.saved_tensors
        rows = grad_outputs[0].reshape(-1, ctx.shape[1])
        rows = rows if learning is None else rows[learning]
        gradient = sparse(places.unsqueeze(0), rows, ctx.shape) if ctx.is_sparse else _added(places, rows, ctx.shape)
        return None, gradient, None, None


def _added(places: Tensor, rows: Tensor, shape: tuple[int, ...]) -> Tensor:
    """The dense gradient: rows divided by how often they were asked for, added up."""
    counts = zeros(shape[0], dtype=rows.dtype).index_add(0, places, ops.ones_like(places, dtype=rows.dtype))
    return zeros(shape, dtype=rows.dtype).index_add(0, places, rows / counts[places].unsqueeze(1))

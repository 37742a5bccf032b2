"""Rows of a table and single elements, whose gradients are sparse.

Those of rows may instead be dense, and divided by how often each row is asked for.
"""

from __future__ import annotations

from typing import Any

from rushlight.eager import functions as ops
from rushlight.eager.arguments import required_tensor
from rushlight.eager.autograd.function import Function
from rushlight.eager.creation import zeros
from rushlight.eager.sparse.tensor import sparse
from rushlight.eager.tensor import Tensor
from rushlight.ir.dtype import int64
from rushlight.ops.dims import wrap_dim
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
        if ctx.is_sparse:  # the gradient lasts, and the program may write to its input
            return None, sparse(places.clone().unsqueeze(0), rows, ctx.shape), None, None
        return None, _added(places, rows, ctx.shape), None, None


def _added(places: Tensor, rows: Tensor, shape: tuple[int, ...]) -> Tensor:
    """The dense gradient: rows divided by how often they were asked for, added up."""
    counts = zeros(shape[0], dtype=rows.dtype).index_add(0, places, ops.ones_like(places, dtype=rows.dtype))
    return zeros(shape, dtype=rows.dtype).index_add(0, places, rows / counts[places].unsqueeze(1))


def gathered(input: Tensor, dim: int, index: object) -> Tensor:
    """The elements of `gather`, with a sparse gradient: one place for each that was read; equal ones are not added."""
    return Gathered.apply(input, wrap_dim(dim, input.ndim, "gather"), required_tensor(index))


class Gathered(Function):
    """`gather`, with the gradient of `gathered`."""

    @staticmethod
    def forward(ctx: Any, *args: Any) -> Any:
        """Returns the elements."""
        input, ctx.dim, index = args
        ctx.shape = tuple(input.shape)
        ctx.save_for_backward(ops.where(index < 0, index + ctx.shape[ctx.dim], index) if ctx.shape else index)
        return ops.gather(input, ctx.dim, index)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        """Returns the gradient of the input."""
        (index,) = ctx.saved_tensors
        rank, shape = len(ctx.shape), tuple(index.shape)
        places = [
            index
            if dim == ctx.dim
            else ops.arange(0, shape[dim]).reshape([-1 if at == dim else 1 for at in range(rank)])
            for dim in range(rank)
        ]
        listed = [ops.broadcast_to(place.to(int64), shape).reshape(-1) for place in places]
        where = ops.stack(listed) if rank else zeros((0, 1), dtype=int64)
        return sparse(where, grad_outputs[0].reshape(-1), ctx.shape), None, None

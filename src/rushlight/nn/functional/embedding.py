"""Rows of tables."""

from __future__ import annotations

import importlib

from rushlight.eager import functions as ops
from rushlight.eager.autograd.modes import no_grad
from rushlight.eager.boundary import checked
from rushlight.eager.creation import arange
from rushlight.eager.tensor import Tensor
from rushlight.ir.dtype import Kind
from rushlight.ops.record import OPERATORS
from rushlight.support.errors import require


@checked
def embedding(
    input: Tensor,
    weight: Tensor,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    """Return rows of `weight`; the row `padding_idx` gets no gradient.

    Rows whose norm of order `norm_type` is above `max_norm` are scaled down to it first, in the table itself. The
    gradient of the table is sparse where `sparse` says so, and that of each row divided by how often the input has it
    with `scale_grad_by_freq`. Errors: A006 for both of these.
    """
    padding_idx = _place_of_padding("embedding", padding_idx, weight)
    if max_norm is not None:
        _limit_rows(input, weight, float(max_norm), float(norm_type))
    return _rows(input, weight, padding_idx, scale_grad_by_freq, sparse)


def _rows(input: Tensor, weight: Tensor, padding_idx: int | None, by_frequency: bool, sparse: bool) -> Tensor:
    if not (by_frequency or sparse):
        return ops.embedding(input, weight, padding_idx)
    return importlib.import_module("rushlight.eager.sparse.lookup").lookup(
        input, weight, padding_idx, by_frequency, sparse
    )


@no_grad()
def _limit_rows(input: Tensor, weight: Tensor, max_norm: float, norm_type: float) -> None:
    """Scale the rows that are asked for down to a norm, where theirs is above it."""
    places, table = input.reshape(-1), weight.detach()
    rows = ops.embedding(places, table)
    norms = OPERATORS["linalg_vector_norm"](rows, norm_type, (1,), True)
    table.index_copy_(0, places, ops.where(norms > max_norm, rows * (max_norm / (norms + 1e-7)), rows))


def _place_of_padding(op: str, padding_idx: int | None, weight: Tensor) -> int | None:
    if padding_idx is None:
        return None
    require(weight.ndim == 2, "S002", f"{op}: the weight must have 2 dims", weight=weight)
    rows = weight.shape[0]
    fits = -rows <= padding_idx < rows
    require(fits, "A002", f"{op}: padding_idx must be within num_embeddings", padding_idx=padding_idx)
    return padding_idx % rows


@checked
def embedding_bag(
    input: Tensor,
    weight: Tensor,
    offsets: object = None,
    max_norm: float | None = None,
    norm_type: float = 2,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: object = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Tensor:
    """Return rows of `weight` combined in bags by "sum", "mean" or "max".

    A bag is a row of the input. In an input of 1 dim, a bag begins at one of `offsets` and ends at the next. Rows of
    `padding_idx` are left out; an empty bag gives 0. `max_norm`, `scale_grad_by_freq` and `sparse` are those of
    `embedding`; the last two go with sums and means (A006).
    """
    padding_idx = _place_of_padding("embedding_bag", padding_idx, weight)
    if max_norm is not None:
        _limit_rows(input, weight, float(max_norm), float(norm_type))
    if scale_grad_by_freq or sparse:
        require(mode != "max", "A006", "embedding_bag: max goes with dense gradients that are not scaled", mode=mode)
        flat = input.reshape(-1)
        weight = _rows(flat, weight, padding_idx, scale_grad_by_freq, sparse)
        places = arange(1, flat.shape[0] + 1)
        if padding_idx is not None:
            places, padding_idx = ops.where(flat == padding_idx, 0, places), 0
        input, weight = places.reshape(input.shape), ops.cat((weight.new_zeros(1, weight.shape[1]), weight))
    return OPERATORS["embedding_bag"](
        weight, input, offsets, per_sample_weights, mode, include_last_offset, padding_idx
    )


@checked
def one_hot(tensor: Tensor, num_classes: int = -1) -> Tensor:
    """Return rows of zeros with a 1 at each class.

    The number of classes, unless given, is the largest class plus one.
    """
    require(tensor.dtype.kind is Kind.INT, "D001", "one_hot: classes are integers", tensor=tensor)
    count = tensor.max().item() + 1 if num_classes == -1 else num_classes
    return ops.one_hot(tensor, count)

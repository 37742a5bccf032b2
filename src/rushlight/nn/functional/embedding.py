"""Rows of tables."""

from __future__ import annotations

from rushlight.eager import functions as ops
from rushlight.eager.boundary import checked
from rushlight.eager.tensor import Tensor
from rushlight.ir.dtype import Kind
from rushlight.ops.record import OPERATORS
from rushlight.support.errors import fail, require


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
    """Return rows of `weight`; the row `padding_idx` gets no gradient."""
    if max_norm is not None or scale_grad_by_freq or sparse:
        fail("A006", "embedding: max_norm, scale_grad_by_freq and sparse are not supported yet")
    return ops.embedding(input, weight, _place_of_padding("embedding", padding_idx, weight))


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
    `padding_idx` are left out; an empty bag gives 0.
    """
    if max_norm is not None or scale_grad_by_freq or sparse:
        fail("A006", "embedding_bag: max_norm, scale_grad_by_freq and sparse are not supported yet")
    padding_idx = _place_of_padding("embedding_bag", padding_idx, weight)
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

"""Routing of rows to experts."""

from __future__ import annotations

from rushlight.eager.creation import arange
from rushlight.eager.functions import stack, where
from rushlight.eager.tensor import Tensor
from rushlight.ir.dtype import int64
from rushlight.nn.kernels.rowwise import wide
from rushlight.support.errors import require
from rushlight.tile import kernel, tile


@kernel
def top_k_routing(logits: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The k experts with the greatest logits of each row, and the softmax of those logits.

    Both results are (rows, k), experts in descending order of their logits; of equal ones the first comes first.

    >>> weights, experts = kernels.top_k_routing(rl.tensor([[1.0, 3.0, 2.0]]), 2)
    >>> experts
    tensor([[1, 2]])
    """
    rows, experts = logits.shape
    require(k >= 1 and k <= experts, "A002", "top_k_routing: k is from 1 to the number of experts", k=k, logits=logits)
    weights = logits.new_empty(rows, k)
    chosen = logits.new_empty(rows, k, dtype=int64)
    for i in tile(rows):
        left, order = wide(logits[i, :]), arange(experts)
        tops, places = [], []
        for _ in range(k):
            place = left.argmax(1)
            tops.append(left.gather(1, place[:, None])[:, 0])
            places.append(place)
            left = where(order == place[:, None], -float("inf"), left)
        weights[i, :] = stack(tops, 1).softmax(1).to(logits.dtype)
        chosen[i, :] = stack(places, 1)
    return weights, chosen

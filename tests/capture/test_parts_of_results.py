"""Backward passes that begin at some of a compiled function's results."""

from __future__ import annotations

from typing import Any

import rushlight as rl
from rushlight.nn import functional as F


def test_a_part_of_the_results_is_differentiated_where_sizes_were_written_in_other_words():
    """What attention guards makes two sizes one, after the pool's indices were kept for the whole pass."""
    key, value, mask = rl.tensor([[[[1.0, 2.0], [3.0, 4.0]]]]), rl.tensor([[[[1.0], [2.0]]]]), rl.tensor([[[1.0]]])

    def function(x: Any) -> Any:
        pooled = F.max_pool2d(x, 2)
        return F.scaled_dot_product_attention(pooled, key, value, attn_mask=mask), pooled[..., ::2]

    gradients: list[Any] = []
    compiled: Any = rl.compile(function)
    for call in (function, compiled):
        x: Any = rl.tensor([[[[1.0, 2.0, 3.0, 4.0], [5.0, 1.0, 2.0, 3.0]]]], requires_grad=True)
        result: Any = call(x)[0]
        result.sum().backward()
        gradients.append(x.grad)
    assert bool((gradients[0] == gradients[1]).all())

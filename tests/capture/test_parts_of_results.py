"""Backward passes that begin at some of a compiled function's results."""

from __future__ import annotations

import gc
from typing import Any

import pytest

import rushlight as rl
from rushlight.capture.gradients import orders
from rushlight.nn import functional as F
from tools.soak import living


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


def test_graphs_for_parts_of_the_results_are_bounded(monkeypatch: pytest.MonkeyPatch):
    """Those that went are made again: each pass has its gradient, and no more graphs stay than may."""
    monkeypatch.setattr(orders, "_MOST_VARIANTS", 3)
    compiled: Any = rl.compile(lambda x: tuple([x.sin() * number for number in range(1, 7)]))
    graphs: list[int] = []
    gc.collect()  # graphs of other programs do not end while these are counted
    for _ in range(2):
        for part in range(1, 7):
            x: Any = rl.ones(3, requires_grad=True)
            results = compiled(x)
            sum(results[:part]).sum().backward()
            wanted: Any = rl.ones(3, requires_grad=True)
            sum([wanted.sin() * number for number in range(1, part + 1)]).sum().backward()
            assert bool((x.grad == wanted.grad).all())
            graphs.append(living()["Graph"])
    assert graphs[0] < graphs[2]
    assert len(set(graphs[2:])) == 1

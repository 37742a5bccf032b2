"""Programs whose sizes only values tell, in PyTorch's API."""

from __future__ import annotations

from collections.abc import Callable

import rushlight as rl
from rushlight.bench.programs.pytorch_ops import Function, Modes


def unbind_split_flip_cat(x: rl.Tensor, counts: rl.Tensor) -> rl.Tensor:
    """For each row of `counts`, whose sum is the size of x: x in parts of these lengths, each turned round."""
    for row in counts.unbind():
        lengths = [count.item() for count in row.unbind()]
        for length in lengths:
            rl._check(length >= 0)
        rl._check(sum(lengths) == x.shape[0])
        x = rl.cat([part.flip(0) for part in x.split(lengths)])
    return x


def sum_items(counts: rl.Tensor) -> rl.Tensor:
    """The sum of integers that are taken out of their tensor one by one, as a tensor."""
    total = 0
    for count in counts.unbind():
        total = total + count.item()
    return rl.full((), total)


def join_selected(x: rl.Tensor) -> rl.Tensor:
    """The positive elements of x, joined one row after another."""
    selected = x[0, :0]
    for row in x.unbind():
        selected = rl.cat([selected, row[row > 0]])
    return selected


FUNCTIONS: dict[str, Callable[[Modes], Function]] = {
    "unbind_split_flip_cat": lambda modes: modes.function(unbind_split_flip_cat),
    "sum_items": lambda modes: modes.function(sum_items),
    "join_selected": lambda modes: modes.function(join_selected),
}

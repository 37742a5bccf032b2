"""Programs whose sizes only values tell, in PyTorch's API."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import rushlight as rl
from rushlight.bench.programs.pytorch_ops import Function, Modes


def unbind_split_flip_cat(x: Any, counts: Any) -> Any:
    """For each row of `counts`, whose sum is the size of x: x in parts of these lengths, each turned round."""
    framework: Any = rl
    for row in counts.unbind():
        lengths = [count.item() for count in row.unbind()]
        for length in lengths:
            framework._check(length >= 0)
        framework._check(sum(lengths) == x.shape[0])
        x = framework.cat([part.flip(0) for part in x.split(lengths)])
    return x


def sum_items(counts: Any) -> Any:
    """The sum of integers that are taken out of their tensor one by one, as a tensor."""
    framework: Any = rl
    total = 0
    for count in counts.unbind():
        total = total + count.item()
    return framework.full((), total)


def join_selected(x: Any) -> Any:
    """The positive elements of x, joined one row after another."""
    framework: Any = rl
    found = x[0, :0]
    for row in x.unbind():
        found = framework.cat([found, row[row > 0]])
    return found


FUNCTIONS: dict[str, Callable[[Modes], Function]] = {
    "unbind_split_flip_cat": lambda modes: modes.function(unbind_split_flip_cat),
    "sum_items": lambda modes: modes.function(sum_items),
    "join_selected": lambda modes: modes.function(join_selected),
}

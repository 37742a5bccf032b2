"""`torch._higher_order_ops.associative_scan`: prefixes of a sequence under a function that is associative."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rushlight import Tensor, cat, stack, vmap
from rushlight.support.errors import require
from rushlight.utils._pytree import tree_flatten, tree_unflatten

__all__ = ["associative_scan"]

_MODES = ("pointwise", "generic")
Combine = Callable[[Sequence[Tensor], Sequence[Tensor]], list[Tensor]]


def associative_scan(
    combine_fn: Callable[[Any, Any], Any],
    xs: Any,
    dim: int,
    reverse: bool = False,
    combine_mode: str = "pointwise",
) -> Any:
    """Combine all elements along `dim` up to each, in as many rounds as the logarithm of their number.

    `combine_fn` gets two trees like `xs`. With `combine_mode="pointwise"` they have many elements along `dim`, with
    "generic" it is mapped over them. The order of operations is that of the rounds, so floats differ from a loop's.
    """
    require(combine_mode in _MODES, "A002", "associative_scan: combine_mode is unknown", combine_mode=combine_mode)
    leaves, tree = tree_flatten(xs)
    require(bool(leaves), "A002", "associative_scan: there are no tensors to combine")

    def apart(left: Sequence[Tensor], right: Sequence[Tensor]) -> list[Tensor]:
        function = combine_fn if combine_mode == "pointwise" else vmap(combine_fn)
        return tree_flatten(function(tree_unflatten(left, tree), tree_unflatten(right, tree)))[0]

    moved = [leaf.movedim(dim, 0) for leaf in leaves]
    moved = _prefixes(apart, [leaf.flip(0) for leaf in moved] if reverse else moved)
    moved = [leaf.flip(0) for leaf in moved] if reverse else moved
    return tree_unflatten([leaf.movedim(0, dim) for leaf in moved], tree)


def _prefixes(combine: Combine, values: list[Tensor]) -> list[Tensor]:
    """The prefixes along the first dim: those of pairs give every other one, and one more step the rest."""
    count = int(values[0].shape[0])
    if count < 2:
        return values
    pairs = combine([value[: count - 1 : 2] for value in values], [value[1::2] for value in values])
    odd = _prefixes(combine, pairs)
    rest = [value[2::2] for value in values]
    even = combine([value[: (count - 1) // 2] for value in odd], rest) if count > 2 else rest
    even = [cat([value[:1], others]) for value, others in zip(values, even, strict=True)]
    return [_in_turns(*both, count) for both in zip(even, odd, strict=True)]


def _in_turns(even: Tensor, odd: Tensor, count: int) -> Tensor:
    both = stack([even[: count // 2], odd], 1).flatten(0, 1)
    return both if count % 2 == 0 else cat([both, even[count // 2 :]])

"""Ten custom operators, with arguments for each: what a program may define."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight import library
from rushlight.support.errors import RushlightError


def array(x: rl.Tensor) -> Any:
    return x.detach().numpy()


def drawn(*shape: int, seed: int = 0, grad: bool = True) -> Any:
    found = rl.randn(*shape, generator=rl.Generator().manual_seed(seed), dtype=rl.float64)
    return found.requires_grad_() if grad else found


def sine() -> library.CustomOpDef:
    @library.custom_op("ten::sine", mutates_args=())
    def sine(x: rl.Tensor) -> rl.Tensor:
        return rl.tensor(np.sin(array(x)))

    sine.register_fake(lambda x: rl.empty(x.shape, dtype=x.dtype))
    sine.register_autograd(
        lambda ctx, g: g * ctx.saved_tensors[0].cos(),
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs),
    )
    return sine


def scaled() -> library.CustomOpDef:
    @library.custom_op("ten::scaled", mutates_args=())
    def scaled(x: rl.Tensor, factor: float = 2.0, *, offset: int = 1) -> rl.Tensor:
        return rl.tensor(array(x) * factor + offset)

    def setup(ctx: Any, inputs: Any, output: Any, keyword_only_inputs: Any) -> None:
        ctx.factor = inputs[1]
        assert keyword_only_inputs["offset"] == 3

    scaled.register_fake(lambda x, factor=2.0, *, offset=1: rl.empty(x.shape, dtype=x.dtype))
    scaled.register_autograd(lambda ctx, g: (g * ctx.factor, None), setup_context=setup)
    return scaled


def product() -> library.CustomOpDef:
    @library.custom_op("ten::product", mutates_args=())
    def product(x: rl.Tensor, y: rl.Tensor) -> rl.Tensor:
        return rl.tensor(array(x) @ array(y))

    @product.register_fake
    def _(x: Any, y: Any) -> Any:
        return rl.empty(x.shape[0], y.shape[1], dtype=x.dtype)

    def backward(ctx: Any, g: Any) -> Any:
        x, y = ctx.saved_tensors
        return g @ y.mT, x.mT @ g

    product.register_autograd(backward, setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs))
    return product


def joined() -> library.CustomOpDef:
    @library.custom_op("ten::joined", mutates_args=())
    def joined(parts: Sequence[rl.Tensor]) -> rl.Tensor:
        return rl.tensor(np.concatenate([array(part) for part in parts]))

    def setup(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.sizes = [part.shape[0] for part in inputs[0]]

    joined.register_fake(lambda parts: rl.empty(sum(part.shape[0] for part in parts), dtype=parts[0].dtype))
    joined.register_autograd(lambda ctx, g: list(g.split(ctx.sizes)), setup_context=setup)
    return joined


def extremes() -> library.CustomOpDef:
    @library.custom_op("ten::extremes", mutates_args=())
    def extremes(x: rl.Tensor) -> tuple[rl.Tensor, rl.Tensor]:
        return rl.tensor(array(x).min(-1)), rl.tensor(array(x).max(-1))

    @extremes.register_fake
    def _(x: Any) -> Any:
        return tuple([rl.empty(x.shape[:-1], dtype=x.dtype) for _ in range(2)])

    def backward(ctx: Any, low: Any, high: Any) -> Any:
        (x,) = ctx.saved_tensors
        pairs = [(low, x.amin(-1, keepdim=True)), (high, x.amax(-1, keepdim=True))]
        return sum([g.unsqueeze(-1) * (x == extreme) for g, extreme in pairs])

    extremes.register_autograd(backward, setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs))
    return extremes


def pieces() -> library.CustomOpDef:
    @library.custom_op("ten::pieces", mutates_args=())
    def pieces(x: rl.Tensor) -> list[rl.Tensor]:
        return [rl.tensor(part.copy()) for part in np.split(array(x), 2)]

    pieces.register_fake(lambda x: [rl.empty(x.shape[0] // 2, *x.shape[1:], dtype=x.dtype) for _ in range(2)])
    pieces.register_autograd(lambda ctx, gradients: rl.cat(gradients))
    return pieces


def optional() -> library.CustomOpDef:
    @library.custom_op("ten::optional", mutates_args=())
    def optional(x: rl.Tensor, weight: rl.Tensor | None = None) -> rl.Tensor:
        return rl.tensor(array(x) * (1 if weight is None else array(weight)))

    def backward(ctx: Any, g: Any) -> Any:
        x, weight = ctx.saved_tensors
        return (g, None) if weight is None else (g * weight, g * x)

    optional.register_fake(lambda x, weight=None: rl.empty(x.shape, dtype=x.dtype))
    optional.register_autograd(backward, setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs))
    return optional


def transposed() -> library.CustomOpDef:
    @library.custom_op("ten::transposed", mutates_args=())
    def transposed(x: rl.Tensor) -> rl.Tensor:
        return rl.tensor(array(x) * 2).mT.contiguous().mT

    transposed.register_fake(lambda x: rl.empty(x.shape[1], x.shape[0], dtype=x.dtype).mT)
    transposed.register_autograd(lambda ctx, g: g * 2)
    return transposed


def counted() -> library.CustomOpDef:
    @library.custom_op("ten::counted", mutates_args=())
    def counted(x: rl.Tensor, bins: int) -> rl.Tensor:
        return rl.tensor(np.bincount(array(x), minlength=bins)[:bins].astype(np.int64))

    counted.register_fake(lambda x, bins: rl.empty(bins, dtype=rl.int64))

    @counted.register_vmap
    def _(info: Any, in_dims: Any, x: Any, bins: int) -> Any:
        return rl.stack([counted(row, bins) for row in x.movedim(in_dims[0], 0)]), 0

    return counted


def increased() -> library.CustomOpDef:
    @library.custom_op("ten::increased", mutates_args=("x",))
    def increased(x: rl.Tensor, y: rl.Tensor) -> rl.Tensor:
        before = rl.tensor(array(x).copy())
        x.add_(y)
        return before

    increased.register_fake(lambda x, y: rl.empty_like(x))
    return increased


Case = tuple[Callable[[], library.CustomOpDef], Callable[[], tuple[Any, ...]], dict[str, Any]]
TEN: dict[str, Case] = {
    "sine": (sine, lambda: (drawn(3, 4),), {}),
    "scaled": (scaled, lambda: (drawn(3), 1.5), {"offset": 3}),
    "product": (product, lambda: (drawn(3, 4), drawn(4, 2, seed=1)), {}),
    "joined": (joined, lambda: ([drawn(3), drawn(2, seed=1)],), {}),
    "extremes": (extremes, lambda: (drawn(3, 4),), {}),
    "pieces": (pieces, lambda: (drawn(4, 2),), {}),
    "optional": (optional, lambda: (drawn(3), drawn(3, seed=1)), {}),
    "transposed": (transposed, lambda: (drawn(3, 4),), {}),
    "counted": (counted, lambda: (rl.tensor([0, 2, 2, 3]), 5), {}),
    "increased": (increased, lambda: (drawn(3, grad=False), drawn(3, seed=1, grad=False)), {}),
}


def made(name: str) -> Iterator[library.CustomOpDef]:
    """The operator, removed in the end."""
    operator = TEN[name][0]()
    try:
        yield operator
    finally:
        operator.remove()


def code_of(function: Callable[[], object]) -> str:
    with pytest.raises(RushlightError) as caught:
        function()
    return caught.value.code

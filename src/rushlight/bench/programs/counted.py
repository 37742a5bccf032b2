"""Programs whose compilation is counted, in PyTorch's API. They are loaded as a user's module, not as one of ours."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import rushlight as rl

nn = rl.nn
WIDTH = 10


class Deeper(nn.Module):
    """A child, and a linear layer."""

    def __init__(self, depth: int) -> None:
        super().__init__()
        self.child: nn.Module = Deeper(depth - 1) if depth else nn.Identity()
        self.linear = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: rl.Tensor) -> rl.Tensor:
        """[..., WIDTH] in and out."""
        return self.linear(self.child(x))


class Layers(nn.Module):
    """Linear layers in a list."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(WIDTH, WIDTH) for _ in range(count)])

    def forward(self, x: rl.Tensor) -> rl.Tensor:
        """One after the other."""
        for layer in self.layers:
            x = layer(x).relu()
        return x


class Many(nn.Module):
    """The sum of an input and of many parameters."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.terms = nn.ParameterList([nn.Parameter(rl.ones(WIDTH)) for _ in range(count)])

    def forward(self, x: rl.Tensor) -> rl.Tensor:
        """[WIDTH]."""
        for term in self.terms:
            x = x + term
        return x


def adds(count: int) -> Callable[..., Any]:
    """Sums in a loop."""

    def run(x: rl.Tensor, y: rl.Tensor) -> rl.Tensor:
        for step in range(count):
            x = x + y * step
        return x

    return run


def products(count: int) -> Callable[..., Any]:
    """Products in a loop."""

    def run(x: rl.Tensor, y: rl.Tensor) -> rl.Tensor:
        for _ in range(count):
            x = x @ y
        return x

    return run


def calls(count: int) -> Callable[..., Any]:
    """Functions in each other, called many times."""

    def inner(x: rl.Tensor, factor: int) -> rl.Tensor:
        return x * factor + 1

    def outer(x: rl.Tensor, factor: int) -> rl.Tensor:
        return inner(inner(x, factor), factor + 1)

    def run(x: rl.Tensor) -> rl.Tensor:
        for step in range(count):
            x = outer(x, step)
        return x

    return run


def sums_of_sizes(count: int) -> Callable[..., Any]:
    """Sizes of many inputs are added up, and make another one."""

    def run(*tensors: rl.Tensor) -> rl.Tensor:
        total: Any = 0
        for one in tensors:
            total = total + one.shape[0]
        return rl.zeros(total) + tensors[0].sum()

    assert count > 0
    return run


def floor_divisions(count: int) -> Callable[..., Any]:
    """Sizes are divided and added up."""

    def run(x: rl.Tensor) -> rl.Tensor:
        total: Any = 0
        for step in range(2, count + 2):
            total = total + x.shape[0] // step
        return rl.zeros(total) + x.sum()

    return run


class Doubled(rl.autograd.Function):
    """A function with a derivative of its own."""

    @staticmethod
    def forward(ctx: Any, x: rl.Tensor) -> rl.Tensor:
        """Twice x."""
        return x * 2

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        """Twice the gradient."""
        return grad_outputs[0] * 2


def own_functions(count: int) -> Callable[..., Any]:
    """Functions with derivatives of their own, one after the other."""

    def run(x: rl.Tensor) -> rl.Tensor:
        for _ in range(count):
            x = Doubled.apply(x)
        return x

    return run


def plus_one(x: rl.Tensor) -> rl.Tensor:
    """x + 1."""
    return x + 1


def scaled(x: rl.Tensor, factor: float) -> rl.Tensor:
    """x times a number."""
    return x * factor


def joint(x: rl.Tensor, w: rl.Tensor, g: rl.Tensor) -> tuple[rl.Tensor, ...]:
    """A chain of products with its gradients."""

    def forward(x: rl.Tensor, w: rl.Tensor) -> rl.Tensor:
        for _ in range(8):
            x = (x @ w).relu() + x
        return x

    result, back = rl.func.vjp(forward, x, w)
    return (result, *back(g))

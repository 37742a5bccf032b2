"""Programs whose capture is measured, in PyTorch's API. They are loaded as a user's module, not as one of ours."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import rushlight as rl

nn = rl.nn
WIDTH = 4
PARAMETERS = 150


class Nested(nn.Module):
    """A linear layer, and a child that goes on with its result."""

    def __init__(self, child: nn.Module) -> None:
        super().__init__()
        self.linear = nn.Linear(WIDTH, WIDTH)
        self.child = child

    def forward(self, x: rl.Tensor) -> rl.Tensor:
        """[..., WIDTH] in and out."""
        return self.child(self.linear(x))


def nested(depth: int) -> nn.Module:
    """A module with `depth` modules in each other."""
    module: nn.Module = nn.Identity()
    for _ in range(depth):
        module = Nested(module)
    return module


class Parameters(nn.Module):
    """The sum of three inputs and of all parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.terms = nn.ParameterList([nn.Parameter(rl.ones(WIDTH)) for _ in range(PARAMETERS)])

    def forward(self, x: rl.Tensor, y: rl.Tensor, z: rl.Tensor) -> rl.Tensor:
        """[WIDTH] each."""
        total = x + y + z
        for term in self.terms:
            total = total + term
        return total


def pointwise(x: rl.Tensor, y: rl.Tensor, z: rl.Tensor) -> rl.Tensor:
    """A few operators on three tensors."""
    return (x * 2 + y).relu() + z


class Account:
    """A name and a list of amounts."""

    def __init__(self, name: str, amounts: list[int]) -> None:
        self.name = name
        self.amounts = amounts

    @property
    def total(self) -> int:
        """The sum of the amounts."""
        return sum(self.amounts)

    def doubled(self) -> Account:
        """An account with twice the amounts."""
        return Account(f"{self.name}*2", [amount * 2 for amount in self.amounts])


def accounts(x: rl.Tensor) -> rl.Tensor:
    """Classes, properties, comprehensions, closures, `try` and generators, with few operators."""

    def scaled(value: rl.Tensor, factor: int) -> rl.Tensor:
        return value * factor if factor % 5 else value

    def numbers(count: int) -> Any:
        for number in range(count):
            if number % 3:
                yield number

    table = {account.name: account for account in [Account(f"a{n}", list(range(n + 1))) for n in range(12)]}
    seen: dict[str, int] = {}
    for name, account in sorted(table.items()):
        twice = account.doubled()
        try:
            seen[twice.name] += twice.total
        except KeyError:
            seen[twice.name] = twice.total + len(name)
        if twice.total % 4 == 0:
            x = scaled(x, twice.total)
        for number in numbers(6):
            seen[name] = seen.get(name, 0) + number
    return x + sum(seen.values())


MODULES: dict[str, Callable[..., Any]] = {
    "nested": nested,
    "parameters": Parameters,
    "pointwise": lambda: pointwise,
    "accounts": lambda: accounts,
}

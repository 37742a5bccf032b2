"""A mode that writes down every operator that runs within it, with the types of what it gets and gives.

    python examples/logging_mode.py

Modes are below autograd: a backward pass shows the operators that it is made of. A compiled function runs operator by
operator while a mode is on, since its kernels have no operators to show.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import rushlight as rl
from rushlight.utils._python_dispatch import TorchDispatchMode


def described(value: object) -> str:
    """A tensor by its dtype and sizes, anything else by its text."""
    if isinstance(value, rl.Tensor):
        return f"{str(value.dtype).partition('.')[2]}{list(value.shape)}"
    if isinstance(value, (tuple, list)):
        return f"[{', '.join(map(described, value))}]"
    return repr(value)


class LoggingMode(TorchDispatchMode):
    """Keeps a line for each operator, such as `float32[2] = add(float32[2], 1)`."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def __torch_dispatch__(
        self, func: Any, types: object, args: tuple[object, ...] = (), kwargs: Mapping[str, object] | None = None
    ) -> object:
        """Run the operator, and write it down."""
        kwargs = kwargs or {}
        given = [*map(described, args), *[f"{name}={described(value)}" for name, value in kwargs.items()]]
        result = func(*args, **kwargs)
        self.lines.append(f"{described(result)} = {func.__name__}({', '.join(given)})")
        return result


def main() -> None:
    """Log a training step of one layer."""
    weight = rl.ones(3, 2, requires_grad=True)
    with LoggingMode() as log:
        loss = rl.nn.functional.linear(rl.ones(4, 2), weight).relu().sum()
        loss.backward()
        weight.data.sub_(weight.grad, alpha=0.1)
    print("\n".join(log.lines))


if __name__ == "__main__":
    main()

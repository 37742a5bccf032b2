"""A subclass of Tensor that holds two tensors of one form: every operator runs on both.

    python examples/two_tensor.py

The class needs nothing of Rushlight but what PyTorch has as well: a wrapper without elements, `__torch_dispatch__`, and
the two methods by which a compiled function takes it apart and puts results together.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import rushlight as rl
from rushlight.utils._python_dispatch import return_and_correct_aliasing
from rushlight.utils._pytree import tree_map


class TwoTensor(rl.Tensor):
    """A pair of tensors of the same sizes, strides and dtype."""

    a: rl.Tensor
    b: rl.Tensor

    @staticmethod
    def __new__(cls, a: rl.Tensor, b: rl.Tensor, requires_grad: bool = False) -> TwoTensor:
        """Make a wrapper of the form of `a`."""
        options = {"dtype": a.dtype, "device": a.device, "requires_grad": requires_grad}
        return rl.Tensor._make_wrapper_subclass(cls, a.size(), strides=a.stride(), **options)

    def __init__(self, a: rl.Tensor, b: rl.Tensor, requires_grad: bool = False) -> None:
        self.a = a
        self.b = b

    def __repr__(self) -> str:
        return f"TwoTensor({self.a}, {self.b})"

    def __tensor_flatten__(self) -> tuple[list[str], object]:
        """Name the inner tensors; there is nothing else to know."""
        return ["a", "b"], None

    @staticmethod
    def __tensor_unflatten__(inner: Mapping[str, rl.Tensor], context: object, size: Any, stride: Any) -> TwoTensor:
        """Put a pair together."""
        return TwoTensor(inner["a"], inner["b"])

    @classmethod
    def __torch_dispatch__(
        cls, func: Any, types: object, args: tuple[object, ...] = (), kwargs: Mapping[str, object] | None = None
    ) -> object:
        """Run the operator on the first tensors, and on the second ones."""

        def run(name: str) -> Any:
            def pick(value: object) -> object:
                return getattr(value, name) if isinstance(value, TwoTensor) else value

            named: Any = tree_map(pick, dict(kwargs or {}))
            return func(*[tree_map(pick, value) for value in args], **named)

        return return_and_correct_aliasing(func, args, kwargs, paired(run("a"), run("b")))


def paired(first: Any, second: Any) -> Any:
    """Two results of an operator as one."""
    if isinstance(first, (tuple, list)):
        return tuple([paired(*elements) for elements in zip(first, second, strict=True)])
    return TwoTensor(first, second) if isinstance(first, rl.Tensor) else first


def main() -> None:
    """Train two models at once, in one compiled function."""
    weight = TwoTensor(rl.ones(2), rl.full((2,), 10.0), requires_grad=True)

    @rl.compile
    def loss(x: rl.Tensor) -> rl.Tensor:
        return ((weight * x).sum() - 1).square()

    loss(rl.tensor([1.0, 2.0])).backward(TwoTensor(rl.tensor(1.0), rl.tensor(1.0)))
    print(weight.grad)


if __name__ == "__main__":
    main()

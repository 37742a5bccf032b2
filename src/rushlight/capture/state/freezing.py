"""Freezes tensors while a function is traced: autograd skips them, and a write is an error."""

from __future__ import annotations

from collections.abc import Container, Iterable

from rushlight.capture.state.reachable import StateWalk
from rushlight.eager.handle import AUTOGRAD, Handle
from rushlight.support.errors import fail


class Frozen:
    """The tensors that a function reaches by itself, if it is compiled so that they are `frozen`."""

    def __init__(self, walk: StateWalk, frozen: bool) -> None:
        self.walk = walk
        self.frozen = frozen
        self._keys: list[tuple[Handle, int]] = []

    def enter(self, tensors: Iterable[Handle]) -> None:
        """From here on nothing is recorded for derivatives with respect to them."""
        for tensor in tensors if self.frozen else ():
            self._keys.append((tensor, tensor.keys))
            tensor.keys &= ~AUTOGRAD

    def leave(self) -> None:
        """Makes them what they were."""
        for tensor, keys in reversed(self._keys):
            tensor.keys = keys
        self._keys.clear()

    def wanted(self, tensors: Iterable[Handle], arguments: Container[int]) -> list[Handle]:
        """Those of the inputs that want a gradient which get one; `arguments` are told by identity."""
        required = [tensor for tensor in tensors if tensor.gradient is not None and tensor.gradient.required]
        return [tensor for tensor in required if id(tensor) in arguments] if self.frozen else required

    def refuse(self, changed: Iterable[Handle], arguments: Container[int]) -> None:
        """C016 where one of them changes."""
        for tensor in changed if self.frozen else ():
            if id(tensor) not in arguments:
                path = next((leaf.path for leaf in self.walk.leaves if leaf.value is tensor), "a tensor")
                fail(
                    "C016",
                    f"compile: the function changes {path}, which is frozen",
                    tensor=tensor,
                    hint="call eval() on the module first, or compile without freeze=True",
                )

"""Tensors saved for backward, with what proves that they still hold what the forward saw."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rushlight.eager.dispatch import STATE, Scope
from rushlight.eager.handle import AUTOGRAD, Gradient, Handle, share
from rushlight.support.errors import fail
from rushlight.support.provenance import Frame


class SavedTensorsHooks(Scope):
    """A scope in which saved tensors are stored as `pack_hook(tensor)` and read through `unpack_hook`."""

    __slots__ = ("_hooks",)

    def __init__(self, pack_hook: Callable[[Any], object], unpack_hook: Callable[[Any], object]) -> None:
        super().__init__()
        self._hooks = (pack_hook, unpack_hook)

    def __enter__(self) -> SavedTensorsHooks:
        self._values = {"saving": (*STATE.saving, self._hooks)}
        super().__enter__()
        return self


class SavedTensor:
    """One saved tensor. An output is kept without its history, which would be a cycle, and gets it back when used."""

    __slots__ = ("_counter", "_output", "_packed", "_tensor", "_unpack", "_version")

    def __init__(self, tensor: Handle, output: int | None = None) -> None:
        self._counter = tensor.version
        self._version = tensor.version.value
        self._output = output
        self._unpack: Any = None
        self._packed: Any = None
        self._tensor: Any = tensor if output is None else share(tensor)
        if STATE.saving:
            pack, self._unpack = STATE.saving[-1]
            saving, STATE.saving = STATE.saving, ()
            try:
                self._packed = pack(self._tensor)
            finally:
                STATE.saving = saving
            self._tensor = None

    def unpack(self, node: Any, frame: Frame | None) -> Any:
        """The tensor; G003 when it was written to since. `node` is the one that saved it."""
        if self._unpack is not None:
            return self._unpack(self._packed)
        if self._counter.value != self._version:
            fail(
                "G003",
                f"backward: a tensor saved by {node.name()} was changed in place",
                frame=frame,
                tensor=self._tensor,
                saved_version=self._version,
                version=self._counter.value,
            )
        tensor = self._tensor
        if self._output is not None and STATE.grad:
            again = share(tensor)
            again.gradient = Gradient()
            again.gradient.node, again.gradient.output = node, self._output
            again.keys |= AUTOGRAD
            return again
        return tensor

"""Tensors saved for backward, with what proves that they still hold what the forward saw."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rushlight.eager.autograd.accumulate import edge_of
from rushlight.eager.autograd.history import requires
from rushlight.eager.dispatch import STATE, Scope, UserScope, call_user
from rushlight.eager.handle import AUTOGRAD, Gradient, Handle, share
from rushlight.support.errors import fail, require
from rushlight.support.provenance import Frame


class saved_tensors_hooks(UserScope):  # noqa: N801 - PyTorch's name
    """A scope in which saved tensors are stored as `pack_hook(tensor)` and read through `unpack_hook`."""

    __slots__ = ("_hooks",)

    def __init__(self, pack_hook: Callable[[Any], object], unpack_hook: Callable[[Any], object]) -> None:
        super().__init__()
        self._hooks = (pack_hook, unpack_hook)

    def __enter__(self) -> saved_tensors_hooks:
        require(STATE.saving_refused is None, "G019", f"saved_tensors_hooks: {STATE.saving_refused}")
        self._values = {"saving": (*STATE.saving, self._hooks)}
        super().__enter__()
        return self


class SavedTensor:
    """One saved tensor. An output is kept without its history, which would be a cycle, and gets it back when used.

    So does what hooks have packed: they are given tensors without history, and may return any that hold the values.
    """

    __slots__ = ("_counter", "_edge", "_output", "_packed", "_tensor", "_unpack", "_version", "form")

    def __init__(self, tensor: Handle, output: int | None = None) -> None:
        self.form = tensor.form
        self._counter = tensor.version
        self._version = tensor.version.value
        self._output = output
        self._edge: Any = None
        self._unpack: Any = None
        self._packed: Any = None
        self._tensor: Any = tensor if output is None else share(tensor)
        if STATE.saving:
            self._edge = edge_of(tensor) if output is None and requires(tensor) else None
            pack, self._unpack = STATE.saving[-1]
            with Scope(saving=(), grad=False):
                self._packed = call_user(pack, share(tensor))
            self._tensor = None

    @property
    def is_packed(self) -> bool:
        """Whether hooks have packed it, so that one of them runs when it is unpacked."""
        return self._unpack is not None

    def unpack(self, node: Any, frame: Frame | None) -> Any:
        """The tensor; G003 when it was written to since. `node` is the one that saved it."""
        if self._unpack is not None:
            return self._unpacked(node)
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
        return _with_history(tensor, (node, self._output)) if self._output is not None and STATE.grad else tensor

    def _unpacked(self, node: object) -> Any:
        with Scope(saving=(), grad=False):
            tensor = call_user(self._unpack, self._packed)
        require(isinstance(tensor, Handle), "A001", "saved_tensors_hooks: unpacking must give a tensor", given=tensor)
        edge = (node, self._output) if self._output is not None else self._edge
        return tensor if edge is None or not STATE.grad else _with_history(tensor, edge)


def _with_history(tensor: Handle, edge: tuple[object, int]) -> Any:
    again = share(tensor)
    again.gradient = Gradient()
    again.gradient.node, again.gradient.output = edge
    again.keys |= AUTOGRAD
    return again

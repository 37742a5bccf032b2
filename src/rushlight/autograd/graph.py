"""The tape itself: its nodes, places in it, and hooks on what it saves and on gradients."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from typing import Any

from rushlight.eager.autograd.accumulate import edge_of
from rushlight.eager.autograd.driver import GradientEdge
from rushlight.eager.autograd.history import requires
from rushlight.eager.autograd.node import Node, RemovableHandle
from rushlight.eager.autograd.saved import saved_tensors_hooks
from rushlight.eager.boundary import checked
from rushlight.eager.dispatch import STATE, Scope, call_user, refuse_in_graphs
from rushlight.eager.handle import Version
from rushlight.eager.interception import TorchDispatchMode
from rushlight.eager.mutation import Mutation
from rushlight.eager.override.operator_function import OperatorFunction
from rushlight.eager.tensor import Tensor
from rushlight.support.errors import fail, require
from rushlight.support.peer_names import absent_name

__all__ = [
    "GradientEdge",
    "Node",
    "RemovableHandle",
    "allow_mutation_on_saved_tensors",
    "disable_saved_tensors_hooks",
    "get_gradient_edge",
    "increment_version",
    "register_multi_grad_hook",
    "save_on_cpu",
    "saved_tensors_hooks",
]


class save_on_cpu(saved_tensors_hooks):  # noqa: N801 - PyTorch's name
    """A scope in which saved tensors are kept in the CPU's memory, where ours are already."""

    __slots__ = ()

    def __init__(self, pin_memory: bool = False, device_type: str = "cuda") -> None:
        def pack(tensor: Tensor) -> tuple[object, Tensor]:
            return tensor.device, tensor.cpu()

        def unpack(packed: tuple[object, Tensor]) -> Tensor:
            return packed[1].to(packed[0])

        super().__init__(pack, unpack)


@contextmanager
def disable_saved_tensors_hooks(error_message: str) -> Generator[None]:
    """A scope in which hooks for saved tensors are error G019, with this message."""
    refuse_in_graphs("disable_saved_tensors_hooks")
    require(not STATE.saving, "G019", f"saved_tensors_hooks: {error_message}")
    with Scope(saving_refused=error_message):
        yield


@checked
def get_gradient_edge(tensor: Tensor) -> GradientEdge:
    """Return the place of the tape that gradients of a tensor arrive at.

    `grad` and `backward` take it in place of the tensor, which may be let go of.
    """
    refuse_in_graphs("get_gradient_edge")
    edge = edge_of(tensor) if requires(tensor) else None
    if edge is None:
        fail("G005", "get_gradient_edge: the tensor does not require gradients", tensor=tensor)
    return GradientEdge(*edge)


@checked
def increment_version(tensor: Tensor | Iterable[Tensor]) -> None:
    """Count a write to tensors that autograd did not see, so that what it has saved of them is not used."""
    refuse_in_graphs("increment_version")
    for target in (tensor,) if isinstance(tensor, Tensor) else tensor:
        target.version.value += 1


class _Removals:
    """Takes several hooks away at once."""

    def __init__(self, handles: Sequence[RemovableHandle]) -> None:
        self._handles = handles

    def remove(self) -> None:
        """Takes the hooks away."""
        for handle in self._handles:
            handle.remove()

    def __enter__(self) -> _Removals:
        return self

    def __exit__(self, *error: object) -> None:
        self.remove()


@checked
def register_multi_grad_hook(
    tensors: Sequence[Tensor], fn: Callable[..., object], *, mode: str = "all"
) -> RemovableHandle | _Removals:
    """Call a function with the gradients of several tensors: `fn(gradients)` in each backward pass that reaches any.

    With "all" it is called when the last of those that the pass reaches has come, with None for the others; with "any"
    it is called with the first one that comes, `fn(gradient)`.
    """
    require(mode in ("all", "any"), "A002", 'register_multi_grad_hook: mode is "all" or "any"', mode=mode)
    tensors = tuple(tensors)
    places = [weakref.ref(tensor if tensor.is_leaf else get_gradient_edge(tensor).node) for tensor in tensors]
    count = len(tensors)
    passes: list[Any] = [None, [None] * count, 0]  # the pass, what has come in it, how many are to come
    lock = threading.Lock()

    def arrived(position: int, gradient: Tensor) -> None:
        refuse_in_graphs("a hook on several gradients")
        with lock:
            now = STATE.engaged
            first = passes[0] is not now or now is None
            if first:
                will_run = set[int]() if now is None else now.will_run()
                passes[:] = now, [None] * count, sum(_node_of(reference()) in will_run for reference in places)
                if now is not None:
                    now.callbacks.append(forget)
            passes[1][position] = gradient
            passes[2] -= 1
            gradients, left = passes[1], passes[2]
        if mode == "any":
            if first:
                call_user(fn, gradient)
        elif left == 0:
            call_user(fn, gradients)

    def forget() -> None:
        passes[:] = None, [None] * count, 0

    def hook_of(position: int) -> Callable[[Tensor], None]:
        return lambda gradient: arrived(position, gradient)

    return _Removals([tensor.register_hook(hook_of(position)) for position, tensor in enumerate(tensors)])


def _node_of(reference: object) -> int:
    """The identity of a node, or of the one that accumulates a leaf's gradient."""
    if isinstance(reference, Tensor):
        edge = edge_of(reference)
        return 0 if edge is None else id(edge[0])
    return id(reference)


class _Saved:
    """A saved tensor, and how often it had been written to then."""

    __slots__ = ("__weakref__", "tensor", "version")

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor
        self.version = tensor.version.value


class _Copies(TorchDispatchMode):
    """Copies what autograd has saved of a tensor before the tensor is written to."""

    def __init__(self) -> None:
        self._saved: dict[int, tuple[Version, list[weakref.ref[_Saved]]]] = {}

    def pack(self, tensor: Tensor) -> _Saved:
        """Keeps a tensor, to be copied later if need be."""
        saved = _Saved(tensor)
        self._saved.setdefault(id(tensor.version), (tensor.version, []))[1].append(weakref.ref(saved))
        return saved

    def unpack(self, saved: _Saved) -> Tensor:
        """The tensor, or the copy of what it was."""
        if saved.tensor.version.value != saved.version:
            fail("G003", "backward: a saved tensor was changed in place by something other than an operator")
        return saved.tensor

    def __torch_dispatch__(self, func: OperatorFunction, types: object, args: Any = (), kwargs: Any = None) -> object:
        """Runs a call; before one that writes, what is saved of its target is copied."""
        kwargs = kwargs or {}
        if isinstance(func.operator, Mutation):
            target = kwargs.get("out", args[0])
            for reference in self._saved.pop(id(target.version), (None, ()))[1]:
                saved = reference()
                if saved is not None and saved.version == target.version.value:
                    saved.tensor = saved.tensor.clone()
                    saved.version = saved.tensor.version.value
        return func(*args, **kwargs)

    def clear(self) -> None:
        """Forgets what is saved: later writes are not looked at."""
        self._saved.clear()


@contextmanager
def allow_mutation_on_saved_tensors() -> Generator[_Copies]:
    """A scope in which tensors that are saved for backward may be written to: what is saved is copied first."""
    copies = _Copies()
    with copies, saved_tensors_hooks(copies.pack, copies.unpack):
        yield copies
    copies.clear()


def __getattr__(name: str) -> object:
    raise absent_name(__name__, name, __all__)

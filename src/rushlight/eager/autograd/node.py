"""Nodes of the tape: one per recorded call, and one per leaf that accumulates a gradient."""

from __future__ import annotations

import functools
import itertools
import weakref
from collections.abc import Callable, Collection, Iterator, Sequence
from types import CodeType
from typing import Any, NamedTuple, Self

from rushlight.eager.dispatch import STATE, call_user
from rushlight.eager.handle import Handle, gradient_of
from rushlight.ops.dims import same_shape
from rushlight.ops.record import OPERATORS
from rushlight.support.errors import fail, require
from rushlight.support.provenance import Frame, frame_at, user_frame

SEQUENCE: Iterator[int] = itertools.count(1)
_hook_numbers: Iterator[int] = itertools.count()
Hook = Callable[..., object]
Hooks = dict[int, Hook]
HOOK_CHANGES = [0]
"""How often a hook was added or removed, anywhere: programs that ran hooks while they were traced look at it."""


def mark() -> int:
    """A number between those of the nodes that were made before and those that will be."""
    return next(SEQUENCE)


class RemovableHandle:
    """What registering a hook returns; `remove()` takes the hook away. Also a context manager."""

    __slots__ = ("__weakref__", "_hooks", "id")

    def __init__(self, hooks: Hooks) -> None:
        self.id = next(_hook_numbers)
        self._hooks = hooks

    def remove(self) -> None:
        """Takes the hook away; the second time nothing happens."""
        if self._hooks.pop(self.id, None) is not None:
            HOOK_CHANGES[0] += 1

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *error: object) -> None:
        self.remove()


def add_hook(hooks: Hooks, hook: Callable[..., object]) -> RemovableHandle:
    """Adds a hook to a table of hooks, which run in order of registration."""
    require(callable(hook), "A001", "a hook must be a function", hook=hook)
    if STATE.tracer is not None:
        STATE.tracer.note_change(hooks)
    handle = RemovableHandle(hooks)
    hooks[handle.id] = hook
    HOOK_CHANGES[0] += 1
    return handle


class NodeHooks(NamedTuple):
    """A node's hooks in the order in which they run, and the tensors that keep gradients of its outputs.

    `of_outputs` are those on gradients of single outputs, each with the output's number.
    """

    of_outputs: Sequence[tuple[int, Hook]]
    before: Sequence[Hook]
    retained: Sequence[tuple[int, Handle]]
    after: Sequence[Hook]
    accumulated: Sequence[Hook] = ()


class Node:
    """A step of a backward pass. `edges` has one entry per input: (node, output number), or None.

    `run` takes the gradients of the outputs and returns one gradient or None per edge.
    """

    __slots__ = (
        "__weakref__",
        "_after",
        "_before",
        "_metadata",
        "_place",
        "_retained",
        "_tensor_hooks",
        "edges",
        "sequence",
    )

    edges: tuple[Edge | None, ...]
    folds: Sequence[int] = ()
    merges: bool = False
    paths: Sequence[Edge | None] | None = None
    hidden: bool = False  # whether what leads to its inputs is not known, as of an argument in a trace
    rest: Sequence[Any] = ()
    sequence: int

    def __init__(self, edges: Sequence[Any], located: bool = True, ours: int = 1) -> None:
        """A `located` node keeps the user's line.

        `ours` is the number of innermost frames, this one included, that belong to Rushlight.
        """
        self.edges = tuple(edges)
        self.sequence = next(SEQUENCE)
        self._place: Frame | tuple[CodeType, int] | None = user_frame(ours) if located else None
        self._metadata: dict[str, object] | None = None
        self._before: Hooks | None = None
        self._after: Hooks | None = None
        self._tensor_hooks: dict[int, Hooks] | None = None
        self._retained: dict[int, weakref.ref[Handle]] | None = None

    @property
    def frame(self) -> Frame | None:
        """The user's line that was recorded. Native code notes code and instruction, and the line is looked up here."""
        if isinstance(self._place, tuple):
            self._place = frame_at(*self._place)
        return self._place

    @frame.setter
    def frame(self, frame: Frame | None) -> None:
        self._place = frame

    def name(self) -> str:
        """PyTorch's name of the node."""
        return type(self).__name__

    def shown(self) -> Self:
        """The node as users see it: an instance of a class with PyTorch's name for it."""
        return self

    def run(self, gradients: list[Any], create_graph: bool, owned: set[int]) -> Sequence[object]:
        """Gradients of the inputs. `owned`: ids of gradients that nobody else refers to, and new ones are added."""
        raise NotImplementedError

    def merged(self, wanted: Collection[int]) -> Any:
        """This step and those that follow as one, unless what arrives at one of these is seen or `wanted`."""
        return None

    @property
    def saves_tensors(self) -> bool:
        """Whether a pass that keeps nothing frees what is saved: then there is no other."""
        return False

    def release(self) -> None:
        """Frees what was saved; a later run is error G001."""

    @property
    def released(self) -> bool:
        """Whether a backward pass has freed what it saved."""
        return False

    @property
    def next_functions(self) -> tuple[tuple[Node | None, int], ...]:
        """The nodes that the gradients go to."""
        return tuple([(None, 0) if edge is None else (edge[0].shown(), edge[1]) for edge in self.edges])

    def register_hook(self, hook: Callable[..., object]) -> RemovableHandle:
        """`hook(grad_inputs, grad_outputs)` after the node has run; a result but None replaces `grad_inputs`."""
        self._after = {} if self._after is None else self._after
        return add_hook(self._after, hook)

    def register_prehook(self, hook: Callable[..., object]) -> RemovableHandle:
        """`hook(grad_outputs)` before the node runs; a result that is not None replaces them."""
        self._before = {} if self._before is None else self._before
        return add_hook(self._before, hook)

    def hooks_of_output(self, output: int) -> Hooks:
        """The table of hooks on the gradient of one output."""
        self._tensor_hooks = {} if self._tensor_hooks is None else self._tensor_hooks
        return self._tensor_hooks.setdefault(output, {})

    def retain(self, output: int, tensor: Handle) -> None:
        """Lets the gradient of an output be kept in the tensor's `grad`."""
        self._retained = {} if self._retained is None else self._retained
        self._retained[output] = weakref.ref(tensor)

    def retain_no_more(self, output: int) -> None:
        """Stops keeping the gradient of an output, whose tensor belongs to another node now."""
        (self._retained or {}).pop(output, None)

    @property
    def metadata(self) -> dict[str, object]:
        """What a program keeps with the node."""
        if self._metadata is None:
            self._metadata = {}
        return self._metadata

    def watched(self) -> tuple[list[Hooks], list[Handle]]:
        """The tables of its hooks that have some, and the tensors that keep gradients of its outputs."""
        tables = [*(self._tensor_hooks or {}).values(), self._before, self._after]
        kept = [reference() for reference in (self._retained or {}).values()]
        return [table for table in tables if table], [tensor for tensor in kept if tensor is not None]

    def hooks(self) -> NodeHooks:
        """Its hooks as they are now."""
        retained = [(output, reference()) for output, reference in (self._retained or {}).items()]
        return NodeHooks(
            [(output, hook) for output, table in (self._tensor_hooks or {}).items() for hook in table.values()],
            list((self._before or {}).values()),
            [(output, tensor) for output, tensor in retained if tensor is not None],
            list((self._after or {}).values()),
        )

    def prepare(self, gradients: list[object], owned: set[int], runs: bool = True) -> None:
        """Runs the hooks of its outputs on what arrived, retains gradients, then runs its own hooks.

        If the node does not run (`runs`), its own hooks are left out.
        """
        for output, hooks in (self._tensor_hooks or {}).items():
            if output < len(gradients) and gradients[output] is not None:
                gradients[output] = run_tensor_hooks(hooks, gradients[output], owned)
        for output, reference in (self._retained or {}).items():
            tensor = reference()
            if tensor is not None and output < len(gradients) and gradients[output] is not None:
                owned.discard(id(gradients[output]))
                add_retained(tensor, gradients[output])
        for hook in tuple((self._before or {}).values()) if runs else ():
            replaced = call_user(hook, tuple(gradients))
            if replaced is not None:
                gradients[:] = fitting(replaced, gradients, self.name())
            owned.difference_update([id(gradient) for gradient in gradients])

    def finish(self, results: Sequence[object], gradients: list[object], owned: set[int]) -> Sequence[object]:
        """Runs the hooks that come after the node."""
        for hook in tuple((self._after or {}).values()):
            replaced = call_user(hook, tuple(results), tuple(gradients))
            if replaced is not None:
                results = fitting(replaced, results, self.name())
            owned.difference_update([id(result) for result in results])
        return results

    def __repr__(self) -> str:
        return f"<{self.name()} object at {id(self):#x}>"


def add_retained(tensor: Handle, gradient: Any) -> None:
    """Adds to the gradient that a tensor which is no leaf retains, out of place: others may refer to it."""
    record = gradient_of(tensor)
    record.grad = gradient if record.grad is None else OPERATORS["add"](record.grad, gradient)


Edge = tuple[Node, int]
"""A node, and the number of one of its outputs."""


@functools.cache
def class_named(kind: type[Node], name: str) -> type[Any]:
    """A subclass that bears a name of PyTorch's and has nothing else of its own."""
    return type(name, (kind,), {"__slots__": (), "__module__": kind.__module__, "__doc__": kind.__doc__})


def run_tensor_hooks(hooks: Hooks, gradient: object, owned: set[int]) -> object:
    """The gradient after a tensor's hooks, each of which may replace it."""
    for hook in tuple(hooks.values()):
        owned.discard(id(gradient))
        replaced = call_user(hook, gradient)
        if replaced is not None:
            (gradient,) = fitting((replaced,), (gradient,), "a tensor's hook")
        owned.discard(id(gradient))
    return gradient


def fitting(replaced: object, before: Sequence[Any], whose: str) -> tuple[Any, ...]:
    """The gradients that a hook returned, a tuple or a single one, to replace `before`. Errors: A001, G007."""
    results: tuple[Any, ...] = tuple(replaced) if isinstance(replaced, (tuple, list)) else (replaced,)
    if len(results) != len(before):
        fail("G007", f"{whose}: a hook returned {len(results)} gradients for {len(before)}")
    for new, old in zip(results, before, strict=True):
        if new is None or new is old:
            continue
        require(isinstance(new, Handle), "A001", f"{whose}: a hook must return tensors, or None", returned=new)
        if old is not None and (new.form.dtype is not old.form.dtype or not same_shape(new.form.shape, old.form.shape)):
            fail("G007", f"{whose}: what a hook returned does not fit the gradient", gradient=old, returned=new)
    return results

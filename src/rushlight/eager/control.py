"""Control flow that a compiled function keeps: `cond`, `while_loop`, `scan` and `map`, as PyTorch has them.

Eagerly they are Python's `if` and `for`. What one of them reads gets one gradient from all of it, the sum of those
from its parts, so that a compiled function adds in the same order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rushlight.eager.autograd.driver import Tape
from rushlight.eager.autograd.history import attach
from rushlight.eager.autograd.node import Node, mark
from rushlight.eager.dispatch import STATE
from rushlight.eager.handle import Handle, share
from rushlight.eager.pytree import flatten_tree, unflatten_tree
from rushlight.eager.symbols import SymBool, SymInt
from rushlight.eager.tracing import TracedNumber
from rushlight.eager.tracing.control import traced_cond
from rushlight.support.errors import fail, require


class TogetherNode(Node):
    """The node of all that a function did: a part of the tape that is run as one."""

    __slots__ = ("_tape",)

    def __init__(self, tape: Tape) -> None:
        super().__init__(tape.edges)
        self._tape: Tape | None = tape

    def name(self) -> str:
        """As it is shown in errors."""
        return "ControlBackward"

    def run(self, gradients: list[Any], create_graph: bool, owned: set[int]) -> Sequence[Any]:
        """The gradients at the edges."""
        if self._tape is None:
            fail("G001", f"backward: {self.name()} was run before, and what it saved is freed", frame=self.frame)
        given = [*gradients, *[None] * (len(self._tape.roots) - len(gradients))]
        found, own = self._tape.gradients(given, (), create_graph, create_graph or STATE.engaged.keep)
        owned.update(own)
        return found

    @property
    def released(self) -> bool:
        """Whether a backward pass has freed what it saved."""
        return self._tape is None

    def release(self) -> None:
        """Lets go of the tape."""
        self._tape = None


def together(function: Callable[..., Any], *arguments: Any) -> Any:
    """What a function returns, with one node for all that it did."""
    if not STATE.grad:
        return function(*arguments)
    since = mark()
    leaves, structure = flatten_tree(function(*arguments))
    made = {id(leaf): leaf for leaf in leaves if _was_made(leaf, since)}
    if not made:
        return unflatten_tree(structure, leaves)
    tape = Tape(list(made.values()), since)
    node = TogetherNode(tape)
    shown: dict[int, Any] = {}
    for place, (key, leaf) in enumerate(made.items()):
        shown[key] = share(leaf)
        attach(shown[key], node, place)
    return unflatten_tree(structure, [shown.get(id(leaf), leaf) for leaf in leaves])


def _was_made(leaf: Any, since: int) -> bool:
    if not isinstance(leaf, Handle) or leaf.gradient is None or leaf.view_of is not None:
        return False
    return leaf.gradient.node is not None and leaf.gradient.node.sequence >= since


def cond(pred: Any, true_fn: Callable[..., Any], false_fn: Callable[..., Any], operands: Any = ()) -> Any:
    """`true_fn(*operands)` where `pred` is true, else `false_fn(*operands)`.

    `pred` is a bool, or a tensor of one bool. In a compiled function both are traced, and the one that is asked for
    runs. They return tensors and integers in tuples, lists and dicts, with the same structure, dtypes and numbers of
    dims; where sizes differ, the result's size is one that only the run tells. They may read what they find around
    them, but not write to it, nor draw random numbers. Errors: C031, C032, C033.
    """
    require(isinstance(operands, (tuple, list)), "A001", "cond: operands is a tuple or list", operands=operands)
    plain = isinstance(pred, (bool, int, float, SymBool, SymInt))
    require(plain or isinstance(pred, Handle), "A001", "cond: the predicate is no bool", predicate=pred)
    if not plain:
        one = all(size == 1 for size in pred.form.shape)
        require(one, "A001", "cond: the predicate is a bool, or a tensor of one", predicate=pred)
    if STATE.tracer is not None and isinstance(pred, (SymBool, Handle)) and not isinstance(pred, TracedNumber):
        return traced_cond(pred, (true_fn, false_fn), operands)
    return together(true_fn if pred else false_fn, *operands)

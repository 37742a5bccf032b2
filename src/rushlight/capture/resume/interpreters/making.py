"""The interpreter that knows what it has made, and keeps some calls from changing anything else."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Set
from types import FunctionType
from weakref import ref

from rushlight.capture.interpreter import Interpreter
from rushlight.capture.interpreter.generators import Resumable
from rushlight.capture.resume.breaks import DISABLED, OUTSIDE, Break
from rushlight.eager.autograd.node import Node
from rushlight.eager.handle import Handle
from rushlight.eager.pytree import NODES
from rushlight.eager.symbols import SymBool, SymFloat, SymInt

# C raises where one of these is to change; the augmented assignment of a size binds another one.
UNCHANGEABLE = frozenset(
    {type(None), bool, int, float, complex, str, bytes, tuple, frozenset, range, SymInt, SymFloat, SymBool}
)
_OF_ITS_CONTAINER = 3  # references to what stands in a container alone, with those of who looks at it
_OF_STEPS = (Handle, Node)  # what is written of tensors is part of graphs, and each pass has steps of its own


class Apart:
    """While it is entered, an interpreter breaks before a change of what its trace has not made since."""

    __slots__ = ("_interpreter", "_outer")

    def __init__(self, interpreter: MakingInterpreter) -> None:
        self._interpreter = interpreter
        self._outer: Set[int] | None = None

    def __enter__(self) -> None:
        self._outer, self._interpreter.before = self._interpreter.before, frozenset(self._interpreter.made)

    def __exit__(self, *error: object) -> None:
        self._interpreter.before = self._outer


class MakingInterpreter(Interpreter):
    """An interpreter that writes down what it makes.

    `made` are the objects, by identity, with the number of the instruction (`count`) that made them.
    """

    __slots__ = ("before", "count", "made")

    def __init__(self, is_leaf: Callable[[FunctionType], bool]) -> None:
        super().__init__(is_leaf)
        self.made: dict[int, tuple[object, int]] = {}
        self.count = 0
        self.before: Set[int] | None = None  # objects that the trace had made before it ran a function apart

    def apart(self) -> Apart:
        """Breaks before a change of what was there before: a graph runs what is called now at another time."""
        return Apart(self)

    def prepares(
        self, function: Callable[..., object], owner: object, args: tuple[object, ...], kwargs: dict[str, object]
    ) -> None:
        """Breaks before a function that gives the state of an owner its form, once for all calls."""
        raise Break(DISABLED, f"the first call of a {type(owner).__name__} is kept out of graphs")

    def changes(self, target: object) -> None:
        """Breaks before a change of an object by a function that is run apart, unless that has made it."""
        if self.before is None or type(target) in UNCHANGEABLE or issubclass(type(target), _OF_STEPS):
            return
        if id(target) in self.before or id(target) not in self.made:
            raise Break(OUTSIDE, f"a {type(target).__name__} changes that was there before")

    def note(self, value: object) -> None:
        """Writes down that the instruction has made an object. It stays alive, but for what ends when it dies."""
        kept = ref(value) if issubclass(type(value), Resumable) else value
        self.made[id(value)] = kept, self.count

    def note_parts(self, made: Iterable[object]) -> None:
        """Writes down iterators and trees of tensors that were made with a container which alone holds them."""
        for part in made:
            kind = type(part)
            if (hasattr(kind, "__next__") or kind in NODES) and sys.getrefcount(part) <= _OF_ITS_CONTAINER:
                self.note(part)

    def makes(self, value: object) -> None:
        """Writes down that an object has been made."""
        self.note(value)

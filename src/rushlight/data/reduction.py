"""Objects of classes as pickles have them: a function or class by its name, what it is called with, and a state.

Python's protocol for `copy` and `pickle` says what an object is made from. Here it is asked once for each object, since
the tensors among the parts are found before the pickle is written, and are then the same ones.
"""

from __future__ import annotations

import copyreg
import sys
import types
from collections.abc import Callable
from typing import Any, NamedTuple

from rushlight.eager.handle import Handle
from rushlight.eager.subclass import state_of_object
from rushlight.support.errors import CheckpointError, RushlightError, error

_NEW = getattr(copyreg, "__newobj__")  # noqa: B009 - type checkers do not know the name


class Reduction(NamedTuple):
    """What an object is made from."""

    function: Callable[..., object] | type
    args: tuple[object, ...]
    state: object
    members: list[object]
    pairs: list[tuple[object, object]]
    is_new: bool  # `function` is a class, whose `__new__` alone is called


class Reductions:
    """The reductions of objects, each of them made once."""

    def __init__(self) -> None:
        self._made: dict[int, tuple[object, Reduction]] = {}  # with the object, so that no identity is used twice
        self._states: dict[int, tuple[Handle, object]] = {}

    def of(self, value: object, where: str) -> Reduction:
        """Return what an object is made from; `where` is for P006, where its class does not tell."""
        key = id(value)
        if key not in self._made:
            self._made[key] = (value, _reduced(value, where))
        return self._made[key][1]

    def state(self, tensor: Handle) -> Any:
        """Return what a program has added to a tensor: attributes, slots, or what its class says."""
        key = id(tensor)
        if key not in self._states:
            self._states[key] = (tensor, state_of_object(tensor))
        return self._states[key][1]

    def parts(self, value: object) -> list[object]:
        """Return all parts of an object; none where its class does not tell, which `of` reports."""
        try:
            made = self.of(value, "")
        except CheckpointError:
            return []
        return [made.args, made.state, made.members, made.pairs]


def is_named(value: object) -> bool:
    """Whether an object is saved as a name: a class or a function."""
    return isinstance(value, type | types.FunctionType | types.BuiltinFunctionType)


def name_of(value: Any, where: str) -> str:
    """Return the module and name of a class or function; P006 where the name does not lead to it again."""
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", type(value).__qualname__)
    if module is not None and getattr(sys.modules.get(module), name, None) is value:
        return f"{module}.{name}"
    hint = "define it at the top of a module, or save a state_dict()"
    raise error("P006", f"save: {name} at {where} cannot be saved: its name does not lead to it", hint=hint)


def _reduced(value: object, where: str) -> Reduction:
    kind = type(value).__name__
    hint = "save its state_dict()" if hasattr(value, "state_dict") else None
    try:
        reduced: Any = value.__reduce_ex__(2)
    except RushlightError:
        raise
    except Exception as cause:
        raise error("P006", f"save: {kind} at {where} cannot be saved: {cause}", hint=hint) from cause
    if isinstance(reduced, str) or len(reduced) > 5:
        raise error("P006", f"save: {kind} at {where} cannot be saved", hint=hint)
    function, args = reduced[:2]
    state, members, pairs = (*reduced[2:], None, None, None)[:3]
    if is_new := function is _NEW:
        function, args = args[0], args[1:]
    return Reduction(function, args, state, list(members or ()), list(pairs or ()), is_new)

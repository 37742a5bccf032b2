"""Guards on single values: that they are the same, of their class, or defined."""

from __future__ import annotations

from collections.abc import Iterable
from types import BuiltinFunctionType, MethodType
from typing import Any

from rushlight.capture.arguments import Arguments, Names
from rushlight.capture.entry.entry import misfit_of
from rushlight.capture.guard import Guard
from rushlight.capture.state.reachable import StateWalk
from rushlight.ir.type import TensorType

_PLAIN = (type(None), bool, int, float, str, bytes)
_BOUND = (MethodType, BuiltinFunctionType)
_MOST_FORMS = 64  # that a guard remembers


def constant_guard(text: str, path: str, value: object, names: Names) -> Guard:
    """That a value is still the same: equal for plain values, identical for objects."""
    if type(value) in _BOUND:  # each look-up makes one; those of the same object and function are equal
        failed = f"{text}.__class__ is not {names(type(value))} or {text} != {names(value)}"
        return Guard("object", path, f"the same {type(value).__name__}", failed)
    if not issubclass(type(value), _PLAIN):  # `isinstance` would ask the object for its class
        return Guard("object", path, f"the same {type(value).__name__}", f"{text} is not {names(value)}")
    if value is None or isinstance(value, bool):
        return Guard("constant", path, repr(value), f"{text} is not {value!r}")
    if isinstance(value, (int, float)):
        failed = f"{text}.__class__ is not {names(type(value))} or {number_differs(text, value, names)}"
        kind = "number" if type(value) in (int, float) else "constant"  # NumPy's never come when a graph runs
        return Guard(kind, path, repr(value), failed)
    same, class_ = names(value), names(type(value))  # other objects may fail where they are compared
    differs = f"{text} is not {same} and ({text}.__class__ is not {class_} or {text} != {same})"
    return Guard("constant", path, repr(value), differs)


def text_guards(arguments: Arguments, walk: StateWalk, names: Names) -> list[Guard]:
    """That texts are the same objects, of which a trace has asked which they are."""
    texts = walk.assumed.texts
    told = [(name, name, value) for name, value in arguments.leaves if id(value) in texts]
    told += [(leaf.text(names), leaf.path, leaf.value) for leaf in walk.leaves if id(leaf.value) in texts]
    return [Guard("constant", path, f"this {value!r}", f"{text} is not {names(value)}") for text, path, value in told]


def number_differs(text: str, value: float, names: Names) -> str:
    """Whether a number of a class is another one than a value: 0.0 and -0.0 are two, and NaN is one."""
    if value != value:
        return f"{text} == {text}"
    return f"{text} != {names(value)}" if value else f"repr({text}) != {repr(value)!r}"


def is_partial(text: str) -> bool:
    """Whether a number may be undefined for some operands: a quotient, or a power."""
    return any(symbol in text for symbol in "/%*")


def defined_guards(texts: Iterable[str]) -> list[Guard]:
    """Guards that numbers are defined which nothing but Python computes."""
    return [Guard("number", text, "defined", f"{text} is None") for text in dict.fromkeys(filter(is_partial, texts))]


def type_guard(text: str, path: str, value: object, names: Names) -> Guard:
    """That a number is still of its class."""
    return Guard("type", path, type(value).__name__, f"{text}.__class__ is not {names(type(value))}")


class FormOf:
    """Whether tensors are of a traced type, of which sizes may be open. Forms that are, are remembered in `known`."""

    __slots__ = ("known", "type")

    def __init__(self, type_: TensorType) -> None:
        self.type = type_
        self.known: set[object] = set()

    def is_apart(self, tensor: Any) -> bool:
        """Whether a tensor is of another dtype, device, rank or layout, or of a size that is fixed."""
        if misfit_of(tensor.form, self.type, {}, "") is not None:
            return True
        if len(self.known) >= _MOST_FORMS:
            self.known.clear()
        self.known.add(tensor.form)
        return False


def form_guard(text: str, type_: TensorType, names: Names) -> Guard:
    """That a tensor which the graph does not take is of the type that the trace has seen."""
    form = FormOf(type_)
    failed = f"{text}.form not in {names(form.known)} and {names(form.is_apart)}({text})"
    return Guard("tensor", text, str(type_), failed)

"""Which object a value of a trace is: its class, its number, and whether two values are one object."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import FunctionType
from typing import Any

from rushlight.capture.interpreter.slots import HEAP_TYPE
from rushlight.capture.resume import breaks
from rushlight.capture.resume.blueprint import is_ours
from rushlight.capture.resume.breaks import Break
from rushlight.capture.resume.identities import THREAD, Identity
from rushlight.capture.resume.interpreters.access import AccessingInterpreter
from rushlight.capture.resume.opaque import Opaque
from rushlight.capture.resume.reached import ReachedObjects
from rushlight.capture.state.assumed import Assumed
from rushlight.capture.state.globals import module_of_class
from rushlight.capture.state.reachable import variables_of
from rushlight.eager.dispatch import STATE
from rushlight.eager.handle import Handle
from rushlight.eager.symbols import SymBool, SymFloat, SymInt
from rushlight.eager.tracing import TracedNumber
from rushlight.ir.dtype import Kind

_STANDING_FOR: dict[type, type] = {SymInt: int, SymBool: bool, SymFloat: float, Identity: int}
_CLASSES = {Kind.FLOAT: float, Kind.BOOL: bool, Kind.COMPLEX: complex, Kind.INT: int}
NUMBERS = frozenset({TracedNumber, SymInt, SymBool, SymFloat})  # of the run time
_TEXTS = frozenset({str, bytes})
_SMALL = range(-5, 257)  # of each of these numbers CPython has one object


class IdentifyingInterpreter(AccessingInterpreter):
    """An interpreter that answers which object a value is, and breaks where that is not known."""

    __slots__ = ("identities",)

    def __init__(self, is_leaf: Callable[[FunctionType], bool], reached: ReachedObjects) -> None:
        super().__init__(is_leaf, reached)
        self.identities: list[Identity] = []  # numbers of objects that the program has asked for

    def class_of(self, value: object) -> type:
        """The class of a value, as programs see it."""
        if type(value) is Opaque:
            raise Break(breaks.PASSED_BY, "the class of an object that the graph passes by")
        kind = type(value)
        if kind is TracedNumber and isinstance(value, TracedNumber):
            return type(value.value)
        if issubclass(kind, Handle) and isinstance(value, kind) and is_computed(value):
            return _CLASSES[value.form.dtype.kind]
        if kind.__flags__ & HEAP_TYPE and id(value) not in self.made and not self.reached.knows(value):
            self.reached.walk.assumed.has_class(value)
        return _STANDING_FOR.get(kind, kind)

    def identity(self, value: object) -> int:
        """The number of an object, as a trace knows it."""
        return self._numbered(value)

    def thread(self) -> int:
        """The number of the thread, which is that of each call."""
        return self._numbered(THREAD)

    def _numbered(self, owner: object) -> Identity:
        made = Identity.of(owner, self._tells_apart, self.identities)
        if not any(made is known for known in self.identities):
            self.identities.append(made)
        return made

    def _tells_apart(self, value: object, other: object) -> bool:
        return value is not THREAD and other is not THREAD and self.is_same(value, other)

    def is_same(self, value: object, other: object) -> bool:
        """Whether two values are one object. Errors: Break where that is not known."""
        if value is not other and (type(value) in NUMBERS or type(other) in NUMBERS):
            return self._is_same_number(value, other)
        if value is not other and (is_computed(value) or is_computed(other)):
            if self.class_of(value) is not self.class_of(other):
                return False
            raise Break(breaks.VALUE, "it is asked which object a number is that item() gives")
        if (
            value is not other
            and Opaque in (type(value), type(other))
            and not (id(value) in self.made or id(other) in self.made or value is None or other is None)
        ):
            raise Break(breaks.IDENTITY, "identity of an object that the graph passes by")
        for one, another in ((value, other), (other, value)):
            if value is not other and self.reached.knows(one) and type(one) is type(another):
                self.reached.guard_apart(one, another)
        if value is not other and issubclass(type(value), Handle) and issubclass(type(other), Handle):
            if any(map(_is_result, (value, other))):
                return False
            if not all(map(self._is_known, (value, other))):
                raise Break(breaks.IDENTITY, "identity of two tensors")
        if type(value) in _TEXTS and type(other) is type(value) and value == other:
            self.reached.walk.assumed.texts |= {id(each) for each in (value, other) if id(each) not in self.made}
        tuples = value is not other and type(value) is tuple and type(other) is tuple and len(value) == len(other)
        if tuples and (id(value) in self.given or id(other) in self.given):
            raise Break(breaks.IDENTITY, "identity of a tuple that is an argument")
        if value is not other and type(value) in (list, dict) and type(other) is type(value):
            inside = [id(item) in self.given for item in (value, other)]
            if any(inside) and not all(inside) and id(value) not in self.made and id(other) not in self.made:
                raise Break(breaks.IDENTITY, "identity of a container that is an argument")
        return value is other

    def _is_constant(self, tensor: Any) -> bool:
        """Whether a tensor is the same object at each call. It is guarded to be."""
        if tensor.backing is None or id(tensor) in self.reached.walk.assumed.told:
            return False
        self.reached.walk.assumed.tells_apart(tensor)
        return True

    def _is_known(self, tensor: object) -> bool:
        """Whether it is known which object a tensor is: the same one at each call, or an argument.

        Arguments that are told from other tensors are guarded to be others than these.
        """
        assumed = self.reached.walk.assumed
        real = assumed.stands_for.get(id(tensor), tensor)
        if real is tensor or id(real) in assumed.apart:
            return self._is_constant(tensor)
        if id(tensor) in assumed.specified:
            return False
        assumed.told.add(id(real))
        return True

    def hashes(self, key: object, container: object = None) -> None:
        """Breaks before a tensor is looked up of which it is not known which object it is.

        Arguments are keys of what the trace has made alone, where it has seen all keys.
        """
        if type(key) in (tuple, frozenset) and isinstance(key, (tuple, frozenset)):
            for part in key:
                self.hashes(part, container)
        elif is_computed(key):
            raise Break(breaks.VALUE, "a number that item() gives is a key")
        elif _is_tensor(key) and not (_is_result(key) or self._is_constant(key)):
            new = container is None or id(container) in self.made
            if not new or not self._is_known(key):
                raise Break(breaks.KEY, "a tensor is a key")
            if isinstance(container, (dict, set, frozenset)):
                self._sees_keys(container)

    def _sees_keys(self, keys: Iterable[object]) -> None:
        for key in keys:
            if type(key) in (tuple, frozenset) and isinstance(key, (tuple, frozenset)):
                self._sees_keys(key)
            elif isinstance(key, Handle) and not (_is_result(key) or self._is_known(key)):
                raise Break(breaks.KEY, "a tensor is a key")

    def stays(self, key: object) -> None:
        """Breaks before a key is put into what was there before, of which each call makes another."""
        if type(key) in (tuple, frozenset) and isinstance(key, (tuple, frozenset)):
            for part in key:
                self.stays(part)
        elif _is_tensor(key) and _is_result(key):
            raise Break(breaks.KEY, "a tensor is a key")

    def replaces(self, container: object, key: object, value: object) -> None:
        """Breaks before an item is set that was there before, unless each call can set it."""
        if id(container) not in self.made and not issubclass(type(container), Handle):
            self.stays(key)
        super().replaces(container, key, value)

    def _is_same_number(self, value: Any, other: Any) -> bool:
        """Whether two numbers, of which one may be any at each call, are one object: small ones are, and truths."""
        kind = self.class_of(value)
        if kind is not self.class_of(other):
            return False
        one, another = fixed_number(value), fixed_number(other)
        if one == one and one != another:  # what is not equal to itself is NaN, of which there may be one
            return False
        if kind is bool or (kind is int and one in _SMALL):
            return True
        raise Break(breaks.IDENTITY, "it is asked which object a number is")


def is_computed(value: Any) -> bool:
    """Whether a value is what `item()` gives in a trace, or computed from that: a number, known when the graph runs."""
    return issubclass(type(value), Handle) and type(value) is not TracedNumber and value.form.type.weak


def _is_tensor(value: object) -> bool:
    return issubclass(type(value), Handle) and type(value) is not TracedNumber


def _is_result(tensor: Any) -> bool:
    """Whether a tensor is one that an operator of the trace gave: another one than all others, at each call."""
    return STATE.tracer is not None and type(tensor) is not TracedNumber and STATE.tracer.is_result(tensor)


def fixed_number(value: Any) -> Any:
    """A number of the run time as it is in this call; what is none is itself."""
    kind = type(value)
    if kind is TracedNumber:
        return value.item()
    return _STANDING_FOR[kind](value) if kind in NUMBERS else value


def concrete(value: Any, seen: dict[int, object]) -> Any:
    """A value whose text is wanted: numbers of the run time are fixed. Errors: Break for a tensor.

    `seen` has what stands for lists and dicts around it, by their identity: one may contain itself.
    """
    kind = type(value)
    if kind is TracedNumber and value.numbers.changes(value):
        raise Break(breaks.PASSED_BY, "the text of a number that is another one at each call")
    if kind in NUMBERS:
        return fixed_number(value)
    if issubclass(kind, Handle):
        raise Break(breaks.VALUE, "the text of a tensor")
    if kind in (list, dict):
        if id(value) not in seen:
            made: Any = kind()
            seen[id(value)] = made
            if kind is list:
                made.extend([concrete(item, seen) for item in value])
            else:
                made.update({key: concrete(item, seen) for key, item in value.items()})
        return seen[id(value)]
    of_shape = issubclass(kind, tuple) and is_ours(module_of_class(kind))
    return kind([concrete(item, seen) for item in value]) if kind is tuple or of_shape else value


def copies_attributes(assumed: Assumed, tensor: object) -> None:
    """Has guarded that a tensor that was there before has no attributes of the program's. Breaks where not."""
    real = assumed.stands_for.get(id(tensor), tensor)
    variables = variables_of(real)
    if variables:
        raise Break(breaks.PASSED_BY, "the attributes of a tensor are copied")
    if real is not tensor:
        assumed.bare.add(id(real))
    elif variables is not None and not _is_result(real):
        assumed.lacks_all(variables)

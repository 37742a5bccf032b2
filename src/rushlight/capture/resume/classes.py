"""Classes that a trace makes: what C would call is interpreted, and each call makes such a class of its own."""

from __future__ import annotations

import abc
import contextlib
import gc
import itertools
from collections.abc import Container, Iterable, Sequence
from types import FunctionType, GetSetDescriptorType, MemberDescriptorType
from typing import Any

from rushlight.capture.interpreter.frame import Evaluator
from rushlight.capture.interpreter.slots import HEAP_TYPE, lookup, python_method
from rushlight.capture.resume.breaks import CALLED_BACK, PASSED_BY, Break
from rushlight.capture.resume.opaque import Opaque
from rushlight.support.frozen import frozen

_NATIVE: Any = abc  # its functions of C are of no stub
_TOLD: Any = lookup(property, "__set_name__")  # of what an error calls a property; 3.13 has it as an attribute
_ABC = "_abc_impl"  # what the metaclass of abstract classes keeps in a class
_OF_ABC = frozenset({_ABC, "__abstractmethods__"})
_TELLER = "__init_subclass__"
# What `type` sets as a class statement does. Other setters of metaclasses take other values, or do other things.
_SET_BY_TYPE = frozenset({"__module__", "__doc__", "__annotations__", "__abstractmethods__", "__type_params__"})
_WRAPPED = ("__new__", _TELLER, "__class_getitem__")  # functions that C makes methods of another kind


class Quiet:
    """A base that comes first while a class is made, so that C tells none of the others of it."""

    def __init_subclass__(cls, **kwargs: object) -> None:
        """Does nothing."""


def new_class(
    interpreter: Evaluator,
    kind: type,
    name: str,
    bases: tuple[type, ...],
    namespace: dict[str, object],
    kwargs: dict[str, object],
) -> type:
    """A class whose parts and bases are told of it by interpreted methods. Errors: Break where C would call some."""
    if python_method(interpreter, kind, "mro") is not None:
        raise Break(CALLED_BACK, "C calls mro")
    if any(type(value) is Opaque for value in (*bases, *namespace.values())):
        raise Break(PASSED_BY, "a class has a part that the graph passes by")
    namespace = dict.copy(namespace)
    named = {key: value for key, value in namespace.items() if _takes_name(interpreter, value)}
    if not named and not _tells(bases):
        made = type.__new__(kind, name, bases, namespace, **kwargs)
        interpreter.makes(made)
        return made
    made = made_quietly(kind, name, bases, namespace | dict.fromkeys(named))
    interpreter.makes(made)
    for key, value in named.items():
        type.__setattr__(made, key, value)
    for key, value in named.items():
        try:
            interpreter.call(lookup(type(value), "__set_name__"), (value, made, key))
        except Exception as error:  # noqa: BLE001 - of the program, in which Python raises it
            raise Break(CALLED_BACK, f"__set_name__ raises {type(error).__name__}") from None
    interpreter.call(super(made, made).__init_subclass__, (), kwargs)
    return made


def _takes_name(interpreter: Evaluator, value: object) -> bool:
    return python_method(interpreter, type(value), "__set_name__") is not None


def _tells(bases: Iterable[type]) -> bool:
    """Whether the first base that is told of a new class is told by a method written in Python."""
    tellers = [lookup(base, _TELLER) for base in bases]
    return any(type(getattr(teller, "__func__", teller)) is FunctionType for teller in tellers)


def made_quietly(kind: type, name: str, bases: tuple[type, ...], namespace: dict[str, object]) -> type:
    """A class of which none of its bases has been told. Errors: Break where its instances would be laid out otherwise.

    Its bases are set behind that, which CPython allows where instances have the same parts.
    """
    if not _tells(bases):
        return type.__new__(kind, name, bases, namespace)
    if "__slots__" in namespace:
        raise Break(CALLED_BACK, "C calls __init_subclass__ of a class with slots")
    made = type.__new__(kind, name, (Quiet, *bases), namespace)
    try:
        made.__bases__ = bases
    except TypeError:
        raise Break(CALLED_BACK, "C calls __init_subclass__") from None
    return made


def detach(made: type, others: Container[int]) -> None:
    """Takes a class away from bases that are none of `others`, if it is laid out as without them."""
    if not any(base.__flags__ & HEAP_TYPE and id(base) not in others for base in made.__bases__):
        return
    with contextlib.suppress(TypeError):
        type.__setattr__(made, "__bases__", (Quiet,))


def parts_that_c_made(cls: type) -> list[object]:
    """The methods of other kinds that C has made of functions in a class body."""
    parts = [vars(cls)[name] for name in _WRAPPED if name in vars(cls)]
    return [part for part in parts if type(part) in (staticmethod, classmethod)]


@frozen(eq=False)
class ClassPlan:
    """How a class is made again: first without what stands in it, then `values` are set under `names`.

    The `first` names come before what CPython itself puts into a class.
    """

    cls: type
    names: Sequence[str]
    first: Sequence[str]
    values: Sequence[object]
    slots: Sequence[str] | None

    @staticmethod
    def of(made: type) -> ClassPlan | None:
        """The plan of a class; None of one that its metaclass alone can make."""
        variables = vars(made)
        if type(lookup(type(made), "mro")) is FunctionType or (_ABC in variables and _registered(made)):
            return None
        own = [name for name, value in variables.items() if not _is_of_layout(made, value)]
        slots = None
        if "__slots__" in variables:
            slots = [name for name, value in variables.items() if _is_of_layout(made, value)]
        first = list(itertools.takewhile(lambda name: not _is_of_layout(made, variables[name]), variables))
        plan = ClassPlan(made, own, first, [variables[name] for name in own if name not in _OF_ABC], slots)
        return plan if slots is None or plan.keeps_layout() else None

    def keeps_layout(self) -> bool:
        """Whether a class that is made again has instances of the same parts: a slot may have been taken away."""
        try:
            twin = self.make(type(self.cls), self.cls.__bases__)
        except (Break, TypeError, ValueError):
            return False
        return _layout(twin) == _layout(self.cls)

    def make(self, kind: type, bases: tuple[type, ...]) -> type:
        """A class in which nothing stands yet."""
        namespace = dict[str, object]([(name, None) for name in self.first])
        if _TELLER in namespace:  # classes are derived before it is set
            namespace[_TELLER] = vars(object)[_TELLER]
        namespace["__qualname__"] = self.cls.__qualname__
        if self.slots is not None:
            namespace["__slots__"] = tuple(self.slots)
        return made_quietly(kind, self.cls.__name__, bases, namespace)

    def fill(self, made: type, values: Sequence[object]) -> None:
        """Puts into a class what stands in it."""
        for name, value in zip([name for name in self.names if name not in _OF_ABC], values, strict=True):
            if name not in _SET_BY_TYPE and hasattr(type(lookup(type(made), name)), "__set__"):
                variables: Any = gc.get_referents(vars(made))[0]  # behind the view of them
                variables[name] = value
                _forget_lookups(made)
            else:
                type.__setattr__(made, name, value)
            if isinstance(value, property) and lookup(type(value), "__set_name__") is _TOLD:
                _TOLD(value, made, name)
        if _ABC in self.names:
            _NATIVE._abc_init(made)


def _forget_lookups(cls: type) -> None:
    """Has CPython look up the attributes of a class anew."""
    type.__setattr__(cls, _TELLER + "_", None)
    type.__delattr__(cls, _TELLER + "_")


def _registered(cls: type) -> bool:
    """Whether an abstract class takes others for its own."""
    return bool(_NATIVE._get_dump(cls)[0])


def _is_of_layout(cls: type, value: object) -> bool:
    """Whether CPython has put a value into a class itself: access to a slot, or to the variables of an instance."""
    kind = type(value)
    return kind in (MemberDescriptorType, GetSetDescriptorType) and getattr(value, "__objclass__", None) is cls


def _layout(cls: type) -> tuple[int, ...]:
    return cls.__basicsize__, cls.__dictoffset__, cls.__weakrefoffset__

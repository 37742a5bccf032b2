"""What a trace takes for granted of classes, functions and names that it looks into: that they stay as they are.

Of a class of the program's that a trace asks for anything, each call checks its bases, its names, and its methods and
descriptors, by identity; of a function that is called, code and defaults; and names that were not there: of globals
behind which a builtin stands, and of attributes that an object does not have itself.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Container, Iterator, Sequence
from decimal import getcontext
from operator import attrgetter
from types import FunctionType, ModuleType
from typing import Any, NamedTuple

from rushlight.capture.guard import Guard, is_same
from rushlight.capture.interpreter.slots import HEAP_TYPE
from rushlight.capture.state.globals import is_of_users, module_of_class, module_of_globals
from rushlight.eager.handle import Handle

_OF_CALLS = ("__code__", "__defaults__", "__kwdefaults__")


class Part(NamedTuple):
    """An attribute that CPython keeps in the object itself, as `word_address` finds it, and its value."""

    owner: object
    name: str
    value: object
    path: str

    def guard(self, names: Callable[[object], str]) -> Guard:
        """That it is still the same object."""
        owner, value = names(self.owner), names(self.value)
        if self.name == "__class__":
            return Guard(
                "class", self.path, f"a {type(self.owner).__qualname__}", f"{names(type)}({owner}) is not {value}"
            )
        kind = "class" if self.name == "__mro__" else "function"
        return Guard(kind, f"{self.path}.{self.name}", "as it was", f"{owner}.{self.name} is not {value}")


class _Told(NamedTuple):
    """What a function tells of an object."""

    owner: object
    path: str
    tell: Callable[[Any], object]
    value: object


class Assumed:
    """What a trace has looked into: each by identity, once.

    `tensors` are those that its operators are given, `asked` those whose form it has looked at, `apart` those that it
    has told from others, `told` the arguments that it has told from others. What `stands_for` a tensor among the
    arguments is told by identity, `unnamed` has what one was found not to have, and `bare` are those that were found to
    have no attributes of the program's. Of `texts` it has asked which object they are. Which objects those are that are
    `specified` nothing compares. `libraries` are the modules whose functions it has interpreted and that are not
    compared; if it `orders`, it has walked through a set.
    """

    __slots__ = (
        "_absent",
        "_bare",
        "_classes",
        "_contents",
        "_functions",
        "_named",
        "_objects",
        "_results",
        "_shown",
        "_slots",
        "_told",
        "apart",
        "asked",
        "bare",
        "libraries",
        "orders",
        "revised",
        "specified",
        "stands_for",
        "tensors",
        "texts",
        "told",
        "unnamed",
    )

    def __init__(self) -> None:
        self.apart: dict[int, Handle] = {}
        self.tensors: dict[int, Handle] = {}
        self.asked: dict[int, Handle] = {}
        self.revised: dict[int, tuple[Any, int]] = {}  # custom operators, and the revisions of their rules
        self.stands_for: dict[int, object] = {}
        self.told: set[int] = set()
        self.specified: set[int] = set()
        self.unnamed: dict[int, set[str]] = {}
        self.bare: set[int] = set()
        self.texts: set[int] = set()
        self.libraries: set[str] = set()
        self.orders = False
        self._absent: dict[int, tuple[dict[str, object], set[str], str]] = {}
        self._bare: dict[int, dict[str, object]] = {}
        self._classes: dict[int, type] = {}
        self._shown: set[int] = set()  # classes of which all attributes are seen
        self._contents: dict[int, tuple[Any, bytes]] = {}
        self._functions: dict[int, FunctionType] = {}
        self._objects: dict[int, object] = {}
        self._results: list[tuple[Any, tuple[object, ...], dict[str, object], object]] = []
        self._slots: dict[tuple[int, str], object] = {}
        self._named: dict[tuple[int, str], object] = {}
        self._told: dict[tuple[int, str], _Told] = {}

    def looks_into(self, cls: type) -> None:
        """A class is asked for a method or another attribute."""
        self._classes[id(cls)] = cls

    def shows(self, cls: type) -> None:
        """All attributes that a class itself has are seen."""
        self.looks_into(cls)
        self._shown.add(id(cls))

    def is_shown(self, variables: dict[str, object]) -> bool:
        """Whether a dict is that of a class of which all attributes are seen."""
        return any(variables_of_class(cls) is variables for key, cls in self._classes.items() if key in self._shown)

    def holds(self, memory: Any) -> None:
        """An array is read. Each call compares all of it."""
        self._contents[id(memory)] = memory, memory.tobytes()

    def tells_apart(self, tensor: Handle) -> None:
        """It is asked which object a tensor is: it has to be that one at each call."""
        self.apart[id(tensor)] = tensor

    def stand_for(self, leaves: Sequence[tuple[str, object]], stand_ins: Sequence[object]) -> None:
        """Writes down what stands for the tensors among some leaves of the arguments."""
        pairs = zip(leaves, stand_ins, strict=True)
        self.stands_for |= {id(one): real for (_, real), one in pairs if isinstance(real, Handle)}

    def calls(self, function: FunctionType) -> None:
        """A function is called."""
        self._functions[id(function)] = function

    def functions(self) -> list[FunctionType]:
        """The functions that are compared."""
        return list(self._functions.values())

    def is_called(self, function: FunctionType) -> bool:
        """Whether a function has been called before."""
        return id(function) in self._functions

    def has_class(self, owner: object) -> None:
        """The trace depends on the class of an object that it finds at each call."""
        self._objects[id(owner)] = owner

    def returns(self, cache: Any, args: tuple[object, ...], kwargs: dict[str, object], value: object) -> None:
        """A function whose results are kept is asked for one."""
        self._results.append((cache, args, kwargs, value))

    def names(self, owner: object, name: str) -> None:
        """A class or function is asked for its name."""
        self._named[id(owner), name] = owner

    def stays(self, owner: object, name: str, value: object) -> None:
        """An object of C is asked for an attribute, which may be another one at each call."""
        self._told[id(owner), name] = _Told(owner, f"{type(owner).__name__}.{name}", attrgetter(name), value)

    def annotates(self, owner: object) -> None:
        """A class or function is asked for its annotations."""
        path = f"{getattr(owner, '__qualname__', '')}.__annotations__"
        self._told[id(owner), "__annotations__"] = _Told(owner, path, _annotations, _annotations(owner))

    def imports(self, module: ModuleType) -> None:
        """A module is imported by its name."""
        name = module.__name__
        self._told[id(module), "import"] = _Told(name, f"the module {name}", _imported, module)

    def rounds(self) -> None:
        """Decimals are computed with, as the context of the thread says."""
        self._told[0, "context"] = _Told(None, "decimal.getcontext()", _rounding, _rounding(None))

    def lacks(self, variables: dict[str, object], name: str, path: str) -> None:
        """A dict of variables has no such name."""
        self._absent.setdefault(id(variables), (variables, set(), path))[1].add(name)

    def lacks_all(self, variables: dict[str, object]) -> None:
        """The dict of a tensor's attributes is empty."""
        self._bare[id(variables)] = variables

    def lacks_slot(self, owner: object, name: str) -> None:
        """A slot of an object is empty."""
        self._slots[id(owner), name] = owner

    def settle(self, made: Container[int]) -> None:
        """Forgets what the trace has `made`, by identity, and what never changes. Bases are classes too."""
        bases = {id(base): base for cls in self._classes.values() for base in cls.__mro__}
        self._classes = {key: base for key, base in bases.items() if key not in made and _may_change(base)}
        modules = {module_of_globals(function.__globals__) for function in self._functions.values()}
        self.libraries |= {module for module in modules if not is_of_users(module)}
        self._functions = {
            key: function
            for key, function in self._functions.items()
            if key not in made and is_of_users(module_of_globals(function.__globals__))
        }
        self._objects = {key: owner for key, owner in self._objects.items() if key not in made}
        self._absent = {key: absent for key, absent in self._absent.items() if key not in made}
        self._slots = {key: owner for key, owner in self._slots.items() if key[0] not in made}
        self._named = {key: owner for key, owner in self._named.items() if key[0] not in made}
        self._told = {key: told for key, told in self._told.items() if key[0] not in made}

    def parts(self) -> Iterator[Part]:
        """What is compared of classes, functions and objects themselves."""
        for cls in self._classes.values():
            yield Part(cls, "__mro__", cls.__mro__, cls.__qualname__)
        for function in self._functions.values():
            for name in _OF_CALLS:
                yield Part(function, name, getattr(function, name), function.__qualname__)
        for owner in self._objects.values():
            yield Part(owner, "__class__", type(owner), f"a {type(owner).__qualname__}")
        for (_, name), owner in self._named.items():
            yield Part(owner, name, getattr(owner, name), getattr(owner, "__qualname__", ""))

    def containers(self) -> Iterator[tuple[dict[str, Any], str, bool]]:
        """The dicts that are compared: of classes, and of defaults by name, of which all values count.

        Of a class those count that say what attributes are.
        """
        for cls in self._classes.values():
            yield variables_of_class(cls), cls.__qualname__, id(cls) in self._shown
        for function in self._functions.values():
            if function.__kwdefaults__:
                yield function.__kwdefaults__, f"{function.__qualname__}.__kwdefaults__", True

    def guards(self, names: Callable[[object], str]) -> Iterator[Guard]:
        """That names which were not there are not there."""
        for variables in self._bare.values():
            yield Guard("attribute", "the attributes of a tensor", "none", names(variables))
        for variables, absent, path in self._absent.values():
            text = ", ".join(sorted(absent))
            failed = f"not {names(variables.keys())}.isdisjoint({names(frozenset(absent))})"
            if len(absent) == 1:
                failed = f"{text!r} in {names(variables)}"
            yield Guard("attribute", path, f"without {text}", failed)
        for memory, before in self._contents.values():
            text = names(memory)
            failed = f"{text}.tobytes() != {names(before)}"
            if hasattr(memory, "shape"):
                failed += f" or {text}.shape != {names(memory.shape)}"
            yield Guard("constant", f"the {type(memory).__name__} {text}", "as it was", failed)
        for cache, args, kwargs, value in self._results:
            asked = f"{names(cache)}, {names(args)}, {names(kwargs)}, {names(value)}"
            failed = f"not {names(_still_gives)}({asked})"
            yield Guard("function", f"{cache.__qualname__}{args!r}", repr(value), failed)
        for operator, revision in self.revised.values():
            failed = f"{names(operator)}.revision != {revision}"
            yield Guard("operator", f"{operator!r}", "as it was defined", failed)
        for (_, name), owner in self._slots.items():
            path = f"{type(owner).__qualname__}.{name}"
            yield Guard("attribute", path, "absent", f"hasattr({names(owner)}, {name!r})")
        for owner, path, tell, value in self._told.values():
            failed = f"not {names(_still_tells)}({names(tell)}, {names(owner)}, {names(value)})"
            yield Guard("attribute", path, "as it was", failed)


def _still_gives(cache: Any, args: tuple[object, ...], kwargs: dict[str, object], value: object) -> bool:
    """Whether a function whose results are kept has the same one. An error is one of the call that asks again."""
    try:
        result = cache(*args, **kwargs)
    except Exception:  # noqa: BLE001 - of the program, which sees it where it calls
        return False
    return is_same(result, value)


def _still_tells(tell: Callable[[Any], object], owner: object, value: object) -> bool:
    """Whether an object tells the same of itself. An error is one of the call that asks again."""
    try:
        return is_same(tell(owner), value)
    except Exception:  # noqa: BLE001 - of the program, which sees it where it asks
        return False


def _imported(name: str) -> object:
    """The module of a name."""
    return sys.modules.get(name)


def _annotations(owner: Any) -> object:
    """The names and values of annotations."""
    return *owner.__annotations__, *owner.__annotations__.values()


def _rounding(owner: object) -> object:
    """How this thread computes with decimals."""
    context = getcontext()
    traps = tuple([signal.__name__ for signal, is_set in context.traps.items() if is_set])
    return context.prec, context.rounding, context.Emin, context.Emax, context.capitals, context.clamp, traps


def variables_of_class(cls: type) -> dict[str, Any]:
    """The dict that a class keeps its attributes in, of which `__dict__` is a view."""
    (variables,) = gc.get_referents(cls.__dict__)
    return variables


def says_what_attributes_are(value: object) -> bool:
    """Whether a value in a class decides what attributes are: functions, properties and other descriptors."""
    return hasattr(type(value), "__get__")


def _may_change(cls: type) -> bool:
    return bool(cls.__flags__ & HEAP_TYPE) and is_of_users(module_of_class(cls))

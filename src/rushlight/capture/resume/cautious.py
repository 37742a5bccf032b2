"""What a traced program may do: everything but change what was there before, or have C run Python code.

Breaks end the graph in front of an instruction; Python carries it out, and another graph begins behind it.
"""

from __future__ import annotations

import sys
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Iterator, Sequence
from inspect import CO_VARARGS, CO_VARKEYWORDS
from types import (
    BuiltinFunctionType,
    FrameType,
    FunctionType,
    MethodDescriptorType,
    ModuleType,
    WrapperDescriptorType,
)
from typing import Any

import numpy as np

from rushlight.capture.interpreter.frame import Frame
from rushlight.capture.interpreter.hooks import ANY_METHOD, ITERATING, LOOKING_UP, MISSING
from rushlight.capture.interpreter.slots import HEAP_TYPE, lookup, python_method
from rushlight.capture.resume import breaks
from rushlight.capture.resume.access import AccessingInterpreter
from rushlight.capture.resume.blueprint import is_ours
from rushlight.capture.resume.breaks import APART, INLINED, Break
from rushlight.capture.resume.calling import (
    OVER_ITERATORS,
    PAIR,
    PAIRS,
    SCALARS,
    asked_by,
    asked_on_the_way,
    called_in,
    definer,
    forget_methods,
    is_interpretable,
    is_of_c,
)
from rushlight.capture.resume.classes import new_class, parts_that_c_made
from rushlight.capture.resume.identities import THREAD, Identity, mixes
from rushlight.capture.resume.opaque import Opaque
from rushlight.capture.resume.reached import ReachedObjects, sees_everything
from rushlight.capture.resume.stubs import Stubs
from rushlight.capture.state.globals import module_of_class
from rushlight.capture.state.reachable import variables_of
from rushlight.eager.handle import Handle
from rushlight.eager.symbols import SymBool, SymInt
from rushlight.eager.tracing import TracedNumber

_PURE = frozenset(
    {"builtins", "math", "cmath", "operator", "_operator", "itertools", "functools", "_functools", "collections"}
    | {
        "_collections",
        "abc",
        "_abc",
        "copy",
        "copyreg",
        "enum",
        "dataclasses",
        "typing",
        "types",
        "re",
        "_sre",
        "heapq",
    }
    | {"_heapq", "bisect", "_bisect", "string", "struct", "_struct", "numbers", "fractions", "decimal", "datetime"}
    | {"textwrap", "array"}
)  # modules whose functions of C have no effects, but for those named next
_PURE_FUNCTIONS = (sys.intern, sys.getrecursionlimit, sys.getdefaultencoding)
_EFFECTS = frozenset({hash, print, input, open, exec, eval, __import__, breakpoint})
_MUTATING = frozenset(
    {
        "append",
        "extend",
        "insert",
        "pop",
        "remove",
        "clear",
        "sort",
        "reverse",
        "update",
        "setdefault",
        "popitem",
        "add",
    }
    | {"discard", "appendleft", "popleft", "extendleft", "rotate", "move_to_end", "subtract", "difference_update"}
    | {
        "intersection_update",
        "symmetric_difference_update",
        "__setitem__",
        "__delitem__",
        "__iadd__",
        "__ior__",
        "__imul__",
        "__isub__",
        "__iand__",
        "__ixor__",
        "__init__",
        "__setstate__",
        "write",
    }
)
_TEXTS = frozenset({repr, format, ascii})
_SETTING = {"__setattr__": 2, "__delattr__": 1}  # methods of C, and how many arguments they have
_OF_AUTOGRAD = frozenset(
    {"grad_fn", "output_nr", "retains_grad", "_version", "_base", "data_ptr", "untyped_storage"}
)  # of tensors
_TAKES_NUMBERS = frozenset({abs, min, max, sum, divmod, pow, tuple, list, dict, zip, enumerate, map, reversed, sorted})
_IMMUTABLE = frozenset({type(None), bool, int, float, complex, str, bytes, BuiltinFunctionType, frozenset})
_CONTAINERS = frozenset({list, dict, set, bytearray, deque, defaultdict, OrderedDict, Counter})
_PACKAGE = __name__.partition(".")[0]


_OUTSIDE = tuple(
    [
        f"{_PACKAGE}.{name}"
        for name in ["data.", "support.", "runtime.", "build.", "tune.", "export.api", "compat.modes", "compat.cuda"]
    ]
    + [f"{_PACKAGE}.amp.grad_scaler"]
)  # modules of ours whose functions have effects, or tell what differs from call to call


_ERRORS = f"{_PACKAGE}.support.errors"
_RANDOM = f"{_PACKAGE}.runtime.generator"
_OF_DTYPES = f"{_PACKAGE}.compat."  # there the class of a number counts


def is_leaf(function: FunctionType) -> bool:
    """Whether a function of ours is called as it is. Modules' calls are interpreted, since they call the user's."""
    module: str = function.__globals__.get("__name__", "")
    if not is_ours(module):
        return False
    return module != f"{_PACKAGE}.nn.modules.module" and module != f"{_PACKAGE}.nn.modules.container"


def module_of(function: Any) -> str:
    """The module that a callable comes from; of a method, the module of its owner's class.

    A function says itself where it stands: a wrapper has the name of another one's module.
    """
    if type(function) is FunctionType:
        return function.__globals__.get("__name__", "")
    owner = getattr(function, "__self__", None)
    if owner is not None and not issubclass(type(owner), ModuleType):
        return module_of_class(definer(owner, getattr(function, "__name__", "")))
    owner = getattr(function, "__objclass__", None)
    if owner is not None:
        return module_of_class(owner)
    return getattr(function, "__module__", None) or module_of_class(type(function))


class CautiousInterpreter(AccessingInterpreter):
    """An interpreter that breaks before a program does what a graph cannot hold."""

    __slots__ = ("asking", "identities", "stubs", "used")

    def __init__(self, reached: ReachedObjects) -> None:
        super().__init__(is_leaf, reached)
        self.used = False  # whether the instruction has done something that a break cannot take back
        self.stubs = Stubs()
        self.identities: list[Identity] = []  # numbers of objects that the program has asked for
        self.asking = ANY_METHOD  # which methods C may ask its operands for

    def entered(self, frame: Frame) -> None:
        """Is told of the frame of a call, whose keywords may be in a new dict."""
        code = frame.body.raw
        if code.co_flags & CO_VARKEYWORDS:
            positional = bool(code.co_flags & CO_VARARGS)
            self.note(frame.locals[code.co_argcount + code.co_kwonlyargcount + positional])

    def runs(self, *operands: object, asked: frozenset[str] = ANY_METHOD) -> None:
        """Has methods interpreted that C may ask for, which are `asked`. Breaks before it calls others."""
        if self.identities and mixes(operands):
            raise Break(breaks.IDENTITY, "the number of an object is looked for among others")
        for operand in operands:
            if type(operand) in OVER_ITERATORS:
                asked |= asked_on_the_way(operand)
        self.asking = asked
        for operand in operands:
            kind = type(operand)
            if kind is Opaque:
                raise Break(breaks.PASSED_BY, "an object is used that the graph passes by")
            if kind is defaultdict and "missing" in asked:
                raise Break(breaks.CALLED_BACK, "C calls the factory of a defaultdict")
            for cls in called_in(operand, asked):
                self._covers(cls, asked)

    def hands(self, value: object) -> object:
        """Has methods interpreted that C may call of a value that it has got from what it has called back."""
        asked = self.asking - ITERATING
        if PAIRS in asked:
            asked = asked - {PAIRS} | {PAIR}
        if asked:
            self.runs(value, asked=asked)
        return value

    def _covers(self, cls: type, asked: frozenset[str]) -> None:
        """Has methods interpreted that C calls of a class. Errors: Break where it may be somebody else's."""
        if id(cls) not in self.made or not all(is_interpretable(lookup(cls, f"__{name}__")) for name in asked):
            raise Break(breaks.CALLED_BACK, f"C calls methods of {cls.__name__}")
        self.stubs.cover(cls, self)

    def sets(self, owner: object, name: str, value: object) -> bool:
        """Has an attribute set. Of a class that the trace has made it is set at once."""
        if issubclass(type(owner), type):
            forget_methods()
        return super().sets(owner, name, value)

    def new_class(
        self, kind: type, name: str, bases: tuple[type, ...], namespace: dict[str, object], kwargs: dict[str, object]
    ) -> type:
        """A new class, of which its parts and bases are told by interpreted methods."""
        self.used = True
        made = new_class(self, kind, name, bases, namespace, kwargs)
        for part in parts_that_c_made(made):
            self.note(part)
        return made

    def given_to(self, function: object, args: tuple[object, ...]) -> tuple[object, ...]:
        """The arguments of a call; what makes text of numbers is given their values."""
        if (type(function) is type and function is str) or (
            type(function) is BuiltinFunctionType and function in _TEXTS
        ):
            for value in args:
                if type(value) in _CONTAINERS or type(value) is tuple:
                    self.runs(value)
                if self.reached.knows(value) and not _writes_itself(type(value)):
                    raise Break(breaks.PASSED_BY, "the text of an object that was there before")
            return tuple(map(_concrete, args))
        return args

    def owner(self, value: object, name: str) -> object:
        """What an attribute is taken of: a number is fixed."""
        if type(value) is TracedNumber:
            return value.item()
        if name == "f_locals" and type(value) is FrameType:
            raise Break(breaks.PASSED_BY, "the variables of a frame")
        if name in _OF_AUTOGRAD and issubclass(type(value), Handle):
            raise Break(breaks.AUTOGRAD, f"the {name} of a tensor is asked for")
        if name == "__dict__" and id(value) in self.made and (variables := variables_of(value)) is not None:
            self.note(variables)
            self.variables[id(variables)] = value
        return value

    def key(self, value: object) -> object:
        """A number as a key is fixed."""
        if issubclass(type(value), Handle) and type(value) is not TracedNumber:
            raise Break(breaks.KEY, "a tensor is a key")
        self.runs(value, asked=LOOKING_UP)
        return value.item() if type(value) is TracedNumber else value

    def callee(self, function: object) -> object:
        """What is called in place of a function: of a compiled one, what was compiled."""
        return getattr(function, INLINED) if hasattr(type(function), INLINED) else function

    def advances(self, iterator: object) -> None:
        """Breaks before an iterator moves that was there before."""
        interpreted = python_method(self, type(iterator), "__next__") is not None
        if id(iterator) not in self.made and not interpreted:
            raise Break(breaks.ITERATOR, f"a {type(iterator).__name__} goes on that was there before")
        self.used = True
        if type(iterator) in OVER_ITERATORS:
            self.runs(iterator, asked=ITERATING)

    def class_of(self, value: object) -> type:
        """The class of a value, as programs see it."""
        if type(value) is Opaque:
            raise Break(breaks.PASSED_BY, "the class of an object that the graph passes by")
        kind = type(value)
        if kind is TracedNumber and isinstance(value, TracedNumber):
            return type(value.value)
        return int if kind is Identity else kind

    def identity(self, value: object) -> int:
        """The number of an object, as a trace knows it. Errors: Break for a number, which may be any at each call."""
        if type(value) is TracedNumber:
            raise Break(breaks.IDENTITY, "it is asked which object a number is")
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
        return THREAD not in (value, other) and self.is_same(value, other)

    def is_same(self, value: object, other: object) -> bool:
        """Whether two values are one object. Errors: Break where that is not known."""
        if (
            value is not other
            and Opaque in (type(value), type(other))
            and not (id(value) in self.made or id(other) in self.made or value is None or other is None)
        ):
            raise Break(breaks.IDENTITY, "identity of an object that the graph passes by")
        for one, another in ((value, other), (other, value)):
            if value is not other and self.reached.knows(one) and type(one) is type(another):
                self.reached.guard_apart(one, another)
        kinds = type(value), type(other)
        if value is not other and issubclass(kinds[0], Handle) and issubclass(kinds[1], Handle):
            raise Break(breaks.IDENTITY, "identity of two tensors")
        if value is not other and type(value) in (list, dict) and type(other) is type(value):
            inside = [id(item) in self.given for item in (value, other)]
            if any(inside) and not all(inside) and id(value) not in self.made and id(other) not in self.made:
                raise Break(breaks.IDENTITY, "identity of a container that is an argument")
        return value is other

    def native(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """What a call gives that is not interpreted. Errors: Break for one that has effects, or may have."""
        for value in (*args, *kwargs.values()):
            if type(value) is Opaque or (self.reached.knows(value) and not _only_keeps(function)):
                raise Break(breaks.PASSED_BY, "a call is given an object that the graph passes by")
            if hasattr(type(value), "__next__") and id(value) not in self.made:
                raise Break(breaks.ITERATOR, f"a call is given a {type(value).__name__} that was there before")
        made = function if issubclass(type(function), type) or not args else args[0]
        if issubclass(type(made), type) and python_method(self, made, "__del__") is not None:
            raise Break(breaks.FINALIZER, "an object is made that does something at the end of its life")
        if args and hasattr(type(args[0]), "__exit__") and id(args[0]) not in self.made:
            raise Break(breaks.SCOPE, f"a {type(args[0]).__name__} is entered or left that was there before")
        if issubclass(type(made), type) and sees_everything(made):
            raise Break(breaks.CALLED_BACK, f"an object is made whose class sees every attribute: {made.__name__}")
        owner, rest = _receiver(function, args)
        if _SETTING.get(getattr(function, "__name__", "")) == len(rest) and owner is not None:
            name, value = [*rest, MISSING][:2]
            if type(name) is str and self.sets(owner, name, value):
                return None
        if function is vars and args:
            self.owner(args[0], "__dict__")
        module = module_of(function)
        ours = module.partition(".")[0] == _PACKAGE
        if ours and module.startswith(_OUTSIDE) and module != _ERRORS:
            name = f"{module}.{getattr(function, '__name__', '')}"
            if module == _RANDOM:
                raise Break(breaks.DISABLED, f"{name} is kept out of graphs")
            raise Break(breaks.CALL, f"{name} is called")
        if not ours:
            self._allow(function, module, args, kwargs)
            of_class = getattr(function, "__name__", "") == "__new__"  # which does not ask the class
            asked = asked_by(function, owner)
            self.runs(*args[of_class:], *kwargs.values(), asked=asked)
            if owner is not None:
                if self.reached.knows(owner):
                    raise Break(breaks.PASSED_BY, "C calls a method of an object that was there before")
                if not of_class:
                    self.runs(owner, asked=asked)
                if issubclass(type(owner), (dict, set)) and rest is args:
                    rest = args = tuple([_number(value) for value in args[:1]]) + args[1:]
                if id(owner) in self.given:
                    self.writes(owner, *rest, *kwargs.values())
            if not (function in _TAKES_NUMBERS or module == "_operator" or _stores(function)):
                args = tuple([_number(value) for value in args])
                kwargs = {name: _number(value) for name, value in kwargs.items()}
        else:
            self.used = True
            if module.startswith(_OF_DTYPES):
                args, kwargs = tuple(map(_number, args)), {name: _number(value) for name, value in kwargs.items()}
        result = function(*args, **kwargs)
        if sys.getrefcount(result) <= 2 and not _is_immutable(type(result)):
            self.note(result)
        return result

    def _allow(self, function: Any, module: str, args: tuple[object, ...], kwargs: dict[str, object]) -> None:
        if function is type.__new__ or (isinstance(function, type) and issubclass(function, type)):
            raise Break(breaks.CLASS, "a class is made")
        if APART in (variables_of(function) or ()):
            raise Break(breaks.DISABLED, f"{function.__qualname__} is kept out of graphs")
        name = getattr(function, "__name__", type(function).__name__)
        hashable = type(function).__hash__ is not None and not isinstance(function, Opaque)
        if function is hash and all(map(_has_fixed_hash, args)):
            return
        if (hashable and isinstance(function, BuiltinFunctionType) and function in _EFFECTS) or (
            module not in _PURE and function not in _PURE_FUNCTIONS
        ):
            if isinstance(function, type) and function.__flags__ & HEAP_TYPE:
                if not all(is_of_c(lookup(function, part)) for part in ("__new__", "__init__")):
                    raise Break(breaks.CALLED_BACK, f"C calls the constructor of {function.__name__}")
                return
            if module.partition(".")[0] == "numpy" and any(issubclass(type(value), Handle) for value in args):
                return  # tensors answer for themselves
            if isinstance(function, np.ufunc) and not kwargs and all(map(_is_scalar, args)):
                return
            raise Break(breaks.CALL, f"{module}.{name} is called")
        owner, rest = _receiver(function, args)
        before = owner is not None and id(owner) not in self.made and id(owner) not in self.given
        if name in _MUTATING and before and not issubclass(type(owner), (type, FrameType)):
            if self.is_state(owner, *_entries_in(rest), *kwargs.values()):
                return
            raise Break(breaks.OUTSIDE, f"{type(owner).__name__}.{name} changes what was there before")


def _receiver(function: object, args: tuple[object, ...]) -> tuple[object, tuple[object, ...]]:
    """What a method of C is called on, and its other arguments; None of what is no such method."""
    if type(function) in (MethodDescriptorType, WrapperDescriptorType) and args:
        return args[0], args[1:]
    owner = getattr(function, "__self__", None)
    return (None if issubclass(type(owner), ModuleType) else owner), args


def _is_scalar(value: object) -> bool:
    return type(value) in SCALARS or isinstance(value, (np.generic, TracedNumber))


def _has_fixed_hash(value: object) -> bool:
    """Whether the hash of a value is the same at each call: that of others is their identity's, or of a method."""
    kind = type(value)
    if (
        issubclass(kind, (tuple, frozenset))
        and isinstance(value, kind)
        and lookup(kind, "__hash__") in (tuple.__hash__, frozenset.__hash__)
    ):
        return all(map(_has_fixed_hash, value))
    return kind in SCALARS or kind is TracedNumber


def _entries_in(args: Sequence[object]) -> Iterator[object]:
    """What a method of a dict may put into it: arguments, and the entries of those that are dicts."""
    for value in args:
        if type(value) is dict:
            yield from value.values()
        else:
            yield value


def is_mutable(kind: type) -> bool:
    """Whether objects of a class change, as those do that have no hash, memory views and iterators."""
    if kind in _CONTAINERS or kind is memoryview:
        return True
    return kind is not Opaque and (hasattr(kind, "__next__") or lookup(kind, "__hash__") is None)


def _is_immutable(kind: type) -> bool:
    return kind in _IMMUTABLE or issubclass(kind, type)


def _stores(function: Any) -> bool:
    owner = getattr(function, "__self__", None)
    return issubclass(type(owner), (list, dict, set)) or function is isinstance


def _writes_itself(kind: type) -> bool:
    """Whether a class says in Python what the text of its objects is."""
    return any(type(lookup(kind, name)) is FunctionType for name in ("__str__", "__repr__", "__format__"))


def _only_keeps(function: Any) -> bool:
    """Whether a function of C looks at no attribute of its arguments."""
    return _stores(function) or function is callable or function in _TAKES_NUMBERS


def _number(value: Any) -> Any:
    return value.item() if type(value) is TracedNumber else value


def _concrete(value: Any) -> Any:
    """A value whose text is wanted: numbers of the run time are fixed. Errors: Break for a tensor."""
    kind = type(value)
    if kind is TracedNumber:
        return value.item()
    if kind is SymInt:
        return int(value)
    if kind is SymBool:
        return bool(value)
    if issubclass(kind, Handle):
        raise Break(breaks.VALUE, "the text of a tensor")
    if kind in (list, tuple):
        return kind([_concrete(item) for item in value])
    if kind is dict:
        return {key: _concrete(item) for key, item in value.items()}
    if issubclass(kind, tuple) and module_of_class(kind).startswith(_PACKAGE):  # a tensor's shape
        return kind([_concrete(item) for item in value])
    return value

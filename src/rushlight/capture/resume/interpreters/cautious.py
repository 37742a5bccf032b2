"""What a traced program may do: everything but change what was there before, or have C run Python code.

Breaks end the graph in front of an instruction; Python carries it out, and another graph begins behind it.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from inspect import CO_VARARGS, CO_VARKEYWORDS
from types import (
    BuiltinFunctionType,
    CodeType,
    FrameType,
    FunctionType,
    MethodDescriptorType,
    ModuleType,
    WrapperDescriptorType,
)
from typing import Any

from rushlight.capture.interpreter.frame import Frame
from rushlight.capture.interpreter.hooks import ANY_METHOD, ITERATING, LOOKING_UP, MISSING
from rushlight.capture.interpreter.library import CACHED, COMPARED
from rushlight.capture.interpreter.slots import HEAP_TYPE, lookup, python_method
from rushlight.capture.resume import breaks
from rushlight.capture.resume.blueprint import is_ours
from rushlight.capture.resume.breaks import APART, Break
from rushlight.capture.resume.calling import (
    COPYING,
    OF_ABSTRACT,
    OVER_ITERATORS,
    PAIR,
    PAIRS,
    SCALARS,
    asked_by,
    asked_itself,
    asked_of_owner,
    asked_on_the_way,
    called_in,
    definer,
    forget_methods,
    is_filled_in_python,
    is_interpretable,
    is_of_c,
)
from rushlight.capture.resume.classes import new_class, parts_that_c_made
from rushlight.capture.resume.graphless import is_leaf
from rushlight.capture.resume.identities import mixes
from rushlight.capture.resume.interpreters.caches import result_of
from rushlight.capture.resume.interpreters.identifying import concrete, copies_attributes, fixed_number, is_computed
from rushlight.capture.resume.interpreters.known import (
    ALL_ATTRIBUTES,
    BY_KEY,
    CLASSES_OF_ERRORS,
    CONTAINERS,
    EFFECTS,
    IMMUTABLE,
    INSIDE,
    KEEPING_WHOLE,
    MAKERS,
    MUTATING,
    OF_AUTOGRAD,
    OF_DTYPES,
    PACKAGE,
    PURE,
    PURE_FUNCTIONS,
    RANDOM,
    READING,
    RECORD,
    REGISTERING,
    SETTING,
    SPREADING,
    TAKES_NUMBERS,
    TEXTS,
    is_traced,
)
from rushlight.capture.resume.interpreters.scalars import is_of_numbers, result_on_numbers
from rushlight.capture.resume.interpreters.showing import ShowingInterpreter
from rushlight.capture.resume.opaque import Opaque
from rushlight.capture.resume.reached import ReachedObjects, end_before_known, holds_known
from rushlight.capture.resume.stubs import Stubs
from rushlight.capture.state.changes import holder_of
from rushlight.capture.state.globals import module_of_class
from rushlight.capture.state.reachable import variables_of
from rushlight.eager.autograd.accumulate import is_recorded, kept_gradient
from rushlight.eager.handle import Handle
from rushlight.eager.tracing import TracedNumber
from rushlight.ir.graph import Node


def module_of(function: Any) -> str:
    """The module that a callable comes from; of a method, the module of its owner's class.

    A function says itself where it stands: a wrapper has the name of another one's module. Of ours what is wrapped
    says it, if it is ours too.
    """
    if type(function) is FunctionType:
        module: str = function.__globals__.get("__name__", "")
        inner = vars(function).get("__wrapped__") if is_ours(module) else None
        stands: str = inner.__globals__.get("__name__", "") if type(inner) is FunctionType else ""
        return stands if is_ours(stands) else module
    owner = getattr(function, "__self__", None)
    if owner is not None and not issubclass(type(owner), ModuleType):
        return module_of_class(definer(owner, getattr(function, "__name__", "")))
    owner = getattr(function, "__objclass__", None)
    if owner is not None:
        return module_of_class(owner)
    return getattr(function, "__module__", None) or module_of_class(type(function))


class CautiousInterpreter(ShowingInterpreter):
    """An interpreter that breaks before a program does what a graph cannot hold."""

    __slots__ = ("asking", "graphless", "stubs", "used")

    def __init__(self, reached: ReachedObjects) -> None:
        super().__init__(is_leaf, reached)
        self.used = False  # whether the instruction has done something that a break cannot take back
        self.stubs = Stubs()
        self.graphless: Collection[CodeType] = ()
        self.asking = ANY_METHOD  # which methods C may ask its operands for

    def is_leaf(self, function: FunctionType) -> bool:
        """Whether a function is called as it is."""
        return function.__code__ in self.graphless or super().is_leaf(function)

    def entered(self, frame: Frame) -> None:
        """Is told of the frame of a call, whose keywords may be in a new dict."""
        code = frame.body.raw
        if code.co_flags & CO_VARKEYWORDS:
            positional = bool(code.co_flags & CO_VARARGS)
            self.note(frame.locals[code.co_argcount + code.co_kwonlyargcount + positional])

    def runs(self, *operands: object, asked: frozenset[str] = ANY_METHOD, itself: frozenset[str] | None = None) -> None:
        """Has methods interpreted that C may ask for, which are `asked`. Breaks before it calls others.

        Operands may be asked for others `itself` than what they hold.
        """
        if self.identities and mixes(operands):
            raise Break(breaks.IDENTITY, "the number of an object is looked for among others")
        for operand in operands:
            if type(operand) in OVER_ITERATORS:
                asked |= asked_on_the_way(operand)
        self.asking = asked
        for operand in operands:
            kind = type(operand)
            if issubclass(kind, (set, frozenset)) and not asked <= LOOKING_UP:
                self.reached.walk.assumed.orders = True
            if kind is Opaque:
                raise Break(breaks.PASSED_BY, "an object is used that the graph passes by")
            if kind is defaultdict and "missing" in asked:
                raise Break(breaks.CALLED_BACK, "C calls the factory of a defaultdict")
            if kind is COMPARED:
                self._compares(operand)
            self.tells(operand, asked)
            if "next" in asked and hasattr(kind, "__next__"):
                self._goes_on(operand)
            own = asked if itself is None else itself
            for cls in called_in(operand, asked, own):
                self._covers(cls, asked)

    def _compares(self, key: object) -> None:
        """Breaks before C compares a key that was there before: its function is not interpreted."""
        if id(key) not in self.made:
            raise Break(breaks.CALLED_BACK, "C calls the function that compares a key")

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
            type(function) is BuiltinFunctionType and function in TEXTS
        ):
            for value in args:
                self.tells(value)
                if type(value) in CONTAINERS or type(value) is tuple:
                    self.runs(value)
                if self.reached.knows(value) and not _writes_itself(type(value)):
                    raise Break(breaks.PASSED_BY, "the text of an object that was there before")
            return tuple([concrete(value, {}) for value in args])
        return args

    def owner(self, value: object, name: str) -> object:
        """What an attribute is taken of: a number is fixed."""
        if type(value) is TracedNumber:
            return value.item()
        if name == "__dict__" and issubclass(type(value), type) and isinstance(value, type):
            self.reached.walk.assumed.shows(value)
        if name == "f_locals" and type(value) is FrameType:
            raise Break(breaks.PASSED_BY, "the variables of a frame")
        if issubclass(type(value), Handle) and isinstance(value, Handle):
            _asked_of_tensor(value, name, self.frames)
        if name == "__dict__" and id(value) in self.made and (variables := variables_of(value)) is not None:
            self.note(variables)
            self.variables[id(variables)] = value
        return super().owner(value, name)

    def key(self, value: object) -> object:
        """A number as a key is fixed."""
        self.hashes(value)
        self.runs(value, asked=LOOKING_UP)
        return value.item() if type(value) is TracedNumber else value

    def advances(self, iterator: object) -> None:
        """Breaks before an iterator moves that was there before."""
        self._goes_on(iterator)
        if type(iterator) in OVER_ITERATORS:
            self.runs(iterator, asked=ITERATING)

    def _goes_on(self, iterator: object) -> None:
        if _was_there(self, iterator):
            raise Break(breaks.ITERATOR, f"a {type(iterator).__name__} goes on that was there before")
        self.used = True

    def calls_leaf(self, method: FunctionType, cls: type | None = None) -> None:
        """Breaks before C calls a special method of ours that has effects, or looks into one of the objects."""
        end_before_known(self.reached, method, cls)
        if method.__code__ not in self.graphless:
            _stays_outside(method, module_of(method), cls)

    def native(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """What a call gives that is not interpreted. Errors: Break for one that has effects, or may have."""
        _has_graphs(function, self.graphless)
        for value in (*args, *kwargs.values()):
            _gives(self, function, value)
        made = function if issubclass(type(function), type) or not args else args[0]
        if issubclass(type(made), type) and python_method(self, made, "__del__") is not None:
            raise Break(breaks.FINALIZER, "an object is made that does something at the end of its life")
        scope = type(args[0]) if args else type
        if hasattr(scope, "__exit__") and id(args[0]) not in self.made and not is_ours(module_of_class(scope)):
            raise Break(breaks.SCOPE, f"a {type(args[0]).__name__} is entered or left that was there before")
        owner, rest = _receiver(function, args)
        if SETTING.get(getattr(function, "__name__", "")) == len(rest) and owner is not None:
            name, value = [*rest, MISSING][:2]
            if type(name) is str and self.sets(owner, name, value):
                return None
        listed = bool(args) and (function is vars or function is dir)
        if listed or (owner is not None and getattr(function, "__name__", "") in COPYING):
            self.owner(args[0] if listed else owner, "__dict__")
        if id(function) in ALL_ATTRIBUTES:
            copies_attributes(self.reached.walk.assumed, args[0])
        module = module_of(function)
        ours = module.partition(".")[0] == PACKAGE
        if ours:
            _stays_outside(function, module)
        kept = type(function) is CACHED and id(function) not in self.made
        if kept and (result := result_of(function, args, kwargs, self.made, self.reached)) is not MISSING:
            return result
        if not ours and is_of_numbers(function, args, kwargs):
            return result_on_numbers(function, args, kwargs)
        if not ours:
            self._allow(function, module, args, kwargs)
            of_class = getattr(function, "__name__", "") == "__new__"  # which does not ask the class
            asked = asked_by(function, owner)
            self.runs(*args[of_class:], *kwargs.values(), asked=asked)
            if owner is not None:
                if self.reached.knows(owner):
                    raise Break(breaks.PASSED_BY, "C calls a method of an object that was there before")
                if not of_class:
                    held = asked_of_owner(function, owner, asked)
                    self.runs(owner, asked=held, itself=asked_itself(held))
                if issubclass(type(owner), type) and is_filled_in_python(owner, function):
                    raise Break(breaks.CALLED_BACK, f"C makes an object of {owner}")
                if issubclass(type(owner), (dict, set)) and rest is args:
                    number = _number if issubclass(type(owner), dict) else fixed_number
                    rest = args = tuple([number(value) for value in args[:1]]) + args[1:]
                if id(owner) in self.given:
                    self.writes(owner, *rest, *kwargs.values())
            _looks_up(self, function, owner, rest)
            if not (id(function) in TAKES_NUMBERS or module == "_operator" or _stores(function)):
                args = tuple([_number(value) for value in args])
                kwargs = {name: _number(value) for name, value in kwargs.items()}
        else:
            self.used = True
            # A wrapper takes numbers as they are: `zeros` wraps a function of that package, and a size stays open.
            if module.startswith(OF_DTYPES) and _is_unwrapped(function):
                args, kwargs = tuple(map(_number, args)), {name: _number(value) for name, value in kwargs.items()}
        self.used |= any(hasattr(type(value), "__next__") for value in args)  # C may take values before it breaks
        result = function(*args, **kwargs)
        if not ours:
            _has_keys(self, owner if result is None else result, owner if result is None else None)
        elif type(result) in CONTAINERS and holder_of(self.reached.walk, result, (owner, *args)) is not None:
            raise Break(breaks.OUTSIDE, f"{getattr(function, '__name__', '')} changes what was there before")
        if sys.getrefcount(result) <= 2 and not _is_immutable(type(result)):
            self.note(result)
            if type(result) in (tuple, list, dict):
                parts: Any = result
                self.note_parts(parts.values() if type(parts) is dict else parts)
        return result

    def _allow(self, function: Any, module: str, args: tuple[object, ...], kwargs: dict[str, object]) -> None:
        if function is type.__new__ or (isinstance(function, type) and issubclass(function, type)):
            raise Break(breaks.CLASS, "a class is made")
        if APART in (variables_of(function) or ()):
            raise Break(breaks.DISABLED, f"{function.__qualname__} is kept out of graphs")
        if type(function) in (CACHED, COMPARED) and id(function) in self.made:
            return
        if type(function) is COMPARED:
            self._compares(function)
        owner, rest = _receiver(function, args)
        before = owner is not None and id(owner) not in self.made and id(owner) not in self.given
        if type(owner) is CACHED and before:
            raise Break(breaks.PASSED_BY, "it is asked what a cache holds that was there before")
        if any(function is make for make in MAKERS) or (type(owner) in MAKERS and not before):
            return
        name = getattr(function, "__name__", type(function).__name__)
        hashable = type(function).__hash__ is not None and not isinstance(function, Opaque)
        if function is hash and all(map(_has_fixed_hash, args)):
            return
        if (hashable and isinstance(function, BuiltinFunctionType) and function in EFFECTS) or (
            module not in PURE and id(function) not in PURE_FUNCTIONS
        ):
            if isinstance(function, type) and function.__flags__ & HEAP_TYPE:
                if not all(is_of_c(lookup(function, part)) for part in ("__new__", "__init__")):
                    raise Break(breaks.CALLED_BACK, f"C calls the constructor of {function.__name__}")
                return
            if module.partition(".")[0] == "numpy" and any(issubclass(type(value), Handle) for value in args):
                return  # tensors answer for themselves
            raise Break(breaks.CALL, f"{module}.{name} is called")
        if name == "__subclasses__" and before:
            raise Break(breaks.PASSED_BY, "a class is asked for those that derive from it")
        if name == "_abc_register" and args and id(args[0]) not in self.made:
            raise Break(breaks.OUTSIDE, "a class is registered for one that was there before")
        if name in MUTATING and before and not issubclass(type(owner), (type, FrameType)):
            if self.is_state(owner, *_entries_in(rest), *kwargs.values()):
                return
            if name == "append" and type(owner) is list and isinstance(owner, list) and self.appends(owner, rest):
                return
            if (not kwargs or name == "sort") and self.resizes(owner, *_put_by(name, rest)):
                return
            raise Break(breaks.OUTSIDE, f"{type(owner).__name__}.{name} changes what was there before")


def _has_graphs(function: object, graphless: Collection[CodeType]) -> None:
    """Breaks before a call of a function, or of a `__call__`, that has no graphs."""
    called: Any = function if type(function) is FunctionType else lookup(type(function), "__call__")
    code: Any = getattr(called, "__code__", None)
    if code in graphless:
        raise Break(breaks.GRAPHLESS, f"{code.co_qualname} is called")


def _asked_of_tensor(tensor: Handle, name: str, frames: Sequence[Frame]) -> None:
    if name in INSIDE and not (frames and is_ours(frames[-1].globals.get("__name__", ""))):
        raise Break(breaks.VALUE, f"the {name} of a tensor is asked for, and that of a trace has another")
    if is_computed(tensor):
        raise Break(breaks.VALUE, f"the {name} of a number that item() gives")
    if name in OF_AUTOGRAD:
        raise Break(breaks.AUTOGRAD, f"the {name} of a tensor is asked for")
    if name == "grad" and is_recorded(kept_gradient(tensor)):
        raise Break(breaks.AUTOGRAD, "a gradient is asked for that has a history")
    if name == "__dict__":
        raise Break(breaks.VARIABLES, "the attributes of a tensor are taken as a dict")
    if name == "_repr_html_":
        raise Break(breaks.VALUE, "the elements of a tensor are shown")


def _stays_outside(function: Any, module: str, cls: type | None = None) -> None:
    """Breaks before a function of ours that has effects, or may have, as a method of some class."""
    _adds_to(cls)
    of_method: str = getattr(function, "__name__", "")
    if module == CLASSES_OF_ERRORS and of_method == "__str__":  # the text of an error
        return
    registers = module == RECORD and of_method in REGISTERING
    if registers or (is_ours(module) and not is_traced(module, of_method)):
        name = f"{module}.{of_method}"
        if module == RANDOM:
            raise Break(breaks.DISABLED, f"{name} is kept out of graphs")
        raise Break(breaks.CALL, f"{name} is called")


def _adds_to(kind: type | None) -> None:
    """Breaks before a call with an operand of this class that may add to a program's graph."""
    if kind is Node:
        raise Break(breaks.CALL, "a node of a graph of the program's is an operand")


def _was_there(interpreter: CautiousInterpreter, value: object) -> bool:
    """Whether a value is an iterator that was there before, and is none whose methods are interpreted."""
    kind = type(value)
    before = hasattr(kind, "__next__") and id(value) not in interpreter.made
    return before and python_method(interpreter, kind, "__next__") is None


def _looks_up(interpreter: CautiousInterpreter, function: Any, owner: object, args: tuple[Any, ...]) -> None:
    """Breaks before C looks a tensor up in a dict or set of which it is not known which object it is.

    Or it changes the dict or set, or another object, and may not.
    """
    if getattr(function, "__name__", "") in MUTATING:
        interpreter.changes(owner)
    if not args or not issubclass(type(owner), (dict, set, frozenset)):
        return
    name: str = getattr(function, "__name__", "")
    if name in BY_KEY:
        interpreter.hashes(args[0], owner)
        if id(owner) not in interpreter.made:
            interpreter.stays(args[0])
    elif type(owner) is not dict:
        for key in [key for given in args if type(given) in (list, tuple) for key in given]:
            interpreter.hashes(key, owner)


def _has_keys(interpreter: CautiousInterpreter, made: object, owner: object) -> None:
    """Breaks where C has put a tensor into a dict or set of which it is not known which object it is."""
    if type(made) in (dict, set, frozenset) and isinstance(made, (dict, set, frozenset)):
        try:
            for key in made:
                interpreter.hashes(key, owner)
        except Break:
            interpreter.used = True
            raise


def _gives(interpreter: CautiousInterpreter, function: Any, value: Any) -> None:
    """Breaks before a function is given what may change elsewhere, or that the graph knows nothing of."""
    known = not _only_keeps(function) and holds_known(interpreter.reached, value)
    if type(value) is Opaque or (known and not (_only_reads(function) and interpreter.reached.shows_all(value))):
        raise Break(breaks.PASSED_BY, "a call is given an object that the graph passes by")
    kind = type(value)
    _adds_to(kind)
    if kind is FunctionType and issubclass(type(getattr(function, "__self__", None)), BaseExceptionGroup):
        raise Break(breaks.CALLED_BACK, "C asks a function about the parts of an exception group")
    within = value if type(value) in (list, tuple) and not _keeps_whole(function) else ()
    keeps = _only_keeps(function) or function is type or _only_reads(function)
    for part in (value, *within):
        if not keeps:
            interpreter.tells(part)
        if hasattr(type(part), "__next__") and id(part) not in interpreter.made:
            raise Break(breaks.ITERATOR, f"a call is given a {type(part).__name__} that was there before")


def _receiver(function: object, args: tuple[object, ...]) -> tuple[object, tuple[object, ...]]:
    """What a method of C is called on, and its other arguments; None of what is no such method."""
    if type(function) in (MethodDescriptorType, WrapperDescriptorType) and args:
        return args[0], args[1:]
    owner = getattr(function, "__self__", None)
    return (None if issubclass(type(owner), ModuleType) else owner), args


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


def _put_by(name: str, args: tuple[object, ...]) -> Iterable[object]:
    """What a method puts into its owner."""
    return parts_of(*args) if name in SPREADING else args


def parts_of(*containers: object) -> Iterator[object]:
    """What containers of C hold; others are parts themselves."""
    for value in containers:
        if type(value) in (list, tuple, set, frozenset) and isinstance(value, (list, tuple, set, frozenset)):
            yield from value
        else:
            yield value


def is_mutable(kind: type) -> bool:
    """Whether objects of a class change, as those do that have no hash, memory views and iterators."""
    if kind in CONTAINERS or kind is memoryview:
        return True
    return kind is not Opaque and (hasattr(kind, "__next__") or lookup(kind, "__hash__") is None)


def _is_immutable(kind: type) -> bool:
    return kind in IMMUTABLE or issubclass(kind, type)


def _stores(function: Any) -> bool:
    owner = getattr(function, "__self__", None)
    return issubclass(type(owner), (list, dict, set)) or function is isinstance


def _keeps_whole(function: Any) -> bool:
    """Whether a function is ours, or looks into no value of a list that it is given."""
    return _stores(function) or id(function) in KEEPING_WHOLE or is_ours(module_of(function))


def _writes_itself(kind: type) -> bool:
    """Whether a class says in Python what the text of its objects is."""
    return any(type(lookup(kind, name)) is FunctionType for name in ("__str__", "__repr__", "__format__"))


def _only_keeps(function: Any) -> bool:
    """Whether a function of C looks at no attribute of its arguments."""
    return _stores(function) or function is callable or id(function) in TAKES_NUMBERS | OF_ABSTRACT


def _only_reads(function: Any) -> bool:
    """Whether a function is ours and changes nothing of a module without tensors, whose method it is."""
    return getattr(function, "__name__", "") in READING and is_ours(module_of(function))


def _is_unwrapped(function: Any) -> bool:
    return "__wrapped__" not in (variables_of(function) or ())


def _number(value: Any) -> Any:
    return value.item() if type(value) is TracedNumber else value

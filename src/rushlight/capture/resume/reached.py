"""Objects among the arguments of a trace: what it reads of them is an argument or a guard, what it sets an effect.

An object is traced as itself. Its class is guarded, and each attribute from the moment at which it is read. Attributes
that the trace sets are kept here, where later reads find them; the object changes when the graph has succeeded.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import Enum
from types import (
    BuiltinFunctionType,
    CellType,
    FunctionType,
    MemberDescriptorType,
    MethodType,
    MethodWrapperType,
    ModuleType,
    SimpleNamespace,
)
from typing import Any
from weakref import getweakrefcount

from rushlight.capture.arguments import Arguments
from rushlight.capture.interpreter.frame import UNBOUND, FrameView, contents_of
from rushlight.capture.interpreter.generators import Resumable
from rushlight.capture.interpreter.hooks import MISSING, CallParts
from rushlight.capture.interpreter.slots import is_data_descriptor, lookup, slot_value
from rushlight.capture.resume.blueprint import is_of_program, is_ours, native_base
from rushlight.capture.resume.breaks import OUTSIDE, PASSED_BY, VARIABLES, Break
from rushlight.capture.state.changes import Copy, is_written
from rushlight.capture.state.globals import is_of_users, module_of_class, module_of_globals
from rushlight.capture.state.places import Entries, Leaf, SlotBox, Variable
from rushlight.capture.state.reachable import MARK, PLAIN, StateWalk, is_walked, variables_of
from rushlight.capture.state.reads import looks_of
from rushlight.capture.values import is_tuple, no_placeholder
from rushlight.eager.autograd.function import FunctionCtx
from rushlight.eager.autograd.node import Node
from rushlight.eager.handle import BUFFER_MARK, Handle

_PACKAGE = __name__.partition(".")[0]
_DEEPEST = 16  # containers in each other; one that contains itself is passed by
_MOST_PARTS = 1 << 10  # of a container without tensors; each part is an argument, and guarded
_CONTENTS = "cell_contents"
_CALLED = ("__closure__", "__defaults__", "__kwdefaults__")  # what a call of a function reads of it
_OF_FUNCTIONS = frozenset({*_CALLED, "__name__", "__qualname__", "__module__", "__doc__"})
_OF_CLASSES = frozenset(
    {"__new__", "__init__", "__del__", "__getattr__", "__getattribute__", "__setattr__", "__delattr__", "mro"}
)  # special methods that make objects, or are asked for attributes
_LOOKED_AT = PLAIN | {complex, ModuleType, type, range, slice, type(...), type(NotImplemented)}


class Reroot(BaseException):
    """Asks for the trace again: it has reached a module, whose state is part of the program, through an object.

    Without a root it has read variables that hold what may change, or something comes `first`, once.
    """

    def __init__(self, root: object = None, first: Callable[[], object] | None = None) -> None:
        super().__init__(root)
        self.root = root
        self.first = first


class Shared(BaseException):
    """Asks for the trace again: an argument stands in a container of the state too, and the trace has looked there."""


class FixSizes(BaseException):
    """Asks for the trace again, for the sizes and numbers of the call alone: the text of a handled error has them."""


def is_object(value: object) -> bool:
    """Whether a value is read part by part: of a class written in Python, a cell, or an inner function."""
    kind = type(value)
    if kind is CellType:
        return True
    if kind is FunctionType and isinstance(value, FunctionType):
        return not is_ours(value.__globals__.get("__name__", "")) and _is_of_call(value)
    if hasattr(kind, MARK) and not issubclass(kind, type):
        return is_bare(value) and not getweakrefcount(value)
    if not is_of_program(kind) or issubclass(kind, (type, Enum, BaseException)):
        return False
    if hasattr(kind, "__next__") or hasattr(kind, "__del__") or getweakrefcount(value):  # somebody is told when it dies
        return False
    if sees_everything(kind):
        return False
    return native_base(kind) in (object, SimpleNamespace)


def is_bare(module: object) -> bool:
    """Whether a module holds numbers and texts alone, as losses and activations do: each call may have its own."""
    variables = variables_of(module)
    return variables is not None and all(map(_is_bare_value, variables.values()))


def _is_bare_value(value: Any) -> bool:
    kind = type(value)
    if kind is tuple:
        return all(map(_is_bare_value, value))
    if kind is dict:
        return all(part is None for part in value.values())
    return kind in PLAIN or (kind is set and not value)


def _is_of_call(function: FunctionType) -> bool:
    """Whether each call may have a function of its own, of the same code."""
    has_parts = function.__closure__ or function.__defaults__ or function.__kwdefaults__
    return bool(has_parts) or "<locals>" in function.__qualname__


def sees_everything(kind: type) -> bool:
    """Whether a class is asked for every attribute of its objects, also for those that a trace looks at."""
    return type(lookup(kind, "__getattribute__")) is FunctionType


def is_passed(value: Any, depth: int = 0) -> bool:
    """Whether a graph passes a value by: what it looks at are tensors, numbers, texts, containers, modules, objects.

    Others may be others at each call, or have methods that C would run while a graph is traced.
    """
    kind = type(value)
    if issubclass(kind, Handle):
        return BUFFER_MARK in (variables_of(value) or {})  # which modules ask for
    if kind in _LOOKED_AT or issubclass(kind, Enum):
        return False
    if type(kind) is not type:
        return not is_object(value)
    if is_tuple(value) or kind in (list, dict):
        parts = value.values() if kind is dict else value
        odd = kind is dict and (is_namespace(value) or any(type(key) not in PLAIN for key in value))
        odd = odd or (len(value) > _MOST_PARTS and not any(issubclass(type(item), Handle) for item in parts))
        return odd or depth == _DEEPEST or any(is_passed(item, depth + 1) for item in parts)
    if kind in (MethodType, BuiltinFunctionType, MethodWrapperType):
        return not issubclass(type(value.__self__), ModuleType) and is_passed(value.__self__)
    if hasattr(kind, MARK) or is_object(value):
        return False
    if hasattr(kind, "__next__") or hasattr(kind, "__exit__") or issubclass(kind, (Resumable, FrameView)):
        return True
    if issubclass(kind, Node):  # another one at each call; the context of a function has what its backward reads
        return not issubclass(kind, FunctionCtx)
    return issubclass(kind, tuple) or not module_of_class(kind).startswith(_PACKAGE)


def is_namespace(variables: dict[object, object]) -> bool:
    """Whether a dict has the global variables of a module, which may be one that traces."""
    name = variables.get("__name__")
    module = sys.modules.get(name) if type(name) is str else None
    return getattr(module, "__dict__", None) is variables


class ReachedObjects:
    """What a trace has read and set of objects. `stand_in` gives what stands for the leaves from a position on."""

    def __init__(
        self,
        arguments: Arguments,
        stand_in: Callable[[Any, str, int], object],
        copies: Sequence[Copy],
        walk: StateWalk,
        roots: Sequence[object],
        variables: list[Variable],
        results: dict[object, object],
        may_fix: bool = False,
    ) -> None:
        self.may_fix = may_fix  # whether the trace may be made again for the sizes of the call alone
        self.arguments = arguments
        self.walk = walk
        self.looks = walk.looks = looks_of(walk)
        self.copies = copies
        self.roots = roots
        self.containers: dict[int, object] = {}  # lists, dicts and tuples that stand for those that were there before
        self.written: dict[tuple[int, str], tuple[object, str, object]] = {}
        self.variables = variables
        self.results = results  # of caches that the trace has asked
        # Containers of the arguments that each call fills with new objects, and which instruction gives them the first.
        self.refilled: dict[int, tuple[Copy, int]] | None = None
        # Attributes of the state that hold a new object for a while, and which instruction gave it to them.
        self.lent: dict[tuple[int, str], tuple[object, int]] | None = None
        self.has_unwalked = False  # whether it has read a variable whose value may change in itself
        self._guarded = {(leaf.owner_id, leaf.key) for leaf in walk.leaves}
        self._stand_in = stand_in
        self._read: dict[tuple[int, str], object] = {}

    def is_state(self, container: object, *values: object) -> bool:
        """Whether values may be put into a container that is part of the state: each call writes what changed."""
        return id(container) in self.walk.before and all(map(is_written, values)) and self.walk.writes(id(container))

    def appends(self, target: list[object], values: tuple[object, ...]) -> bool:
        """Whether each call can append a value to a list of the state, and notes that the trace does so."""
        if len(values) != 1 or not is_written(values[0]) or any(copy.original is target for copy in self.copies):
            return False
        return _resizes(self.walk, target, self.walk.containers)

    def is_state_of(self, owner: object, name: str, value: object) -> bool:
        """Whether an attribute of an object that is part of the state may be set; MISSING: deleted."""
        if (value is not MISSING and not is_written(value)) or is_data_descriptor(type(lookup(type(owner), name))):
            return False
        variables = id(variables_of(owner))
        return variables in self.walk.before and self.walk.writes(variables, name)

    def lends(self, owner: object, name: str, at: int) -> bool:
        """Whether an attribute of the state may hold a new object, which has to be gone where the graph ends."""
        if self.lent is None or not self.is_state_of(owner, name, None):
            return False
        self.lent.setdefault((id(owner), name), (owner, at))
        return True

    def kept(self) -> Iterator[tuple[object, int]]:
        """Objects of the state that hold a new object still, and which instruction gave it to them."""
        for (_, name), (owner, at) in (self.lent or {}).items():
            if not is_written((variables_of(owner) or {}).get(name)):
                yield owner, at

    def is_variable(self, variables: object, name: Any, value: object) -> bool:
        """Whether a cell or a global may be bound to a value, or UNBOUND: one of the state, or of the trace."""
        self.looks.unread.discard((id(variables), name))
        if self.walk.is_added(variables, name):
            return value is UNBOUND or is_written(value)
        if not (is_written(value) and self.walk.writes(id(variables), name)):
            return False
        if any(leaf.owner_id == id(variables) and leaf.key == name for leaf in self.walk.leaves):
            return True
        if type(variables) is not dict or name in variables or not is_of_users(module_of_globals(variables)):
            return False
        self._guarded.add((id(variables), name))
        self.walk.begin_variable(variables, name, f"the globals of {module_of_globals(variables)}")
        return True

    def refills(self, container: object, at: int) -> bool:
        """Writes down that a container of the arguments is filled behind the graph, if that can be done.

        It gets a new object in instruction number `at`.
        """
        copies = [copy for copy in self.copies if copy.copy is container]
        if self.refilled is None or len(copies) != 1:
            return False
        if sum([copy.original is copies[0].original for copy in self.copies]) > 1:
            return False
        if id(copies[0].original) in self.walk.before:
            return False
        self.refilled.setdefault(id(container), (copies[0], at))
        return True

    def knows(self, value: object) -> bool:
        """Whether a value is one of the objects."""
        return id(value) in self.arguments.objects

    def read(self, container: Entries, key: object, value: object, path: str) -> None:
        """Guards a variable that the trace reads, if nothing does. What may change in itself takes another trace."""
        leaf = Leaf(container, key, value, path, False)
        place = leaf.owner_id, key
        self.looks.into_variable(place)
        if place not in self._guarded:  # what the state holds may have a stand-in of this trace there
            self._guarded.add(place)
            self.variables.append(Variable(container, key, path))
            if is_walked(no_placeholder(value)):
                self.has_unwalked = True
            elif type(value) is not ModuleType:
                self.walk.leaves.append(leaf)

    def had(self, variables: dict[str, object], name: str) -> bool:
        """Whether variables of the state had a name where the trace began."""
        return name in self.walk.before.get(id(variables), ()) or (id(variables), name) in self._guarded

    def read_slot(self, owner: object, slot: MemberDescriptorType, name: str) -> None:
        """Guards what an object of the state has in a slot, or that it has nothing there."""
        self.walk.assumed.has_class(owner)
        value = slot_value(slot, owner)
        if value is MISSING:
            self.walk.assumed.lacks_slot(owner, name)
        else:
            self.read(SlotBox(owner, slot), name, value, f"{type(owner).__name__}.{name}")

    def calls(self, function: FunctionType) -> None:
        """Guards what a call reads of a function that is the same at each call. What its defaults hold is state."""
        if self.walk.assumed.is_called(function):
            return
        for defaults in (function.__defaults__, function.__kwdefaults__):
            values = [] if defaults is None else [*(defaults.values() if type(defaults) is dict else defaults)]
            if any(map(is_walked, values)) and not any(defaults is root for root in self.roots):
                raise Reroot(defaults)
        self.walk.assumed.calls(function)

    def contents(self, cell: object) -> object:
        """What one of the objects, a cell, holds; UNBOUND if it is empty."""
        if (id(cell), _CONTENTS) in self.written:
            value = self.written[id(cell), _CONTENTS][2]
            return UNBOUND if value is MISSING else value
        value = contents_of(cell)
        if value is UNBOUND:
            self.arguments.guard_empty(cell)
            return value
        return self.part(cell, _CONTENTS, value, True)

    def bind(self, cell: object, value: object) -> None:
        """Writes down that one of the objects, a cell, gets another value, or none (UNBOUND)."""
        self._write(cell, _CONTENTS, MISSING if value is UNBOUND else value)

    def parts_of(self, function: FunctionType) -> CallParts:
        """The closure and the defaults of one of the objects, a function: its cells are of the objects then."""
        parts: list[Any] = [self.part(function, name, getattr(function, name), True) for name in _CALLED]
        closure, defaults, by_name = parts
        return closure, defaults, by_name

    def own_attribute(self, owner: object, name: str) -> object:
        """What one of the objects has in its `__dict__`; MISSING if nothing."""
        return self.attribute(owner, name, lambda owner, name: MISSING)

    def shows_all(self, module: object) -> bool:
        """Whether a function of ours may look at all that one of the objects holds, a module: it is guarded then."""
        if not hasattr(type(module), MARK) or any(owner is module for owner, _, _ in self.written.values()):
            return False
        self.arguments.guard_variables(module)
        return True

    def guard_apart(self, value: object, other: object) -> None:
        """Guards that one of the objects is not another object."""
        if not self.knows(other):
            self.arguments.guard_apart(value, other)

    def attribute(self, owner: object, name: str, native: Callable[[Any, str], object]) -> object:
        """An attribute of one of the objects; `native` gives one of its class. Errors: Break, AttributeError."""
        of_class = lookup(type(owner), name)
        kind = type(of_class)
        if type(owner) is FunctionType and name in _OF_FUNCTIONS:
            return self.part(owner, name, getattr(owner, name), True)
        if kind is not MemberDescriptorType and is_data_descriptor(kind):
            if name == "__dict__":
                raise Break(VARIABLES, "the variables of an object that was there before")
            if type(owner) in (FunctionType, CellType) and name not in ("__class__", "__code__"):
                raise Break(PASSED_BY, f"the attribute {name} of a {type(owner).__name__} that was there before")
            return native(owner, name)
        if any(copy.original is getattr(owner, "__dict__", self) for copy in self.copies):
            raise Break(VARIABLES, "an object and its variables are used")
        if (id(owner), name) in self.written:
            value = self.written[id(owner), name][2]
            if value is MISSING and of_class is not MISSING:
                raise Break(OUTSIDE, "an attribute of the class is behind one that was deleted")
            return _absent(owner, name) if value is MISSING else value
        value = _own(owner, name, of_class)
        if value is MISSING:
            self.arguments.guard_absent(owner, name, kind is MemberDescriptorType)
            return native(owner, name)
        return self.part(owner, name, value, kind is MemberDescriptorType)

    def part(self, owner: object, name: str, value: object, is_slot: bool) -> object:
        """What stands for a part of one of the objects, or of a tensor: opened when it is first read."""
        known = self._read.get((id(owner), name), self)
        if known is self:
            known = self._read[id(owner), name] = self._opened(owner, name, value, is_slot)
        return known

    def set(self, owner: object, name: str, value: object) -> None:
        """Writes down that an attribute is set, or deleted (MISSING)."""
        of_class = lookup(type(owner), name)
        _end_without_place(owner, name, of_class)
        if value is MISSING:
            self.attribute(owner, name, _absent)
            if _own(owner, name, of_class) is MISSING:  # the trace has set it, and has taken back what it did
                self.arguments.guard_absent(owner, name, type(of_class) is MemberDescriptorType)
                del self.written[id(owner), name]
                return
        elif self.written.get((id(owner), name), (owner, name, value))[2] is MISSING:  # it comes behind the others then
            raise Break(OUTSIDE, f"the attribute {name} is set, which was deleted")
        self._write(owner, name, value)

    def _write(self, owner: object, name: str, value: object) -> None:
        self.written.pop((id(owner), name), None)
        self.written[id(owner), name] = owner, name, value

    def _opened(self, owner: object, name: str, value: Any, is_slot: bool) -> object:
        if hasattr(type(value), MARK) and not any(value is root for root in self.roots):
            raise Reroot(value)
        if is_passed(value):
            raise Break(PASSED_BY, f"the attribute {name} is an object that the graph passes by")
        if self.walk.restless and self.arguments.place(owner, name, is_slot) in self.walk.restless:
            raise Break(PASSED_BY, f"the attribute {name} holds another value at each call")
        text = self.arguments.attribute(owner, name, is_slot)
        for copy in self.copies:
            if copy.original is value:
                self.arguments.guard_same(text, copy.text)
                return copy.copy
        seen = {id(copy.original) for copy in self.copies}
        for container in containers_in(value):
            if id(container) in seen:
                raise Break(PASSED_BY, f"the attribute {name} holds a container that others hold too")
            seen.add(id(container))
        first = len(self.arguments.leaves)
        self.arguments.open(value, text)
        made = self._stand_in(value, text, first)
        self.note(made)
        return made

    def before(self) -> set[int]:
        """Containers and objects, by identity, that were there before: each call finds them by an expression."""
        return self.containers.keys() | self.arguments.objects.keys() | self.walk.before.keys()

    def note(self, value: object) -> None:
        """Writes down the containers in a value that stands for one that was there before."""
        self.containers |= {id(container): container for container in containers_in(value)}


def resizes(reached: ReachedObjects, target: object, values: Iterable[object]) -> bool:
    """Whether each call can give a list, set or deque of the state these values. Notes that it does."""
    walk = reached.walk
    written = all(is_written(value) or id(value) in walk.before for value in values)
    if not written or any(copy.original is target for copy in reached.copies):
        return False
    rows = walk.containers if type(target) is list else walk.collections if type(target) in (set, deque) else ()
    return _resizes(walk, target, rows)


def _resizes(walk: StateWalk, target: object, rows: Iterable[tuple[object, str]]) -> bool:
    stands = any(container is target for container, _ in rows)
    walk.resized |= {id(target)} if stands else set()
    return stands and walk.writes(id(target))


def containers_in(value: Any) -> Iterator[Any]:
    """The lists, dicts and tuples in a value, itself included; one that stands in it twice comes twice."""
    if is_tuple(value) or type(value) in (list, dict):
        yield value
        for item in value.values() if type(value) is dict else value:
            yield from containers_in(item)


def end_before_known(reached: ReachedObjects, method: FunctionType, cls: type | None) -> None:
    """Breaks before C calls a special method, of some class, on one of the objects: nobody tells what it reads."""
    if cls is None or method.__name__ in _OF_CLASSES:
        return
    if any(type(value) is cls and reached.knows(value) for _, value in reached.arguments.leaves):
        raise Break(PASSED_BY, f"{method.__qualname__} is called on an object that was there before")


def holds_known(reached: ReachedObjects, value: object) -> bool:
    """Whether a value is one of the objects, or a list, dict or tuple that one stands in."""
    stack, seen = [value], set[int]()
    while stack:
        value = stack.pop()
        if reached.knows(value):
            return True
        if id(value) not in seen and (type(value) in (list, dict) or is_tuple(value)):
            seen.add(id(value))
            stack += _parts_of(value)
    return False


def _absent(owner: object, name: str) -> object:
    raise AttributeError(f"{type(owner).__name__!r} object has no attribute {name!r}", name=name, obj=owner)


def _own(owner: object, name: str, of_class: Any) -> object:
    """The value of a slot, or of an entry of the object's `__dict__`."""
    if type(of_class) is MemberDescriptorType:
        return slot_value(of_class, owner)
    return (variables_of(owner) or {}).get(name, MISSING)


def _end_without_place(owner: object, name: str, of_class: object) -> None:
    """Ends the graph where an attribute that is set is neither in the object's variables nor in a slot."""
    if type(of_class) is MemberDescriptorType:
        return
    if is_data_descriptor(type(of_class)):
        raise Break(OUTSIDE, f"the descriptor {name} is set")
    if not hasattr(owner, "__dict__"):
        raise Break(OUTSIDE, f"there is no attribute {name} to be set")


def has_walked(reached: ReachedObjects, module: object) -> None:
    """Sees to it that the state of a module, optimizer or schedule is part of a program. Errors: Reroot.

    One that lies in a container of the arguments is; others are new, or have been found in the state.
    """
    variables = variables_of(module)
    if variables is None or id(variables) in reached.walk.before or reached.knows(module):
        return
    held = any(module is part for copy in reached.copies for part in _parts_of(copy.original))
    if held and not any(module is root for root in reached.roots):
        raise Reroot(module)


def _parts_of(container: object) -> Iterable[object]:
    if type(container) is dict and isinstance(container, dict):
        return container.values()
    return container if isinstance(container, (list, tuple)) else ()

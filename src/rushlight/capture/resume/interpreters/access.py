"""Access to what was there before a trace: reads are arguments or guards of the graph, writes effects, or a break."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Sequence
from types import CellType, FunctionType, MemberDescriptorType, ModuleType
from typing import Any

from rushlight.capture.interpreter.frame import UNBOUND
from rushlight.capture.interpreter.hooks import MISSING, CallParts
from rushlight.capture.interpreter.slots import HEAP_TYPE, is_data_descriptor, lookup, python_method
from rushlight.capture.resume import breaks
from rushlight.capture.resume.blueprint import is_native, is_of_program
from rushlight.capture.resume.breaks import Break
from rushlight.capture.resume.calling import is_of_c
from rushlight.capture.resume.identities import Identity
from rushlight.capture.resume.interpreters.making import UNCHANGEABLE, MakingInterpreter
from rushlight.capture.resume.iterators import VIEWS
from rushlight.capture.resume.opaque import Opaque, lives
from rushlight.capture.resume.reached import ReachedObjects, has_walked
from rushlight.capture.state.globals import is_of_users, module_of_class, module_of_globals
from rushlight.capture.state.places import CellBox, ClassBox
from rushlight.capture.state.reachable import MARK, variables_of
from rushlight.capture.values import is_tuple
from rushlight.eager.dispatch import STATE
from rushlight.eager.handle import BUFFER_MARK, PARAMETER_MARK, Handle
from rushlight.eager.tensor import Parameter

_SELF_CLASS, _THIS_CLASS = [vars(super)[name] for name in ("__self_class__", "__thisclass__")]
_TENSOR_ATTRIBUTES = frozenset({"grad", "requires_grad", "data"})


def _look_into(owner: object) -> None:
    """Breaks before anything is asked of an object that the graph passes by."""
    if type(owner) is Opaque:
        raise Break(breaks.PASSED_BY, "an object is used that the graph passes by")


class AccessingInterpreter(MakingInterpreter):
    """An interpreter that reads and writes what was there before as each call finds it, or breaks.

    `given` are the containers among the arguments, by identity, which it may change; `reached` the objects among them.
    """

    __slots__ = ("given", "reached", "variables")

    def __init__(self, is_leaf: Callable[[FunctionType], bool], reached: ReachedObjects) -> None:
        super().__init__(is_leaf)
        self.given = reached.containers
        self.reached = reached
        self.variables: dict[int, object] = {}  # which new object a dict has the variables of, by its identity

    def contents(self, cell: object) -> object:
        """What a cell holds: one that was there before, as each call finds it."""
        if type(cell) is Opaque:
            raise Break(breaks.PASSED_BY, "a cell is read that the graph passes by")
        if self.reached.knows(cell):
            return self.reached.contents(cell)
        value = super().contents(cell)
        if type(cell) is CellType and id(cell) not in self.made and value is not UNBOUND:
            self.reached.read(CellBox(cell), 0, value, "a variable of a closure")
        return value

    def reads(self, variables: dict[str, object], name: str, value: object) -> None:
        """Has a global guarded that the trace reads, unless its module is ours or of the library."""
        if id(variables) not in self.made and is_of_users(module_of_globals(variables)):
            self.reached.read(variables, name, value, name)

    def lacks(self, variables: dict[str, object], name: str) -> None:
        """Has it guarded that a global is not there, but those of our modules and of the library."""
        module = module_of_globals(variables)
        if id(variables) not in self.made and is_of_users(module):
            self.reached.walk.assumed.lacks(variables, name, f"the globals of {module}")

    def looks_into(self, cls: type) -> None:
        """Has a class guarded."""
        self.reached.walk.assumed.looks_into(cls)

    def parts_of(self, function: FunctionType) -> CallParts:
        """What a call reads of a function: of one that was there before, as each call finds it."""
        if self.reached.knows(function):
            return self.reached.parts_of(function)
        if id(function) not in self.made and is_of_users(module_of_globals(function.__globals__)):
            self.reached.calls(function)
        return super().parts_of(function)

    def own_attribute(self, owner: object, name: str) -> object:
        """What an object has in its `__dict__`: of what was there before, as each call finds it."""
        _look_into(owner)
        if self.reached.knows(owner):
            return self.reached.own_attribute(owner, name)
        self._read_of_object(owner, name)
        return super().own_attribute(owner, name)

    def attribute(self, owner: object, name: str, native: Callable[[Any, str], object]) -> object:
        """An attribute: of an object that was there before, as each call finds it."""
        _look_into(owner)
        self._read_of_class(owner, name)
        if issubclass(type(owner), Handle) and lookup(type(owner), name) is MISSING:
            value = self._read_of_argument(owner, name)
            if value is not MISSING:
                return value
        if self.reached.knows(owner):
            return self.reached.attribute(owner, name, native)
        self._read_of_object(owner, name)
        if self.reached.looks.restless and hasattr(type(owner), MARK):
            self.reached.looks.into_variable((id(variables_of(owner)), name))
        value = native(owner, name)
        if type(value) in VIEWS:
            shown = {id(source) for source in gc.get_referents(value)}
            if any(id(copy.original) in shown for copy in self.reached.copies):
                raise Break(breaks.PASSED_BY, f"the attribute {name} is a view of a container among the arguments")
        return value

    def _read_of_argument(self, tensor: object, name: str) -> object:
        """What the program has given a tensor among the arguments; MISSING, guarded too, where nothing."""
        assumed = self.reached.walk.assumed
        real = assumed.stands_for.get(id(tensor))
        if real is None or real is tensor:
            return MISSING
        variables = variables_of(real) or {}
        if name in variables and id(tensor) in assumed.specified:
            raise Break(breaks.PASSED_BY, f"the attribute {name} of a tensor among the arguments")
        if name in variables:
            return self.reached.part(real, name, variables[name], False)
        assumed.unnamed.setdefault(id(real), set()).add(name)
        return MISSING

    def _read_of_object(self, owner: object, name: str) -> None:
        """Has guarded what an object of the state, or a module, has under a name, or that it has nothing.

        Errors: Reroot for a module, optimizer or the like that was reached within a container of the arguments.
        """
        variables = self._variables_of(owner)
        if variables is not None:
            self._read_of_variables(owner, variables, name)
        kind = type(owner)
        if hasattr(kind, MARK) and id(owner) not in self.made:
            has_walked(self.reached, owner)
        if kind.__flags__ & HEAP_TYPE and id(owner) not in self.made and not issubclass(kind, BaseException):
            slot = lookup(kind, name)
            if type(slot) is not MemberDescriptorType or is_native(slot.__objclass__):
                return
            if is_of_program(kind):
                self.reached.read_slot(owner, slot, name)

    def _read_of_variables(self, owner: object, variables: dict[str, object], name: str) -> None:
        assumed = self.reached.walk.assumed
        if issubclass(type(owner), Handle) and name not in variables:
            if lookup(type(owner), name) is MISSING:
                assumed.lacks(variables, name, f"a {type(owner).__name__}")
            return
        if name in variables and name not in self.reached.walk.before.get(id(variables), variables):
            return  # the trace has set it
        if type(owner) is not ModuleType:
            assumed.has_class(owner)
        if name in variables:
            self.reached.read(variables, name, variables[name], name)
        elif not (self.reached.had(variables, name) or is_data_descriptor(type(lookup(type(owner), name)))):
            assumed.lacks(variables, name, f"a {type(owner).__name__}")

    def _variables_of(self, owner: object) -> dict[str, object] | None:
        """The variables of an object of the program, or of a user's module, that was there before."""
        kind = type(owner)
        if kind is ModuleType and isinstance(owner, ModuleType):
            return vars(owner) if is_of_users(owner.__name__) else None
        if issubclass(kind, Handle) and isinstance(owner, Handle):
            return None if owner.backing is None else variables_of(owner)
        if issubclass(kind, (type, BaseException)) or not is_of_program(kind):
            return None
        variables = variables_of(owner)
        new = variables is None or id(owner) in self.made or id(variables) in self.made
        return None if new else variables

    def _read_of_class(self, owner: object, name: str) -> None:
        """Has a value guarded that a user's class holds. Its methods are taken to stay."""
        for base in self._bases(owner):
            if name in vars(base):
                value: object = vars(base)[name]
                if not is_of_c(lookup(type(value), "__get__")):
                    raise Break(breaks.CALLED_BACK, f"C calls __get__ of {type(value).__name__}")
                before = id(base) not in self.made and is_of_users(module_of_class(base))
                if before and not hasattr(type(value), "__get__"):
                    self.reached.read(ClassBox(base), name, value, f"{base.__name__}.{name}")
                return

    def _bases(self, owner: object) -> Sequence[type]:
        """The classes that are asked for an attribute, in order: of a class itself first, and behind `super`."""
        kind = type(owner)
        of_kind: Sequence[type] = kind.__mro__ if kind.__flags__ & HEAP_TYPE else ()
        if kind is super:
            own: Any = _SELF_CLASS.__get__(owner)
            if own is None:
                return ()
            self.looks_into(own)
            bases: Sequence[type] = own.__mro__
            return bases[bases.index(_THIS_CLASS.__get__(owner)) + 1 :]
        return [*owner.__mro__, *of_kind] if issubclass(kind, type) and isinstance(owner, type) else of_kind

    def sets(self, owner: object, name: str, value: object) -> bool:
        """Has an attribute of an object that was there before set after the graph. Breaks for others, but tensors."""
        descriptor = type(lookup(type(owner), name))
        if not is_of_c(lookup(descriptor, "__delete__" if value is MISSING else "__set__")):
            raise Break(breaks.CALLED_BACK, f"C calls a method of {descriptor.__name__}")
        if name == "__dict__" and not (value is MISSING or type(value) is Opaque or issubclass(type(value), dict)):
            return False  # an error
        if name == "__dict__":
            raise Break(breaks.VARIABLES, "an object is given its variables as a dict")
        self.changes(owner)
        if self.reached.knows(owner):
            if hasattr(type(owner), MARK) and _registers(owner, name, value):
                raise Break(breaks.OUTSIDE, "a module that was there before is given a part")
            self.reached.set(owner, name, value)
            return True
        if _has_name(owner, name, value):
            return True
        if issubclass(type(owner), Handle):
            made = STATE.tracer is not None and id(owner) in STATE.tracer.wrappers
            if name not in _TENSOR_ATTRIBUTES and not made:
                raise Break(breaks.TENSOR_ATTRIBUTE, f"the attribute {name} of a tensor is set")
        elif not (
            self.reached.is_state_of(owner, name, value)
            or (id(value) in self.made and self.reached.lends(owner, name, self.count))
        ):
            self.writes(owner, value)
        return False

    def binds(self, variables: object, name: object, value: object) -> bool:
        """Breaks before a variable changes that was there before, unless each call can change it."""
        self.changes(variables)
        if self.reached.knows(variables):
            self.reached.bind(variables, value)
            return True
        if id(variables) not in self.made and not self.reached.is_variable(variables, name, value):
            self.writes(variables, value)
        return False

    def replaces(self, container: object, key: object, value: object) -> None:
        """Breaks before an item is set that was there before, unless each call can set it."""
        self.changes(container)
        if type(key) is Identity:
            self.writes(container, key)
        if not (type(container) is list and type(key) is int and self.reached.is_state(container, value)):
            self.writes(container, value)

    def writes(self, target: object, *values: object) -> None:
        """Breaks before a change of what was there before: it is an effect that Python carries out."""
        self.keeps(values)
        self.changes(target)
        if type(target) in UNCHANGEABLE or self.is_state(target, *values):
            return
        holds_new = id(target) in self.given and any(map(self._is_of_trace, values))
        if holds_new and not self.reached.refills(target, self.count):
            raise Break(breaks.ARGUMENT, f"a {type(target).__name__} of the arguments is given a new object")
        if id(target) not in self.made and id(target) not in self.given and not issubclass(type(target), Handle):
            raise Break(breaks.OUTSIDE, f"a {type(target).__name__} changes that was there before")

    def appends(self, target: list[object], values: tuple[object, ...]) -> bool:
        """Whether a graph appends tensors to a list that was there before. Numbers may be others at each call."""
        return any(issubclass(type(value), Handle) for value in values) and self.reached.appends(target, values)

    def resizes(self, target: object, *values: object) -> bool:
        """Whether a graph gives a container that was there before other entries. Each number of them is a graph."""
        return False

    def keeps(self, parts: Iterable[object]) -> None:
        """Breaks before a new object gets parts that do something when they die: a trace keeps what it makes."""
        if any(map(lives, parts)):
            raise Break(breaks.FINALIZER, "a new object keeps one that does something at the end of its life")

    def is_state(self, target: object, *values: object) -> bool:
        """Whether a dict is part of the state, so that each call may put values into it as C does."""
        kind = type(target)
        if not issubclass(kind, dict) or not self.reached.is_state(target, *values):
            return False
        return all(python_method(self, kind, name) is None for name in ("__setitem__", "__delitem__"))

    def _is_of_trace(self, value: Any) -> bool:
        """Whether a value is an object that the trace has made or passes by, or holds one. Tensors are none."""
        if issubclass(type(value), Handle):
            return False
        if type(value) is Opaque or id(value) in self.made:
            return True
        if type(value) is Identity:
            return True
        parts = value.values() if type(value) is dict else value if type(value) is list or is_tuple(value) else ()
        return any(map(self._is_of_trace, parts))


def _registers(module: object, name: str, value: object) -> bool:
    """Whether a module keeps a value in one of its tables, and not as an attribute, or may do so."""
    tables = [table for table in (variables_of(module) or {}).values() if type(table) is dict]
    if type(value) is Opaque or hasattr(type(value), MARK) or any(name in table for table in tables):
        return True
    marks = variables_of(value) or {} if issubclass(type(value), Handle) else {}
    return issubclass(type(value), Parameter) or PARAMETER_MARK in marks or BUFFER_MARK in marks


def _has_name(function: object, name: str, value: object) -> bool:
    """Whether a function of a library, which is taken to stay, is given a name that it has already."""
    if type(function) is not FunctionType or name not in ("__name__", "__qualname__") or type(value) is not str:
        return False
    return getattr(function, name) == value and not is_of_users(module_of_globals(function.__globals__))

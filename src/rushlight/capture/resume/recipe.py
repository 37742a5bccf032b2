"""Recipes for the state at the end of a traced part: how to build each call's own objects, identities included."""

from __future__ import annotations

import gc
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from types import (
    BuiltinFunctionType,
    CellType,
    ClassMethodDescriptorType,
    FunctionType,
    GenericAlias,
    MethodType,
    MethodWrapperType,
    ModuleType,
    NoneType,
    TracebackType,
    UnionType,
)
from typing import Any

from rushlight.capture.interpreter import Interpreter
from rushlight.capture.interpreter.frame import NULL, UNBOUND, Frame, FrameView, contents_of
from rushlight.capture.interpreter.generators import Resumable
from rushlight.capture.interpreter.library import Callback
from rushlight.capture.interpreter.suspended import Call, SuspendedCode, can_be_suspended, closure_of
from rushlight.capture.resume.blueprint import blueprint_of, is_plain_key
from rushlight.capture.resume.breaks import CLASS, OUTSIDE, SUSPENDED, UNBUILT, Reason, Retrace
from rushlight.capture.resume.calling import definer
from rushlight.capture.resume.classes import ClassPlan
from rushlight.capture.resume.graphless import is_leaf
from rushlight.capture.resume.identities import Identity, number_of
from rushlight.capture.resume.iterators import parts_of
from rushlight.capture.resume.opaque import Opaque, slot_of
from rushlight.capture.state.reachable import PLAIN, variables_of
from rushlight.capture.values import plain_key
from rushlight.eager.handle import Handle
from rushlight.eager.symbols import SymBool, SymFloat, SymInt

_LEAVES = (Handle, SymInt, SymBool, SymFloat)
_KEEPING = frozenset({FunctionType, MethodType, CellType, partial, tuple, list})
_MOST_LOOKED_AT = 256
Built = list[Any]
"""Objects that a recipe has built, each of a class of its own."""
Step = Callable[[Built, Sequence[object], Sequence[object]], object]
"""Builds one object from (those that are built, the graph's values, the state before)."""
Make = Callable[[Built], object]
"""Builds one object from its parts."""


class Recipe:
    """Steps that build objects, and which of them are the roots.

    `leaf` is which of the graph's values the only root is, if it is one. `reads_state` says whether steps do.
    """

    __slots__ = ("generators", "leaf", "reads_state", "roots", "steps")

    def __init__(self, steps: list[Step], roots: list[int], generators: Sequence[int] = ()) -> None:
        self.steps = steps
        self.generators = generators
        self.roots = roots
        only = steps[roots[0]] if len(roots) == 1 else None
        self.leaf = only.place if isinstance(only, Leaf) else None
        self.reads_state = any(isinstance(step, FromState) for step in steps)

    def build(
        self, leaves: Sequence[object], before: Sequence[object], interpreter: Interpreter | None = None
    ) -> Built:
        """The roots, for the values that a graph gave and the state before it."""
        made: Built = []
        for step in self.steps:
            made.append(step(made, leaves, before))
        for place in self.generators if interpreter is not None else ():
            made[place].run_by(interpreter)
        return [made[root] for root in self.roots]


class RecipeWriter:
    """Writes the recipe of some roots.

    `made` has the objects that the trace made, by identity, with the number of the instruction that did; `given` the
    identities of containers that it was given; `variables` says of which object a dict has the variables. Others were
    there before, and are constants. If it `returns`, nothing is interpreted any more. `refilled` has the containers,
    by identity, that are filled once all is built, and the instruction that gave each its first new object.
    """

    def __init__(
        self, made: dict[int, tuple[object, int]], given: set[int], variables: Mapping[int, object], *, returns: bool
    ) -> None:
        self.made = made
        self._returns = returns
        self.refilled: Mapping[int, int] = {}
        self.variables = variables
        self.given = given
        self.steps: list[Step] = []
        self.leaves: Built = []
        self.known: dict[int, int] = {}
        self._alive: list[object] = []
        self._fills: list[_Pending] = []  # of objects that are there, and whose parts may refer to them
        self._generators: list[int] = []
        self._late: list[Step] = []  # what fills classes, once all of them are there
        self._instruction = min([at for _, at in made.values()], default=0)

    def write(self, roots: Sequence[object]) -> Recipe:
        """The recipe. Errors: Retrace where an object cannot be built again."""
        places = [self._add(root) for root in roots]
        self._fill()
        return Recipe([*self.steps, *self._late], places, self._generators)

    def _fill(self) -> None:
        """Writes the steps that fill the objects that are there."""
        while self._fills:
            place, parts, fill, steps = self._fills.pop()
            steps.append(Fill(place, [self._add(part) for part in parts], fill))

    def _step(self, value: object, step: Step) -> int:
        self._alive.append(value)
        self.steps.append(step)
        self.known[id(value)] = len(self.steps) - 1
        return len(self.steps) - 1

    def _add(self, value: Any, within: bool = False) -> int:
        """The place of a value. An iterator `within` another one that the trace has made was made with it."""
        known = self.known.get(id(value))
        if known is not None:
            return known
        kind = type(value)
        if kind is Opaque:
            return self._step(value, FromState(slot_of(value)))
        if issubclass(kind, _LEAVES) or id(value) in self.given:
            place = len(self.leaves)
            self.leaves.append(value)
            return self._step(value, Leaf(place))
        owner = self.variables.get(id(value), value)
        if owner is not value:
            place = self._add(owner)
            return self._step(value, lambda made, leaves, before: variables_of(made[place]))
        if kind is Identity:
            place, number = self._add(value.owner), number_of
            return self._step(value, lambda made, leaves, before: number(made[place]))
        if kind is Callback:
            return self._add(value.function)  # Python calls it, where it is called later
        if kind is tuple:
            return self._of_parts(value, value, [self._add(item, within) for item in value], tuple)
        if kind in (GenericAlias, UnionType) and (alias := parts_of(value)) is not None:
            return self._of_parts(value, alias.parts, [self._add(part) for part in alias.parts], alias.make)
        if kind is frozenset:
            places = [self._add(plain_key(item)) for item in value]
            if not (all(map(is_plain_key, value)) or self._are_constant(value, places)):
                raise Retrace(self._instruction, Reason(UNBUILT, "a new frozenset cannot be built again"))
            return self._of_parts(value, value, places, frozenset)
        if kind is MethodType and issubclass(type(value.__self__), Resumable):  # which may become one of Python's
            owner, name = self._add(value.__self__), value.__name__
            return self._step(value, lambda made, leaves, before: getattr(made[owner], name))
        if kind is MethodType:
            function, owner = self._add(value.__func__), self._add(value.__self__)
            return self._step(value, MadeOf([function, owner], method_of))
        if kind in (BuiltinFunctionType, MethodWrapperType) and (
            id(value.__self__) in self.made or not issubclass(type(value.__self__), (ModuleType, type, NoneType))
        ):
            owner, name = self._add(value.__self__), value.__name__
            cls = definer(value.__self__, name)
            method: Any = vars(cls).get(name)
            if type(method) is ClassMethodDescriptorType:
                return self._step(value, lambda made, leaves, before: method.__get__(None, made[owner]))
            if hasattr(type(method), "__get__"):
                return self._step(value, MethodOfC(owner, cls, name))
        if issubclass(kind, type) and id(value) in self.made:
            return self._class(value)
        is_container = kind in (list, dict, set) or issubclass(kind, tuple)
        inside = (is_container and _holds_traced(value)) or (within and hasattr(kind, "__next__"))
        inside = inside or kind is TracebackType  # those of what was there before are not reached
        if id(value) in self.made:
            self._instruction = self.made[id(value)][1]
            if kind is FrameView:
                raise Retrace(self._instruction, Reason(UNBUILT, "a frame is kept"))
        elif not inside:
            if _keeps_traced(value):
                raise Retrace(self._instruction, Reason(UNBUILT, f"a {kind.__name__} keeps a tensor of the graph"))
            return self._step(value, _constant(value))
        return self._built(value, kind)

    def _of_parts(self, value: object, parts: Iterable[object], places: list[int], make: Make) -> int:
        """A step for a value that is fixed where its parts are, and is made of them otherwise."""
        if self._are_constant(parts, places):
            return self._step(value, _constant(value))
        return self._step(value, MadeOf(places, make))

    def _are_constant(self, parts: Iterable[object], places: list[int]) -> bool:
        """Whether each call has these very parts at their places."""
        return all(part is item for part, item in zip(map(self._constant_of, places), parts, strict=True))

    def _constant_of(self, place: int) -> object:
        step = self.steps[place]
        return step.value if isinstance(step, Constant) else self

    def _built(self, value: Any, kind: type) -> int:
        """A step for a mutable object, which others may refer to before it is filled."""
        if kind is CellType:
            place = self._step(value, lambda made, leaves, before: CellType())
            contents = contents_of(value)
            if contents is not UNBOUND:
                self._fills.append((place, [contents], _fill_cell, self.steps))
            return place
        if kind is FunctionType:
            return self._function(value)
        if issubclass(kind, Resumable):
            return self._generator(value)
        found = parts_of(value)
        if found is not None:
            places = [self._add(part, True) for part in found.parts]
            if found.filled:
                _refuse_refilled(found.parts, self.refilled)
                self._fill()
            return self._step(value, MadeOf(places, found.make))
        blueprint = blueprint_of(value)
        if blueprint is None:
            raise Retrace(self._instruction, Reason(UNBUILT, f"a new {kind.__name__} cannot be built again"))
        cls = self._add(kind)
        first = [self._add(part) for part in blueprint.first]
        make_of = blueprint.make
        place = self._step(value, Instance(cls, first, make_of))
        if blueprint.others:
            self._fills.append((place, blueprint.others, blueprint.fill, self.steps))
        return place

    def _generator(self, value: Resumable) -> int:
        frame = value.frame
        if frame is not None and id(frame.globals) in self.made:
            raise Retrace(self._instruction, Reason(UNBUILT, "a generator has variables that the trace has made"))
        if self._returns and (value.has_ended or (frame is not None and not value.is_begun)):
            return self._generator_of_python(value, frame)
        if value.has_ended:
            kind, code, names = type(value), value.code, (value.__name__, value.__qualname__)
            return self._step(value, lambda made, leaves, before: kind.ended(Interpreter(is_leaf), code, names))
        if frame is None:
            raise Retrace(self._instruction, Reason(SUSPENDED, "a generator runs, or has ended"))
        if self._returns and can_be_suspended(value):
            return self._suspended_of_python(value, frame)
        kind = type(value)
        body, variables, position = frame.body, frame.globals, frame.position
        names, begun, size = (value.__name__, value.__qualname__), value.is_begun, len(frame.locals)

        def made(made: Built, leaves: Sequence[object], before: Sequence[object]) -> object:
            resumed = Frame(body, [], variables, None)
            resumed.position = position
            return kind.resumed(Interpreter(is_leaf), resumed, names, begun)

        def fill(generator: Resumable, parts: Built) -> None:
            assert generator.frame is not None
            generator.frame.locals, generator.frame.stack = parts[:size], parts[size:]

        place = self._step(value, made)
        self._generators.append(place)
        self._fills.append((place, [*frame.locals, *frame.stack], fill, self.steps))
        return place

    def _suspended_of_python(self, value: Resumable, frame: Frame) -> int:
        """A step for one of CPython's own that has begun."""
        code = SuspendedCode(frame, (value.__name__, value.__qualname__))
        cells = [self._add(cell) for cell in closure_of(frame)]
        place = self._step(value, lambda made, leaves, before: code.unsuspended([made[cell] for cell in cells]))
        self._fills.append((place, [*frame.locals, *frame.stack], code.suspend, self.steps))
        return place

    def _generator_of_python(self, value: Resumable, frame: Frame | None) -> int:
        """A step for one of CPython's own: it has not begun, or (no frame) has ended."""
        call = Call.of(value.code, frame)
        cells, places = [self._add(cell) for cell in call.closure], [self._add(part) for part in call.given]
        others_at = self._add(call.rest), self._add(call.by_name)
        code, variables, names = value.code, call.variables, (value.__name__, value.__qualname__)
        self._fill()

        def made(made: Built, leaves: Sequence[object], before: Sequence[object]) -> object:
            closure, given = [made[cell] for cell in cells], [made[place] for place in places]
            suspended = Call(variables, closure, given, made[others_at[0]], made[others_at[1]]).made(code, names)
            if frame is None:
                suspended.close()
            return suspended

        return self._step(value, made)

    def _class(self, value: type) -> int:
        """A step for a class, which what stands in it may refer to."""
        plan = ClassPlan.of(value)
        if plan is None:
            raise Retrace(self.made[id(value)][1], Reason(CLASS, "a class is made that outlives the graph"))
        kind, bases = self._add(type(value)), [self._add(base) for base in value.__bases__]
        make, fill = plan.make, plan.fill
        place = self._step(value, lambda made, leaves, before: make(made[kind], tuple([made[base] for base in bases])))
        self._fills.append((place, plan.values, fill, self._late))
        return place

    def _function(self, value: Any) -> int:
        cells = [self._add(cell) for cell in value.__closure__ or ()]
        variables = self._add(value.__globals__) if id(value.__globals__) in self.made else None
        space: Any = value.__builtins__
        builtins = self._add(space) if variables is not None and id(space) in self.made else None
        defaults = self._add(value.__defaults__)
        keywords = self._add(value.__kwdefaults__)
        said: dict[object, object] = value.__annotations__
        self.made.setdefault(id(said), (said, self._instruction))
        annotations = self._add(said) if said else None
        attributes = [(self._add(key), self._add(item)) for key, item in vars(value).items()]

        def made_function(made: Built, leaves: Sequence[object], before: Sequence[object]) -> object:
            closure = tuple([made[cell] for cell in cells])
            globals_: dict[str, object] = value.__globals__ if variables is None else made[variables]
            bare = builtins is not None and "__builtins__" not in globals_  # which a function looks at when it is made
            if builtins is not None and bare:
                globals_["__builtins__"] = made[builtins]
            function = FunctionType(
                value.__code__, globals_, value.__name__, made[defaults], closure if cells else None
            )
            if bare:
                del globals_["__builtins__"]  # it is put there in its place
            function.__kwdefaults__ = made[keywords]
            function.__module__ = value.__module__
            function.__qualname__, function.__doc__ = value.__qualname__, value.__doc__
            if annotations is not None:
                function.__annotations__ = made[annotations]
            for key, item in attributes:
                vars(function)[made[key]] = made[item]
            return function

        return self._step(value, made_function)


class FromState:
    """A value of the state before the graph."""

    __slots__ = ("slot",)

    def __init__(self, slot: int) -> None:
        self.slot = slot

    def __call__(self, made: Built, leaves: Sequence[object], before: Sequence[object]) -> object:
        """The value before."""
        return before[self.slot]


class Leaf:
    """A value that the graph gave."""

    __slots__ = ("place",)

    def __init__(self, place: int) -> None:
        self.place = place

    def __call__(self, made: Built, leaves: Sequence[object], before: Sequence[object]) -> object:
        """What the graph gave."""
        return leaves[self.place]


class Constant:
    """What was there before the trace."""

    __slots__ = ("value",)

    def __init__(self, value: object) -> None:
        self.value = value

    def __call__(self, made: Built, leaves: Sequence[object], before: Sequence[object]) -> object:
        """The very object."""
        return self.value


def _constant(value: object) -> Step:
    return Constant(value)


class MadeOf:
    """An object that is made of others."""

    __slots__ = ("make", "places")

    def __init__(self, places: list[int], make: Make) -> None:
        self.places, self.make = places, make

    def __call__(self, made: Built, leaves: Sequence[object], before: Sequence[object]) -> object:
        """Makes the object."""
        return self.make([made[place] for place in self.places])


class MethodOfC:
    """A method of C, which stands in a class, of an object."""

    __slots__ = ("cls", "name", "owner")

    def __init__(self, owner: int, cls: type, name: str) -> None:
        self.owner, self.cls, self.name = owner, cls, name

    def __call__(self, made: Built, leaves: Sequence[object], before: Sequence[object]) -> object:
        """Binds the method."""
        return vars(self.cls)[self.name].__get__(made[self.owner])


def method_of(parts: Built) -> object:
    """A method of a function and an object."""
    return MethodType(*parts)


class Instance:
    """An object of a class that is there, made of some parts; others may refer to it before it is filled."""

    __slots__ = ("cls", "first", "make")

    def __init__(self, cls: int, first: list[int], make: Callable[[type, Built], object]) -> None:
        self.cls, self.first, self.make = cls, first, make

    def __call__(self, made: Built, leaves: Sequence[object], before: Sequence[object]) -> object:
        """Makes the object."""
        return self.make(made[self.cls], [made[part] for part in self.first])


class Fill:
    """Puts parts into an object that is there."""

    __slots__ = ("fill", "parts", "place")

    def __init__(self, place: int, parts: list[int], fill: Callable[[Any, Built], None]) -> None:
        self.place, self.parts, self.fill = place, parts, fill

    def __call__(self, made: Built, leaves: Sequence[object], before: Sequence[object]) -> None:
        """Fills the object."""
        self.fill(made[self.place], [made[part] for part in self.parts])


def _fill_cell(cell: CellType, parts: list[object]) -> None:
    cell.cell_contents = parts[0]


_Pending = tuple[int, Sequence[object], Callable[[Any, Built], None], list[Step]]
"""Which object is to be filled, with which parts, how, and among which steps."""
AS_GIVEN = Recipe([Leaf(0)], [0])
"""The only root is what the graph gives."""


def is_plain(value: Any, made: Mapping[int, object], given: Collection[int], seen: set[int]) -> bool:
    """Whether a graph itself gives a value: of tensors and numbers, in new lists, dicts and tuples, each found once.

    `made` are the objects that the trace has made, `given` those that were there before, `seen` the containers that
    have been found, by identity.
    """
    kind = type(value)
    if kind in PLAIN or issubclass(kind, _LEAVES):
        return True
    if kind not in (list, dict, tuple) or id(value) in given or id(value) in seen:
        return False
    seen.add(id(value))
    parts = value.values() if kind is dict else value
    if kind is tuple:
        if all(type(part) in PLAIN for part in parts):
            return False  # a constant, which stays the same object
    elif id(value) not in made or (kind is dict and any(type(key) not in PLAIN for key in value)):
        return False
    return all(is_plain(part, made, given, seen) for part in parts)


def _refuse_refilled(parts: Iterable[object], refilled: Mapping[int, int]) -> None:
    """Retrace where an iterator would go over what is filled after it."""
    filled = [refilled[id(part)] for part in parts if id(part) in refilled]
    if filled:
        raise Retrace(min(filled), Reason(OUTSIDE, "a container is iterated over that changes in the graph"))


def _holds_traced(container: Any) -> bool:
    """Whether a container has values of the trace in it: then the trace has made it, inside of an object of C."""
    waiting, seen = [container], set[int]()
    while waiting:
        inside = waiting.pop()
        if id(inside) in seen:
            continue
        seen.add(id(inside))
        for item in inside.values() if isinstance(inside, dict) else inside:
            if type(item) in (list, dict) or issubclass(type(item), tuple):
                waiting.append(item)
            elif issubclass(type(item), _LEAVES) and (not issubclass(type(item), Handle) or item.backing is None):
                return True
    return False


def _keeps_traced(value: object) -> bool:
    """Whether a function, or what it is a part of, keeps a value of the trace where no recipe looks."""
    waiting, seen = [value], {id(value)}
    while waiting and len(seen) < _MOST_LOOKED_AT:
        one = waiting.pop()
        of_leaf = issubclass(type(one), _LEAVES)
        if of_leaf and (not isinstance(one, Handle) or (one.backing is None and one.node is not None)):
            return True
        if type(one) in _KEEPING or issubclass(type(one), tuple):
            inside = [other for other in gc.get_referents(one) if id(other) not in seen and type(other) is not dict]
            seen.update(map(id, inside))
            waiting += inside
    return False


def is_mark(value: object) -> bool:
    """Whether it stands where a value is missing."""
    return value is NULL or value is UNBOUND

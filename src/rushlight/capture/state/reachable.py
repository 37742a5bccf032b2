"""What a traced function can reach besides its arguments: modules, optimizers, and the containers they keep state in.

A class whose instances hold such state says so by an attribute `__rushlight_state__`: "static" when numbers in its
`__dict__` are part of the program (a module's sizes), "runtime" when they only feed arithmetic (an optimizer's
learning rate). Of other objects the attributes count that the function's own code names.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from gc import get_referents
from threading import local
from types import (
    BuiltinFunctionType,
    CellType,
    CodeType,
    FunctionType,
    MappingProxyType,
    MethodType,
    MethodWrapperType,
    ModuleType,
)
from typing import Any, TypeVar

from rushlight.capture.code.instructions import globals_in
from rushlight.capture.interpreter.slots import HEAP_TYPE
from rushlight.capture.state.assumed import Assumed, says_what_attributes_are
from rushlight.capture.state.globals import ReachableGlobals, is_of_users, module_of_globals, names_in, variables_in
from rushlight.capture.state.looks import Looks
from rushlight.capture.state.places import (
    MISSING,
    CellBox,
    Entries,
    Leaf,
    Variable,
    differs,
    entries_of,
    first_of,
    restore,
)
from rushlight.eager.handle import Handle
from rushlight.support.errors import fail

_Opened = TypeVar("_Opened")
MARK = "__rushlight_state__"
PREPARE = "__rushlight_prepare__"  # of a class: called before its instance is walked, with a list for what undoes that
PLAIN = frozenset({type(None), bool, int, float, str, bytes})
_COLLECTIONS = (set, deque, bytearray)
_SIZED = frozenset({list, dict, set, deque, bytearray, OrderedDict, defaultdict, Counter})
_MANY, _FIRST = 1000, 64  # entries of a container that is large, and those that are looked at for tensors
_PARTS: dict[type, tuple[str, ...]] = {partial: ("args", "keywords"), slice: ("start", "stop", "step")}
_ASKS_BY_NAME = frozenset({"globals", "eval", "exec", "vars", "locals", "dir"})  # what they look at nobody notes
_NO_STATE = (type, local, FunctionType, BuiltinFunctionType, MethodType, ModuleType, CellType, Handle)


class Traced(ABC):
    """What is traced in place of a function: it has the code of several."""

    @abstractmethod
    def roots(self) -> Sequence[FunctionType]:
        """Functions of that code."""


@dataclass(slots=True)
class StateWalk:
    """All containers and leaves that a function reaches, each once.

    `containers` are those whose number of entries matters; in `objects` only the leaves do. `before` has the entries
    of both, by the container's identity. `tensors` stand in tuples, where nothing can take their place. `holders`
    has, by identity, the containers that these tuples and the objects stand in, and 0 where they are reached without
    one. `collections`, as sets, are not to change while the function is traced. `added` are globals that the trace
    binds, and that were not there before. `assumed` is what a trace takes to stay as it is, `looks` what it has
    looked into, if that is known. What is `closed`, by identity, is not opened, nor are `large` containers without
    tensors, but those whose paths are to be `opened`, or all. Paths that are `restless` lead to
    another value at each call; those in tuples are `passed` by. Lists, sets and deques that are `resized` may have
    other entries behind the trace, and another number of them. What instructions of the program have `written` to, by
    identity with the keys, if only some, and what modules and optimizers keep, is all that the trace changes: if it
    `has_others`, which are threads that run meanwhile, what else changes has been changed by these, and stays.
    """

    leaves: list[Leaf] = field(default_factory=list)
    containers: list[tuple[Entries, str]] = field(default_factory=list)
    objects: list[tuple[Entries, str]] = field(default_factory=list)
    tensors: list[Handle] = field(default_factory=list)
    holders: dict[int, set[int]] = field(default_factory=dict)
    marked: list[object] = field(default_factory=list)
    before: dict[int, dict[object, object]] = field(default_factory=dict)
    collections: list[tuple[Any, str]] = field(default_factory=list)
    names: frozenset[str] = frozenset()
    skipped: Collection[tuple[int, object]] = ()
    closed: Collection[int] = ()
    restless: Collection[str] = ()
    opened: Collection[str] | None = None
    own: frozenset[tuple[int, object]] = frozenset()
    added: list[Leaf] = field(default_factory=list)
    assumed: Assumed = field(default_factory=Assumed)
    looks: Looks | None = None
    resized: set[int] = field(default_factory=set)
    passed: list[tuple[object, str]] = field(default_factory=list)
    large: list[tuple[object, str]] = field(default_factory=list)
    written: dict[int, set[object] | None] = field(default_factory=dict)
    has_others: bool = False

    def add(self, value: object, path: str) -> None:
        """Walks one root."""
        self._walk(value, path, False)

    def bind(self, container: Entries, key: object, path: str) -> None:
        """Takes a variable as a leaf, and walks its value."""
        value = container[key]
        self.leaves.append(Leaf(container, key, value, path, False))
        if path not in self.restless:  # which graphs do not look at
            self.add(value, path)

    def holds_all_of(self, container: object) -> bool:
        """Whether a list or dict is part of the state with all that it holds."""
        return id(container) in self.before and not any(container is variables for variables, _ in self.objects)

    def reached_tensors(self) -> set[int]:
        """The tensors that stand in containers, tuples and variables, by identity."""
        held = [leaf.value for leaf in self.leaves if issubclass(type(leaf.value), Handle)]
        return {id(tensor) for tensor in (*self.tensors, *held)}

    def is_added(self, variables: object, name: object) -> bool:
        """Whether the trace has bound a global that was not there before."""
        return any(leaf.container is variables and leaf.key == name for leaf in self.added)

    def begin_variable(self, variables: dict[str, object], name: str, path: str) -> None:
        """Takes note of a global that the trace binds, and that each call has to find absent."""
        self.added.append(Leaf(variables, name, MISSING, name, False))
        self.assumed.lacks(variables, name, path)

    def add_variables(self, variables: Sequence[Variable]) -> None:
        """Takes variables that traces have read as leaves, but those that are some already."""
        bound = {(leaf.owner_id, leaf.key) for leaf in self.leaves}
        found = [leaf for variable in variables if (leaf := variable.leaf()) is not None]
        self.leaves += [leaf for leaf in found if (leaf.owner_id, leaf.key) not in bound]

    def add_assumed(self) -> None:
        """Takes the dicts of classes and of defaults as containers that a trace has assumed to stay.

        Objects of the state that may be given another class keep theirs.
        """
        for owner in (*self.marked, *[leaf.value for leaf in self.leaves if not leaf.unread]):
            if _may_change_class(owner):
                self.assumed.has_class(owner)
        known = {id(container) for container, _ in self.containers}
        for container, path, whole in self.assumed.containers():
            if id(container) in known:
                continue
            self.before[id(container)] = entries_of(container)
            self.containers.append((container, path))
            for name, value in container.items():
                read = whole or says_what_attributes_are(value)
                entry = f"{path}.{name}"
                self.leaves.append(Leaf(container, name, value if read else None, entry, False, unread=not read))

    def keep_only(self, reached: Collection[int]) -> None:
        """Forgets other containers, by identity, and the leaves in them."""
        self.containers = [container for container in self.containers if id(container[0]) in reached]
        self.objects = [row for row in self.objects if id(row[0]) in reached]
        self.collections = [collection for collection in self.collections if id(collection[0]) in reached]
        forgotten = self.before.keys() - reached
        self.leaves = [leaf for leaf in self.leaves if id(leaf.container) not in forgotten]

    def writes(self, container: int, key: object = MISSING) -> bool:
        """Takes note that the program writes to a container or variable, by identity: to one entry, or to any. True."""
        keys = self.written.setdefault(container, set())
        if key is MISSING:
            self.written[container] = None
        elif keys is not None:
            keys.add(key)
        return True

    def is_of_others(self, container: int, key: object = MISSING) -> bool:
        """Whether other threads make all changes of a container or variable, by identity, or of one entry."""
        if not self.has_others or self.looks is None or container in self.looks.kept:
            return False
        keys = self.written.get(container, ())
        return keys is not None and (not keys or (key is not MISSING and key not in keys))

    def own_containers(self) -> Iterator[tuple[Entries, str, dict[object, object]]]:
        """Containers that the trace may have changed, with their entries but for what others have changed."""
        for container, path in (*self.containers, *self.objects):
            if self.is_of_others(id(container)):
                continue
            entries, keys = entries_of(container), self.written.get(id(container))
            if self.has_others and keys is not None:
                before = self.before[id(container)]
                now = {key: entries[key] for key in keys if key in entries}
                entries = {key: value for key, value in before.items() if key not in keys or key in now} | now
            yield container, path, entries

    def refuse_changes(self) -> None:
        """C003 for what changed and cannot be written down as entries: the length of a list, sets and their like."""
        for container, path, entries in self.own_containers():
            before, now = self.before[id(container)], len(entries)
            if isinstance(container, list) and now != len(before) and id(container) not in self.resized:
                fail(
                    "C003",
                    f"compile: the list {path} had {len(before)} entries before the traced call and has {now}",
                    hint="return the value, and append it outside of the compiled function",
                )
        for container, path in self.changed_collections():
            if id(container) not in self.resized:
                fail(
                    "C003",
                    f"compile: the {type(container).__name__} {path} changes in the compiled function",
                    hint="return the value, and add it outside of the compiled function",
                )

    def changed_collections(self) -> Iterator[tuple[Any, str]]:
        """Those that hold other objects than they did."""
        for container, path in self.collections:
            if not self.is_of_others(id(container)) and differs(container, tuple(self.before[id(container)].values())):
                yield container, path

    def restore(self) -> None:
        """Gives everything that was reached the entries that it had, in their order."""
        for leaf in self.leaves:
            if self.is_of_others(leaf.owner_id, leaf.key):
                leaf.take_back()
            elif id(leaf.container) not in self.before and leaf.now() is not leaf.value:
                leaf.container[leaf.key] = leaf.value
        for leaf in self.added:
            if isinstance(leaf.container, dict):
                leaf.container.pop(leaf.key, None)
        for container, _, entries in self.own_containers():
            restore(container, self.before[id(container)], entries)
        for container, _ in self.changed_collections():
            container.clear()
            (container.update if isinstance(container, set) else container.extend)(self.before[id(container)].values())

    def _walk(self, root: object, root_path: str, root_runtime: bool) -> None:
        stack: list[tuple[Any, str, bool, int]] = [(root, root_path, root_runtime, 0)]
        while stack:
            value, path, runtime, holder = stack.pop()
            kind = type(value)  # `isinstance` would ask the object
            mark = None if issubclass(kind, _NO_STATE) else getattr(kind, MARK, None)
            if mark is not None:
                self.marked.append(value)
                value, runtime = vars(value), mark == "runtime"
                items = self._opened(value, path, ".{}", self.containers)
            elif issubclass(kind, (dict, list)):
                items = self._opened(value, path, "[{}]", self.containers)
            elif issubclass(kind, tuple):
                items = self._of_tuple(value, path, holder)
            elif issubclass(kind, _COLLECTIONS):
                items = self._opened(value, path, "", self.collections)
            elif kind in (MethodType, BuiltinFunctionType, MethodWrapperType):
                stack.append((value.__self__, f"{path}.__self__", runtime, holder))
                continue
            elif kind is MappingProxyType:
                shown = [part for part in get_referents(value) if type(part) is dict and "__module__" not in part]
                stack += [
                    (part, path, runtime, holder) for part in shown
                ]  # none of classes, whose attributes are looked up
                continue
            elif kind in _PARTS:
                given = [(name, getattr(value, name)) for name in _PARTS[kind]]
                stack += [(part, f"{path}.{name}", runtime, holder) for name, part in given]
                continue
            elif not issubclass(kind, _NO_STATE) and (variables := variables_of(value)) is not None:
                value = variables
                self.holders.setdefault(id(value), set()).add(holder)
                items = self._opened(value, path, ".{}", self.objects)
            else:
                continue
            within = holder if issubclass(kind, tuple) else id(value)
            for key, entry, entry_path in items:
                if issubclass(type(value), (dict, list)):
                    self.leaves.append(Leaf(value, key, entry, entry_path, runtime))
                unread = entry_path in self.restless and mark is None
                if type(entry) not in PLAIN and (id(value), key) not in self.skipped and not unread:
                    stack.append((entry, entry_path, runtime, within))
                elif unread:
                    self.passed.append((entry, entry_path))

    def _opened(
        self, container: _Opened, path: str, form: str, kind: list[tuple[_Opened, str]]
    ) -> Iterator[tuple[object, object, str]]:
        if id(container) in self.closed or (id(container) in self.before and not self._opens_all(container, kind)):
            return
        if self.opened is not None and path not in self.opened and kind is not self.objects and _is_large(container):
            self.large.append((container, path))
            return
        known: Collection[object] = self.names if id(container) in self.before else ()
        entries = self.before[id(container)] = entries_of(container)
        kind.append((container, path))
        for key, element in entries.items() if not issubclass(type(container), bytearray) else ():
            if key not in known and (kind is not self.objects or key in self.names):
                yield key, element, path + form.format(key if form == ".{}" else _key_text(key))

    def _opens_all(self, variables: object, kind: object) -> bool:
        """Whether variables of an object, of which some count, are reached as a dict, of which all do."""
        known = [row for row in self.objects if row[0] is variables] if kind is self.containers else []
        for row in known:
            self.objects.remove(row)
        return bool(known)

    def _of_tuple(self, value: tuple[object, ...], path: str, holder: int) -> Iterator[tuple[object, object, str]]:
        for index, entry in enumerate(value):
            if issubclass(type(entry), Handle) and isinstance(entry, Handle):
                self.tensors.append(entry)
                self.holders.setdefault(id(entry), set()).add(holder)
            yield index, entry, f"{path}[{index}]"


def _is_large(container: object) -> bool:
    """Whether a container holds much, and no tensor or module among the first."""
    if type(container) not in _SIZED or not isinstance(container, Collection) or len(container) <= _MANY:
        return False
    kinds = set(map(type, first_of(container, _FIRST)))
    return not any(issubclass(kind, Handle) or hasattr(kind, MARK) for kind in kinds)


def variables_of(value: object) -> dict[str, object] | None:
    """The `__dict__` of an object, unasked where its class has a `__getattribute__` of its own."""
    try:
        return object.__getattribute__(value, "__dict__")
    except AttributeError:
        return None


def _may_change_class(value: object) -> bool:
    kind = type(value)
    return bool(kind.__flags__ & HEAP_TYPE) and not issubclass(kind, (Handle, type))


def is_walked(value: object) -> bool:
    """Whether a value is a tensor, or may change in itself."""
    walk = StateWalk(opened=())
    walk.add(value, "")
    return issubclass(type(value), Handle) or bool(walk.before or walk.large or walk.tensors)


def _key_text(key: object) -> str:
    return f"tensor at {id(key):#x}" if isinstance(key, Handle) else repr(key)


def walk_function(
    function: object,
    arguments: list[tuple[str, object]],
    skipped: Collection[tuple[int, object]] = (),
    closed: Collection[int] = (),
    restless: Collection[str] = (),
    opened: Collection[str] | None = None,
) -> StateWalk:
    """What a function reaches, but through `skipped` leaves (the container's identity, and the key).

    What is in containers that are `closed`, by identity, is not reached through these, nor that to which `restless`
    paths lead, nor what large ones hold whose paths are not `opened`.

    Itself, its bound object, its closure, its defaults, the globals in its code, arguments; of functions that it may
    call plain values alone.
    """
    roots, bound = code_roots(function)
    names = frozenset([name for root in roots for name in names_in(root.__code__)])
    without = skipped, closed, restless, opened
    walk = _walked(roots, bound, arguments, names, without)
    values = [leaf.value for leaf in walk.leaves]
    classes = {type(instance): None for instance in [*walk.marked, *values]}
    functions = [value for value in values if issubclass(type(value), (FunctionType, MethodType, partial))]
    reach = ReachableGlobals([*roots, *classes, *functions])
    if walk.objects and not reach.names <= walk.names:
        walk = _walked(roots, bound, arguments, walk.names | reach.names, without)
    _bind_plain(walk, reach, roots)
    walk.own = frozenset(_own_variables(roots, reach))
    return walk


def code_roots(function: object) -> tuple[Sequence[FunctionType], object]:
    """The functions whose code is traced, and the object that the first one is bound to."""
    if isinstance(function, Traced):
        return function.roots(), None
    bound = function.__self__ if isinstance(function, MethodType) else None
    code_of = function.__func__ if isinstance(function, MethodType) else function
    if not isinstance(code_of, FunctionType):
        code_of = getattr(type(function), "forward", None) or vars(type(function)).get("__call__")
        bound = function
    return [code_of] if isinstance(code_of, FunctionType) else [], bound


def _walked(
    roots: Sequence[FunctionType],
    bound: object,
    arguments: list[tuple[str, object]],
    names: frozenset[str],
    without: tuple[Collection[tuple[int, object]], Collection[int], Collection[str], Collection[str] | None],
) -> StateWalk:
    skipped, closed, restless, opened = without
    walk = StateWalk(names=names, skipped=skipped, closed=closed, restless=restless, opened=opened)
    named: set[tuple[int, str]] = set()
    for root in roots:
        for name, cell in zip(root.__code__.co_freevars, root.__closure__ or (), strict=True):
            if _is_filled(cell) and (id(cell), 0) not in skipped:
                walk.bind(CellBox(cell), 0, name)
        for name in variables_in(root.__code__):
            if (id(root.__globals__), name) in named or (id(root.__globals__), name) in skipped:
                continue
            named.add((id(root.__globals__), name))
            if not issubclass(type(root.__globals__.get(name, walk)), (ModuleType, StateWalk)):
                walk.bind(root.__globals__, name, name)
        walk.add(root.__defaults__ or (), "defaults")
    walk.add(bound, "self")
    for name, value in arguments:
        walk.add(value, name)
    return walk


def _own_variables(roots: Sequence[FunctionType], reach: ReachableGlobals) -> Iterator[tuple[int, object]]:
    """The globals and cells that only the roots' own code names, and no function within or beside it."""
    others = [function for function in reach.functions if not any(function is root for root in roots)]
    held = {id(cell) for function in others for cell in function.__closure__ or ()}
    named = {(id(other.__globals__), name) for other in others for name in variables_in(other.__code__)}
    for root in roots:
        inner = [constant for constant in root.__code__.co_consts if isinstance(constant, CodeType)]
        within = {name for code in inner for name in (*variables_in(code), *code.co_freevars)}
        own = globals_in(root.__code__)
        if not _ASKS_BY_NAME.isdisjoint(own):
            continue
        if is_of_users(module_of_globals(root.__globals__)):  # of others no reads are noted
            yield from {(id(root.__globals__), name) for name in own if name not in within} - named
        for name, cell in zip(root.__code__.co_freevars, root.__closure__ or (), strict=True):
            if name not in within and id(cell) not in held:
                yield id(cell), 0


def _bind_plain(walk: StateWalk, reach: ReachableGlobals, roots: Sequence[FunctionType]) -> None:
    """Takes the plain values as leaves that functions find in their globals and closures."""
    bound = {(id(leaf.container), leaf.key) for leaf in walk.leaves}
    for space, name, path in reach.variables():
        if _is_plain(space[name]) and (id(space), name) not in bound:
            walk.bind(space, name, path)
    for function in reach.functions:
        if function not in roots:
            for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
                if _is_filled(cell) and _is_plain(cell.cell_contents):
                    walk.bind(CellBox(cell), 0, f"{function.__name__}.{name}")


def _is_plain(value: object) -> bool:
    return type(value) in PLAIN or (type(value) is tuple and all(type(element) in PLAIN for element in value))


def walk_prepared(
    function: object,
    arguments: list[tuple[str, object]],
    undo: list[Callable[[], None]] | None = None,
    restless: Collection[str] = (),
    opened: Collection[str] | None = None,
) -> StateWalk:
    """What a function reaches, once that is ready for it. What takes back how it was made ready is added to `undo`."""
    walk = walk_function(function, arguments, restless=restless, opened=opened)
    prepared = [getattr(instance, PREPARE) for instance in walk.marked if hasattr(type(instance), PREPARE)]
    for prepare in prepared:
        prepare([] if undo is None else undo)
    return walk_function(function, arguments, restless=restless, opened=opened) if prepared else walk


def _is_filled(cell: CellType) -> bool:
    try:
        return cell.cell_contents is not MISSING
    except ValueError:
        return False

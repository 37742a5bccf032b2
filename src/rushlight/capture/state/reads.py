"""Which attributes of modules a function reads while it is traced: what it does not read is not guarded."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable, Set

from rushlight.capture.state.looks import CONTAINERS, Looks
from rushlight.capture.state.places import Leaf
from rushlight.capture.state.reachable import MARK, PLAIN, StateWalk, variables_of
from rushlight.eager.handle import Handle

_LOCK = threading.Lock()
_watchers: dict[type, set[Reads]] = {}
_active: dict[int, Reads] = {}
_REGISTRY = (
    "rushlight.nn.tree.registry"  # it looks for parameters, buffers and modules in `__dict__`, and for nothing else
)

_WALKING = "rushlight.capture.state."  # what goes through `__dict__` to know what is there
_TRACING = "rushlight.capture."  # what reads attributes for the program


class Reads:
    """Records which attributes of a walk's static modules this thread reads, from `enter` to `leave`.

    Of optimizers and schedules it records that something was read. Where some state is restless, what is not
    interpreted looks into what it reads, of these too.
    """

    def __init__(self, walk: StateWalk) -> None:
        self._walk = walk
        self._owners = {id(vars(owner)): owner for owner in walk.marked if getattr(type(owner), MARK) == "static"}
        self._classes = {_marked_class(type(owner)) for owner in walk.marked}
        self._seen: set[int] = set()  # owners of which anything was read
        self._names: dict[int, set[str]] = {}
        self._by_us: dict[int, set[str]] = {}  # those that were read by what is not interpreted
        self._whole: set[int] = set()

    def enter(self) -> None:
        """Begins to note."""
        _active[threading.get_ident()] = self
        with _LOCK:
            for cls in self._classes:
                _watchers.setdefault(cls, set()).add(self)
                cls.__getattribute__ = _noted  # pyright: ignore[reportAttributeAccessIssue] - taken away again

    def leave(self) -> None:
        """Stops recording. An interrupted call may be repeated."""
        _active.pop(threading.get_ident(), None)
        with _LOCK:
            for cls in self._classes:
                watchers = _watchers.get(cls, set())
                watchers.discard(self)
                if not watchers and "__getattribute__" in vars(cls):
                    del cls.__getattribute__

    def note(self, owner: object, name: str, reader: str) -> None:
        """An attribute is read, by code of the module `reader`."""
        if name not in ("__dict__", "__class__") or (name == "__dict__" and not reader.startswith(_WALKING)):
            self._seen.add(id(owner))
        if name != "__dict__":
            self._names.setdefault(id(owner), set()).add(name)
            if not reader.startswith(_TRACING):
                self._by_us.setdefault(id(owner), set()).add(name)
                self._looks_into(owner, name)
        elif reader != _REGISTRY and not reader.startswith(_WALKING):
            self._whole.add(id(owner))
            self._looks_into(owner)

    def _looks_into(self, owner: object, *names: str) -> None:
        """Has the trace end where what is not interpreted reads restless state: all of it without names."""
        looks, variables = self._walk.looks, variables_of(owner)
        if looks is not None and looks.restless and variables is not None:
            looks.into_variables(variables, names or tuple(variables))

    def has_read(self, leaf: Leaf) -> bool:
        """Whether an attribute of a module was read."""
        owner = self._owners.get(id(leaf.container))
        return owner is not None and (id(owner) in self._whole or leaf.key in self._names.get(id(owner), ()))

    def may_have_found(self, container: int) -> bool:
        """Whether anything was read of the modules that keep a container, by identity, if any do."""
        looks = self._walk.looks
        owners = None if looks is None else looks.kept.get(container)
        return owners is None or not owners.isdisjoint(self._seen)

    def are_ours(self, leaf: Leaf) -> bool:
        """Whether an attribute of a module was read by what is not interpreted."""
        owner = self._owners.get(id(leaf.container))
        if owner is None:
            return False
        return id(owner) in self._whole or leaf.key in self._by_us.get(id(owner), ())

    def leaves_out(self, leaf: Leaf) -> bool:
        """Whether a leaf is an attribute that was not read; tables of parameters and of modules always are."""
        owner = self._owners.get(id(leaf.container))
        if owner is None or id(owner) in self._whole or (leaf.key[0] == "_" and isinstance(leaf.value, dict)):
            return False
        return leaf.key not in self._names.get(id(owner), ())


def _marked_class(cls: type) -> type:
    return next(base for base in cls.__mro__ if MARK in vars(base))


def _noted(self: object, name: str) -> object:
    """What reads an attribute of an instance meanwhile."""
    reads = _active.get(threading.get_ident())
    if reads is not None:
        reads.note(self, name, sys._getframe(1).f_globals.get("__name__", ""))
    return object.__getattribute__(self, name)


def forget_unread(walk: StateWalk, reads: Reads, written: set[int], again: Callable[..., StateWalk]) -> None:
    """Takes out of a walk what the function reaches only through attributes that it did not read.

    And what is only in lists, dicts and sets that it did not look into. `written` are the containers that it writes to,
    by identity; `again` walks as before, but past some leaves, and not into containers that stay closed.
    """
    skipped: set[tuple[int, object]] = set()
    values: set[int] = set()
    deep = False
    variables = set() if walk.looks is None else walk.looks.unread
    for leaf in walk.leaves:
        restless = leaf.path in walk.restless and not reads.has_read(leaf)
        if restless or reads.leaves_out(leaf) or (leaf.owner_id, leaf.key) in variables:
            leaf.unread = True
            skipped.add((leaf.owner_id, leaf.key))
            values.add(id(leaf.value))
            deep = deep or (type(leaf.value) not in PLAIN and not issubclass(type(leaf.value), (Handle, set)))
    values -= {id(leaf.value) for leaf in walk.leaves if not leaf.unread}
    walk.collections = [collection for collection in walk.collections if id(collection[0]) not in values]
    closed = _closed(walk, reads, written)
    if deep or closed:
        walk.keep_only(again(skipped, closed).before.keys() | written)


def looks_of(walk: StateWalk) -> Looks:
    """What a trace has looked into, which is about to begin: nothing.

    Of what modules and optimizers keep, only that may stay closed which the program may have given a module.
    """
    containers = [container for container, _ in (*walk.containers, *walk.collections)]
    kinds = {id(container) for container in containers if issubclass(type(container), CONTAINERS)}
    kept = _kept_by_us(walk, _given_to_modules(walk))
    closed = kinds - kept.keys()
    marked = {id(owner) for owner in walk.marked}
    hidden = _hidden(walk, closed | kept.keys())
    large = {id(container): path for container, path in walk.large if id(container) not in walk.before}
    closed |= large.keys()
    restless = _restless(walk, closed) if walk.restless else {}
    return Looks(closed, marked, hidden, kept, walk.own, {**restless, **large}, frozenset(large.values()))


def _restless(walk: StateWalk, closed: set[int]) -> dict[object, str]:
    """The paths of variables and containers of the state that are, or hold, others at each call.

    These containers are `closed` then, also where modules keep them.
    """
    leaves = [leaf for leaf in walk.leaves if leaf.path in walk.restless]
    found: dict[object, str] = {(leaf.owner_id, leaf.key): leaf.path for leaf in leaves}
    variables = {id(vars(owner)) for owner in walk.marked}
    containers = [(container, path) for container, path in (*walk.containers, *walk.collections)]
    containers = [(container, path) for container, path in containers if path in walk.restless]
    containers += [(leaf.value, leaf.path) for leaf in leaves] + walk.passed
    closed |= {id(container) for container, _ in walk.passed if issubclass(type(container), CONTAINERS)}
    found |= {id(container): path for container, path in containers if id(container) in closed}
    held = {id(container) for container, _ in walk.containers} - variables
    items = {leaf.owner_id: leaf.path for leaf in leaves if leaf.owner_id in held}
    closed.update(items)
    return found | items


def _hidden(walk: StateWalk, closed: Set[int]) -> dict[int, set[int]]:
    """The tensors that stand in closed containers, or those of modules, alone, and in which, by identity."""
    holders = {id(tensor): set(walk.holders[id(tensor)]) for tensor in walk.tensors}
    for leaf in walk.leaves:
        if issubclass(type(leaf.value), Handle):
            holders.setdefault(id(leaf.value), set()).add(leaf.owner_id)
    for held in holders.values():
        _lead_out_of_objects(held, walk)
    return {key: held for key, held in holders.items() if held <= closed}


def _lead_out_of_objects(held: set[int], walk: StateWalk) -> None:
    """Puts the containers that objects stand in into the place of these."""
    seen = set[int]()
    while objects := held & walk.holders.keys():
        seen |= objects
        held -= objects
        held |= {holder for each in objects for holder in walk.holders[each]} - seen


def _closed(walk: StateWalk, reads: Reads, written: set[int]) -> Set[int]:
    """The containers that the trace did not look into, nor any code of ours."""
    closed = set() if walk.looks is None else (walk.looks.closed & walk.before.keys()) - written
    if closed:
        closed -= _kept_by_us(walk, [leaf for leaf in _given_to_modules(walk) if not reads.are_ours(leaf)]).keys()
    return closed


def _given_to_modules(walk: StateWalk) -> list[Leaf]:
    """The attributes of modules that are none of their tables."""
    modules = {id(vars(owner)) for owner in walk.marked if getattr(type(owner), MARK) == "static"}
    leaves = [leaf for leaf in walk.leaves if id(leaf.container) in modules]
    return [leaf for leaf in leaves if leaf.key[0] != "_" or not issubclass(type(leaf.value), (dict, set))]


def _kept_by_us(walk: StateWalk, own: Iterable[Leaf]) -> dict[int, set[int]]:
    """What modules and optimizers keep but in their `own` attributes, with who does so, all by identity."""
    skipped = {(id(leaf.container), leaf.key) for leaf in own}
    variables = {id(vars(owner)) for owner in walk.marked}
    found: dict[int, set[int]] = {}
    for owner in walk.marked:
        ours = StateWalk(names=walk.names, skipped=skipped, closed=variables)
        for name, value in vars(owner).items():
            if type(value) not in PLAIN and (id(vars(owner)), name) not in skipped:
                ours.add(value, "")
        for container in (id(vars(owner)), *ours.before):
            found.setdefault(container, set()).add(id(owner))
    return found

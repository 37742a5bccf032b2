"""Places of a function's state: containers, the entries in them, and variables."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection
from dataclasses import dataclass
from itertools import islice
from operator import is_, is_not
from types import CellType, FunctionType, MemberDescriptorType
from typing import Any, NamedTuple, Protocol

from rushlight.capture.interpreter.slots import lookup
from rushlight.eager.tracing import TracedNumber

MISSING = object()


class Entries(Protocol):
    """What holds values by key and can be assigned to: a dict, a list, a CellBox."""

    def __len__(self) -> int: ...

    def __getitem__(self, key: Any, /) -> Any: ...

    def __setitem__(self, key: Any, value: Any, /) -> None: ...


@dataclass(slots=True)
class Leaf:
    """A value in a container.

    `path` names it in messages. If `runtime`, a number is known only at run time. `stand_in` takes its place while a
    function is traced. If `type_only`, the program depends only on the value's type; if `unread`, not on the value.
    """

    container: Entries
    key: Any
    value: Any
    path: str
    runtime: bool
    stand_in: object = None
    type_only: bool = False
    unread: bool = False

    @property
    def owner_id(self) -> int:
        """What tells the container, or the cell, from others."""
        container = self.container
        if isinstance(container, CellBox):
            return id(container.cell)
        return id(container.owner if isinstance(container, (ClassBox, SlotBox)) else container)

    def substitute(self, value: object) -> None:
        """Puts a stand-in in its place."""
        self.stand_in = value
        _set_entry(self.container, self.key, value)

    def substitute_number(self, number: TracedNumber) -> None:
        """Puts a number that is known only at run time in its place, which other threads may have changed."""
        self.runtime, now = True, self.now()
        if type(now) is type(self.value):
            self.value = number.value = now
        self.substitute(number)

    def take_back(self) -> None:
        """Takes its stand-in away, if nobody has put anything else into its place."""
        if self.stand_in is not None and self.now() is self.stand_in:
            _set_entry(self.container, self.key, self.value)

    def now(self) -> object:
        """The value in its place, MISSING if there is none."""
        try:
            return _entry(self.container, self.key)
        except (KeyError, ValueError):
            return MISSING

    def text(self, names: Callable[[object], str]) -> str:
        """Its place in the text of an entry's function, which calls objects by `names`."""
        key = repr(self.key) if type(self.key) in (int, str) else names(self.key)
        kind = type(self.container)
        if issubclass(kind, (dict, list)) and type(lookup(kind, "__getitem__")) is FunctionType:
            getter = dict.__getitem__ if issubclass(kind, dict) else list.__getitem__
            return f"{names(getter)}({names(self.container)}, {key})"
        return f"{names(self.container)}[{key}]"

    @property
    def is_number(self) -> bool:
        """Whether it is a number."""
        return type(self.value) in (int, float)

    @property
    def is_numbers(self) -> bool:
        """Whether it is a tuple of numbers, such as Adam's betas."""
        return type(self.value) is tuple and all(type(number) in (int, float) for number in self.value)


class CellBox:
    """A closure's variable as a container of one value, under the key 0."""

    __slots__ = ("cell",)

    def __init__(self, cell: CellType) -> None:
        self.cell = cell

    def __len__(self) -> int:
        return 1

    def __getitem__(self, key: int) -> object:
        return self.cell.cell_contents

    def __setitem__(self, key: int, value: object) -> None:
        self.cell.cell_contents = value


class ClassBox:
    """The attributes that a class itself has as a container."""

    __slots__ = ("owner",)

    def __init__(self, owner: type) -> None:
        self.owner = owner

    def __len__(self) -> int:
        return len(vars(self.owner))

    def __getitem__(self, key: str) -> object:
        return vars(self.owner)[key]

    def __setitem__(self, key: str, value: object) -> None:
        setattr(self.owner, key, value)


class SlotBox:
    """An object's slot as a container of one value, under the slot's name."""

    __slots__ = ("owner", "slot")

    def __init__(self, owner: object, slot: MemberDescriptorType) -> None:
        self.owner = owner
        self.slot = slot

    def __len__(self) -> int:
        return 1

    def __getitem__(self, key: str) -> object:
        try:
            return self.slot.__get__(self.owner)
        except AttributeError as empty:
            raise KeyError(key) from empty

    def __setitem__(self, key: str, value: object) -> None:
        self.slot.__set__(self.owner, value)


class Variable(NamedTuple):
    """A variable that a trace has read and that no name in the function's code told of."""

    container: Entries
    key: Any
    path: str

    def leaf(self) -> Leaf | None:
        """The variable with its value; None if it has none."""
        leaf = Leaf(self.container, self.key, None, self.path, False)
        leaf.value = leaf.now()
        return None if leaf.value is MISSING else leaf


def entries_of(container: Any) -> dict[object, object]:
    """The entries of a container, by key or by place, as C has them: methods of the program's are not asked.

    They are taken in one step, whatever other threads do.
    """
    if isinstance(container, OrderedDict):
        return {key: dict.__getitem__(container, key) for key in [*OrderedDict.__iter__(container)]}
    if isinstance(container, dict):
        return dict.copy(container)
    return dict(enumerate(list.__iter__(container) if isinstance(container, list) else container))


def kind_of(container: dict[Any, Any]) -> type[dict[Any, Any]]:
    """The class of C that has the order of a dict."""
    return OrderedDict if isinstance(container, OrderedDict) else dict


def _entry(container: Any, key: Any) -> object:
    """One entry. Errors: KeyError."""
    if isinstance(container, list):
        return list.__getitem__(container, key)
    if not isinstance(container, dict):
        return container[key]
    if not dict.__contains__(container, key):  # a class may make what is missing
        raise KeyError(key)
    return dict.__getitem__(container, key)


def _set_entry(container: Any, key: Any, value: object) -> None:
    if isinstance(container, dict):
        kind_of(container).__setitem__(container, key, value)
    elif isinstance(container, list):
        list.__setitem__(container, key, value)
    else:
        container[key] = value


def differs(container: Collection[object], before: tuple[object, ...]) -> bool:
    """Whether a collection has other objects, or the same in another order."""
    return len(container) != len(before) or any(map(is_not, container, before))


def restore(container: Any, before: dict[object, object], now: dict[object, object] | None = None) -> None:
    """Gives a container the entries that it had, in their order. What it has beside those in `now` stays."""
    if not isinstance(container, dict):
        list.__setitem__(container, slice(None), [*before.values()])
        return
    now = entries_of(container) if now is None else now
    for key in [key for key in now if key not in before]:
        kind_of(container).pop(container, key, None)
        del now[key]
    if len(now) == len(container) and not (all(map(is_, now, before)) and len(now) == len(before)):
        now.clear()
        kind_of(container).clear(container)
    for key, value in before.items():
        if now.get(key, MISSING) is not value:
            _set_entry(container, key, value)


def first_of(container: Collection[object], most: int) -> list[object]:
    """What a container of C holds first, of a dict keys and values, without a copy of it."""
    found = [*islice(container, most)]
    return [*found, *islice(container.values(), most)] if isinstance(container, dict) else found

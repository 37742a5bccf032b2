"""Reads rows back: objects that are made anew, and those that stand where the rows say, if they are alike.

Nothing that is read is called but what `_RULES` lists; the text of the entry's function is Python's, as compiled code
is the processor's: both are of whoever may write to the cache.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from types import CodeType
from typing import Any

from rushlight.build.native import stored_executable
from rushlight.capture.backward import BackwardPart
from rushlight.capture.entry.entry import Planner
from rushlight.capture.entry.writer import snapshot_guards
from rushlight.capture.guard import is_same
from rushlight.capture.hooks import NO_HOOKS, HookGuard
from rushlight.capture.state.assumed import Part
from rushlight.capture.state.places import Leaf
from rushlight.capture.state.snapshot import Snapshot, StateGuards
from rushlight.capture.stored.digests import code_digest, function_digest
from rushlight.capture.stored.encoding import OF_FIELDS, code_in, maker_name
from rushlight.capture.stored.exits import read_exit
from rushlight.capture.stored.order import StoredOrder
from rushlight.capture.stored.places import follow, named
from rushlight.eager.tensor_meta import TensorMeta, form_of_type
from rushlight.ir.dtype import BY_NAME
from rushlight.ir.graph import PARAMETER, Call, ValueAssert
from rushlight.ir.spec.leaf import FloatSpec, IntSpec
from rushlight.ops.record import OPERATORS
from rushlight.sym import Scope, parse_size

_MAKERS: Mapping[str, Callable[..., object]] = {
    **{maker_name(made): made for made in OF_FIELDS},
    maker_name(TensorMeta): form_of_type,
}
_PARTS = frozenset({"plans", "known", "backing", "version"})


class Unfit(Exception):
    """What stands in this process is not what an entry was made for: this differs."""


class Decoder:
    """The objects of rows. `roots` are the function and the arguments' leaves, by name; sizes are those of a scope."""

    def __init__(self, roots: Mapping[str, object], scope: Scope | None = None) -> None:
        self.roots = roots
        self.scope = Scope() if scope is None else scope
        self.objects: list[Any] = []
        self._places: dict[int, int] = {}  # which row an object was found by that is told by its place
        self._groups: dict[int, object] = {}  # the storages of tensors, by the number that stands for each

    def read(self, rows: Sequence[Sequence[Any]]) -> None:
        """Makes or finds all objects. Errors: Unfit."""
        try:
            for kind, *parts in rows:
                self.objects.append(_RULES[kind](self, *parts))
        except (LookupError, AttributeError, ValueError, TypeError) as missing:
            raise Unfit(f"nothing stands where it stood: {missing}") from missing

    def all(self, rows: Sequence[int]) -> list[Any]:
        """The objects of rows."""
        return [self.objects[row] for row in rows]

    def root(self, name: str) -> object:
        """The function, or a leaf of the arguments."""
        return self._told(self.roots[name])

    def place(self, owner: int, how: str, key: int) -> object:
        """What one step leads to."""
        return self._told(follow(self.objects[owner], how, self.objects[key]))

    def named(self, module: str, path: str) -> object:
        """What stands in a module."""
        return named(module, path)

    def _told(self, value: object) -> object:
        """An object that is told by its place: objects that were two are two."""
        first = self._places.setdefault(id(value), len(self.objects))
        if first != len(self.objects) and type(value) not in (int, str):
            raise Unfit("two objects are one")
        return value

    def of_class(self, row: int, kind: int) -> object:
        """An object of a class."""
        value = self.objects[row]
        if type(value) is not self.objects[kind]:
            raise Unfit(f"a {type(value).__name__}")
        return value

    def digest(self, row: int, digests: list[str]) -> object:
        """A function, or a descriptor of functions, of the same code."""
        value = self.objects[row]
        if [function_digest(each) for each in code_in(value)] != digests:
            raise Unfit(f"the code of {getattr(value, '__qualname__', type(value).__name__)}")
        return value

    def text(self, row: int, text: str) -> object:
        """An object of C that says by its text what it is."""
        value = self.objects[row]
        if f"{type(value).__name__} {value!r}" != text:
            raise Unfit(text)
        return value

    def enum(self, cls: int, name: str, value: int) -> object:
        """A member of an enumeration, of the same value."""
        member: Enum = self.objects[cls][name]
        if not is_same(member.value, self.objects[value]):
            raise Unfit(f"{member}")
        return member

    def alike(self, row: int, kind: int, made: int) -> object:
        """A tuple where it stands, of a class, whose parts are those of another."""
        value = self.objects[row]
        if type(value) is not self.objects[kind] or not is_same(tuple(value), self.objects[made]):
            raise Unfit(f"a {type(value).__name__}")
        return value

    def tensor(self, row: int, kind: int, form: int, facts: list[Any]) -> object:
        """A tensor of the same class, form and flags, whose storage others share as they did."""
        tensor = self.objects[row]
        if type(tensor) is not self.objects[kind]:
            raise Unfit("the class of a tensor")
        now = [tensor.keys, bool(tensor.requires_grad), tensor.offset, tensor.view_of is None]
        if tensor.form is not self.objects[form] or now != facts[:-1]:
            raise Unfit(f"a tensor {tensor.form.type}")
        if self._groups.setdefault(facts[-1], tensor.backing) is not tensor.backing:
            raise Unfit("tensors that shared memory")
        if len({id(storage) for storage in self._groups.values()}) != len(self._groups):
            raise Unfit("tensors that shared no memory")
        return tensor

    def symbol(self, name: str, known: list[Any]) -> object:
        """A size of the entry's own scope."""
        lower, upper, multiple, hint, preferred = known
        return self.scope.symbol(name, hint, lower, upper, multiple, None, preferred)

    def native(self, key: str, inputs: list[int], outputs: list[int], asserts: list[int]) -> object:
        """Compiled code of the cache."""
        made = stored_executable(key, self.all(inputs), self.all(outputs), self.all(asserts))
        if made is None:
            raise Unfit("its code is in the cache no more")
        return made

    def backward(self, layout: int) -> object:
        """What ties a backward pass to results, whose graphs are found one by one."""
        return BackwardPart(self.objects[layout], StoredOrder(self.scope))

    def planner(
        self,
        executable: int,
        sources: list[int],
        guards: list[int],
        asserts: list[int],
        numbers: list[int],
        commits: bool,
    ) -> object:
        """What finds and makes plans."""
        parts = [self.all(rows) for rows in (sources, guards, asserts, numbers)]
        return Planner(self.objects[executable], parts[0], parts[1], parts[2], parts[3], commits)

    def snapshot(
        self,
        containers: list[list[Any]],
        leaves: list[list[Any]],
        tensors: list[int],
        required: list[bool],
        parts: list[list[Any]],
    ) -> Snapshot:
        """Containers, tensors and parts of objects as they are now, if they are as they were."""
        found: list[tuple[Any, str]] = []
        for row, path, kind, count in containers:
            container = self.objects[row]
            if type(container) is not self.objects[kind] or len(container) != count:
                raise Unfit(path)
            found.append((container, path))
        keys = {id(container): iter(container) for container, _ in found if isinstance(container, dict)}
        read = [self._leaf(keys, *leaf) for leaf in leaves]
        snapshot = Snapshot(found, read, self.all(tensors), [self._part(*part) for part in parts])
        if [bool(memory.required) for memory in snapshot.memory] != required or not snapshot.holds():
            raise Unfit("which tensors are to have gradients")
        return snapshot

    def _leaf(
        self,
        keys: Mapping[int, Any],
        row: int,
        key: int,
        value: int | None,
        path: str,
        runtime: bool,
        type_only: bool,
        unread: bool,
    ) -> Leaf:
        container, place = self.objects[row], self.objects[key]
        if id(container) in keys:  # the key's own object is compared at each call
            now = next(keys[id(container)])
            if not is_same(now, place):
                raise Unfit(path)
            place = now
        held = container[place]
        if value is not None:
            wanted = self.objects[value]
            if not (type(held) is wanted if type_only else is_same(held, wanted)):
                raise Unfit(path)
        return Leaf(container, place, held, path, runtime, None, type_only, unread)

    def _part(self, owner: int, name: str, value: Any, path: str) -> Part:
        held = getattr(self.objects[owner], name) if name != "__class__" else type(self.objects[owner])
        same = code_digest(held) == value if isinstance(held, CodeType) else is_same(held, self.objects[value])
        if not same:
            raise Unfit(f"{path}.{name}")
        return Part(self.objects[owner], name, held, path)


def _plain(decoder: Decoder, kind: str, value: Any) -> object:
    if kind == "float":
        return struct.unpack("<d", bytes.fromhex(value))[0]
    if kind == "complex":
        return complex(*struct.unpack("<dd", bytes.fromhex(value)))
    return bytes.fromhex(value) if kind == "bytes" else value


def _made(decoder: Decoder, name: str, parts: list[int]) -> object:
    return _MAKERS[name](*decoder.all(parts))


def _bound(decoder: Decoder, owner: int, name: str) -> object:
    return getattr(decoder.objects[owner], name)


def _part(decoder: Decoder, owner: int, name: str) -> object:
    if name not in _PARTS:
        raise Unfit(name)
    return getattr(decoder.objects[owner], name)


def _hooks(decoder: Decoder, tensors: list[int]) -> object:
    guard = HookGuard(decoder.all(tensors))
    if any(found != NO_HOOKS for _, found in guard.expected):
        raise Unfit("hooks of a tensor")
    return guard


def _assert(decoder: Decoder, parts: list[int]) -> object:
    code, message, size, frame = decoder.all(parts)
    return ValueAssert(_NOTHING, code, message, size, frame)


_NOTHING = Call(PARAMETER, (), (), None)  # of compiled code nobody asks what an assert computes
_RULES: Mapping[str, Callable[..., object]] = {
    "plain": _plain,
    "made": _made,
    "bound": _bound,
    "part": _part,
    "assert": _assert,
    "hooks": _hooks,
    "tuple": lambda decoder, parts: tuple(decoder.all(parts)),
    "list": lambda decoder, parts: decoder.all(parts),
    "number": lambda decoder, name: IntSpec() if name == "IntSpec" else FloatSpec(),
    "dict": lambda decoder, keys, values: dict(zip(decoder.all(keys), decoder.all(values), strict=True)),
    "frozenset": lambda decoder, parts: frozenset(decoder.all(parts)),
    "exit": read_exit,
    "keys": lambda decoder, owner: decoder.objects[owner].keys(),
    "dtype": lambda decoder, name: BY_NAME[name],
    "operator": lambda decoder, name: OPERATORS[name],
    "size": lambda decoder, text: parse_size(text, decoder.scope),
    "state": lambda decoder, row: StateGuards(decoder.objects[row], snapshot_guards),
    "test": lambda decoder, row: decoder.objects[row].test,
    "root": Decoder.root,
    "place": Decoder.place,
    "named": Decoder.named,
    "of": Decoder.of_class,
    "digest": Decoder.digest,
    "text": Decoder.text,
    "enum": Decoder.enum,
    "alike": Decoder.alike,
    "tensor": Decoder.tensor,
    "symbol": Decoder.symbol,
    "native": Decoder.native,
    "planner": Decoder.planner,
    "backward": Decoder.backward,
    "snapshot": Decoder.snapshot,
}

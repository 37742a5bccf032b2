"""Entries as rows: each row makes one object of those before it, so that what is one object stays one.

Values are written as they are; what is told by identity, as modules, tensors and functions, by the place where it
stands. What neither can be done with makes an entry that is not kept (`Unstorable`).
"""

from __future__ import annotations

import enum
import functools
import gc
import struct
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable
from dataclasses import fields
from decimal import Decimal
from fractions import Fraction
from types import (
    BuiltinFunctionType,
    CellType,
    CodeType,
    FunctionType,
    GetSetDescriptorType,
    MemberDescriptorType,
    MethodType,
    ModuleType,
    SimpleNamespace,
)
from typing import Any

import numpy as np

from rushlight.build.executable import NativeExecutable
from rushlight.capture.backward import BackwardPart
from rushlight.capture.entry.entry import Planner
from rushlight.capture.entry.value_guards import FormOf
from rushlight.capture.gradients.joint import BackwardLayout, SegmentPlan
from rushlight.capture.guard import Guard
from rushlight.capture.hooks import NO_HOOKS, HookGuard
from rushlight.capture.resume.blueprint import native_base
from rushlight.capture.resume.continuation import Exit
from rushlight.capture.source import (
    ArgumentSource,
    GradientSource,
    NumberSource,
    OutputSource,
    StateSource,
    TensorSource,
    ViewSource,
)
from rushlight.capture.state.assumed import Part
from rushlight.capture.state.globals import is_of_users, module_of_class, module_of_globals
from rushlight.capture.state.places import CellBox, ClassBox, Leaf
from rushlight.capture.state.reachable import MARK, variables_of
from rushlight.capture.state.snapshot import Snapshot, StateGuards
from rushlight.capture.stored.digests import code_digest, function_digest
from rushlight.capture.stored.exits import Unwritable, exit_row
from rushlight.capture.stored.places import Places, name_of, names_of_ours
from rushlight.eager.handle import Handle
from rushlight.eager.tensor_meta import TensorMeta
from rushlight.ir.dtype import DType
from rushlight.ir.graph import ValueAssert
from rushlight.ir.spec.leaf import FloatSpec, IntSpec
from rushlight.ir.spec.propose import Observed
from rushlight.ir.type import Device, TensorType
from rushlight.ops.record import OPERATORS, Operator
from rushlight.runtime.generator import Generator
from rushlight.support.provenance import Frame
from rushlight.sym import Condition, RuntimeAssert, Scope, SizeExpr, format_size, free_symbols, is_axis, simplify
from rushlight.sym import Guard as SizeGuard
from rushlight.sym.report import ConditionReport, GraphShapes, OpenReport, SymbolReport

Row = list[Any]
OF_FIELDS: dict[type, tuple[str, ...]] = {
    Guard: ("kind", "path", "expected", "failed"),
    SizeGuard: ("condition", "frame", "reason"),
    RuntimeAssert: ("condition", "frame", "message"),
    ArgumentSource: ("position",),
    TensorSource: ("tensor",),
    StateSource: ("name", "text"),
    GradientSource: ("owner", "form"),
    NumberSource: ("text", "dtype"),
    OutputSource: ("position",),
    ViewSource: ("base", "steps", "recorded"),
    TensorType: ("shape", "dtype", "device", "strides", "weak"),
    Device: ("type", "index"),
    Condition: ("relation", "expr"),
    Frame: ("filename", "line", "function"),
    TensorMeta: ("type",),
    FormOf: ("type",),
    CellBox: ("cell",),
    ClassBox: ("owner",),
    slice: ("start", "stop", "step"),
    range: ("start", "stop", "step"),
    **{
        kind: tuple([field.name for field in fields(kind)])
        for kind in (BackwardLayout, SegmentPlan, GraphShapes, SymbolReport, ConditionReport, OpenReport)
    },
}
"""Classes whose objects are made of the values of some attributes."""
# What is compared by identity where it stands; of the containers among them other guards tell what is in them.
_PLACED = frozenset(
    {dict, list, set, deque, bytearray, defaultdict, OrderedDict, CellType, Generator}
    | {SimpleNamespace, property, enum.property, staticmethod, classmethod, functools.partial, MethodType, FunctionType}
    | {GetSetDescriptorType, MemberDescriptorType, functools.cached_property}
)
_PARTS: dict[type, tuple[str, ...]] = {
    Planner: ("plans",),
    FormOf: ("known",),
}  # attributes of what is made anew that an entry names too

# Values that tell by their text what they are; where one stands, it is told from others by identity.
_SHOWN = (range, slice, complex, np.generic, np.dtype, Fraction, Decimal)


def maker_name(kind: type) -> str:
    """By which name rows call a class of `OF_FIELDS`: two are called Guard."""
    return "SizeGuard" if kind is SizeGuard else kind.__name__


class Unstorable(Exception):
    """An entry cannot be written, for this reason."""


class Encoder:
    """Rows for the objects of one entry. `tensors` are those whose storages and versions it may name.

    If it `names_symbols`, sizes are those of an entry that is read already. `part` is the entry's backward pass.
    """

    def __init__(
        self, places: Places, snapshot: Snapshot, tensors: Iterable[Handle], *, names_symbols: bool = False
    ) -> None:
        self.part: BackwardPart | None = None
        self._names_symbols = names_symbols
        self.rows: list[Row] = []
        self._places = places
        self._snapshot = snapshot
        self._known: dict[int, int] = {}
        self._ways: dict[int, int] = {}
        self._plain: dict[tuple[type, object], int] = {}
        self._kept: list[object] = []
        self._parts: dict[int, tuple[object, str]] = {}
        self._ours = names_of_ours()
        self._scope: Scope | None = None
        self._groups: dict[int, int] = {}  # tensors of one storage, by its identity
        for tensor in tensors:
            self._own(tensor, ("backing", "version"))

    def _own(self, owner: object, names: Iterable[str]) -> None:
        for name in names:
            part = getattr(owner, name)
            if part is not None:
                self._parts.setdefault(id(part), (owner, name))

    def own_parts(self, values: Iterable[object]) -> None:
        """Takes note of the parts of what is made anew, which values among these name too."""
        for value in values:
            owner = value.__self__ if type(value) is MethodType else value
            self._own(owner, _PARTS.get(type(owner), ()))

    def all(self, values: Iterable[object]) -> list[int]:
        """The rows of values."""
        return [self(value) for value in values]

    def __call__(self, value: Any) -> int:
        """The number of the row of a value. Errors: Unstorable."""
        if value is None or type(value) in (bool, int, str, float, bytes):
            key = type(value), _bits(value)
            if key not in self._plain:
                self._plain[key] = self._add("plain", *_plain(value))
            return self._plain[key]
        known = self._known.get(id(value))
        if known is None:
            known = self._row(value)
            self._known[id(value)] = known
            self._kept.append(value)
        return known

    def _add(self, *row: object) -> int:
        self.rows.append([*row])
        return len(self.rows) - 1

    def _row(self, value: Any) -> int:
        kind = type(value)
        rule = _RULES.get(kind)
        if rule is not None:
            return rule(self, value)
        if issubclass(kind, _SHOWN) and (place := self.place(value)) is not None:
            return self._add("text", place, f"{kind.__name__} {value!r}")
        if kind is complex:
            return self._add("plain", *_plain(value))
        if issubclass(kind, tuple):
            return self.record(value)
        if issubclass(kind, Handle):
            return self._tensor(value)
        if kind in OF_FIELDS:
            return self._add("made", maker_name(kind), self.all([getattr(value, name) for name in OF_FIELDS[kind]]))
        if id(value) in self._parts:
            owner, name = self._parts[id(value)]
            return self._add("part", self(owner), name)
        if name_of(value) or id(value) in self._ours:
            place = self.place(value)
            assert place is not None
            return self._told(value, place)
        if issubclass(kind, enum.Enum):
            return self._add("enum", self(kind), value.name, self(value.value))
        if kind is MethodType or (kind is BuiltinFunctionType and not isinstance(value.__self__, ModuleType)):
            return self._bound(value)
        if kind is functools.partial and value.func is self._snapshot.same:
            return self._add("test", self(self._snapshot))
        return self._placed(value)

    def _bound(self, method: Any) -> int:
        if getattr(method.__self__, method.__name__, None) != method:
            raise Unstorable(f"the method {method.__qualname__}")
        return self._add("bound", self(method.__self__), method.__name__)

    def place(self, value: Any) -> int | None:
        """The row of the place where an object stands, with nothing compared of it; None where none is known."""
        row = self._ways.get(id(value))
        if row is not None:
            return row
        named = None if type(value) is tuple else name_of(value) or self._ours.get(id(value))
        if named is not None:
            row = self._add("named", *named)
        elif (step := self._places.step(value)) is not None:
            owner, how, key = step
            if how == "root":
                row = self._add("root", key)
            else:
                way = self.place(owner)
                assert way is not None
                row = self._add("place", way, how, self(key))
        if row is not None:
            self._ways[id(value)] = row
        return row

    def _placed(self, value: Any) -> int:
        kind = type(value)
        known = kind in _PLACED or issubclass(kind, (dict, list)) or kind.__name__ == "_tuplegetter"
        if not (known or _is_read_by_parts(value)):
            raise Unstorable(f"an object of the class {kind.__module__}.{kind.__qualname__}")
        place = self.place(value)
        if place is None:
            raise Unstorable(f"an object of the class {kind.__qualname__} that no name leads to")
        return self._told(value, self._add("of", place, self(kind)))

    def _told(self, value: Any, row: int) -> int:
        """The row of an object that is told by its place, with what is compared of it there."""
        for function in code_in(value):
            if is_of_users(module_of_globals(function.__globals__)):
                return self._add("digest", row, [function_digest(each) for each in code_in(value)])
        if type(value).__name__ in ("_tuplegetter", "GetSetDescriptorType", "member_descriptor"):
            return self._add("text", row, f"{type(value).__name__} {value!r}")
        return row

    def _tensor(self, tensor: Any) -> int:
        place = self.place(tensor)
        if place is None:
            raise Unstorable("a tensor that no name leads to")
        group = self._groups.setdefault(id(tensor.backing), len(self._groups))
        facts = [tensor.keys, bool(tensor.requires_grad), tensor.offset, tensor.view_of is None, group]
        return self._add("tensor", place, self(type(tensor)), self(tensor.form), facts)

    def function_of(self, code: CodeType) -> FunctionType | None:
        """A function to which a name leads, of this code."""
        return self._places.function_of(code)

    def tuple(self, value: tuple[Any, ...]) -> int:
        """A tuple: where it stands and is told by identity, that one, if its parts are alike."""
        if len(value) == 3 and issubclass(type(value[0]), Operator) and type(value[2]) is dict:  # a step of a view
            attrs = self._add("dict", self.all(value[2]), self.all(value[2].values()))
            return self._add("tuple", [*self.all(value[:2]), attrs])
        made = self._add("tuple", self.all(value))
        place = self.place(value)
        return made if place is None else self._add("alike", place, self(tuple), made)

    def record(self, value: tuple[Any, ...]) -> int:
        """A named tuple where it stands, of the same parts."""
        place = self.place(value)
        if place is None:
            raise Unstorable(f"a {type(value).__qualname__} that no name leads to")
        return self._add("alike", place, self(type(value)), self._add("tuple", self.all(value)))

    def size(self, value: SizeExpr) -> int:
        """An expression of symbols, as text; of a symbol what is known of it from its birth."""
        symbols = sorted(free_symbols(value), key=lambda symbol: symbol.facts.name)
        for symbol in symbols:
            owner = None if symbol.facts.scope is None else symbol.facts.scope()
            if is_axis(symbol) or not isinstance(owner, Scope) or self._scope not in (None, owner):
                raise Unstorable("a size of another scope")
            self._scope = owner
            if symbol is not value and not self._names_symbols:
                self(symbol)
        if symbols == [value] and not self._names_symbols:
            return self._add("symbol", value.facts.name, [*value.facts.numbers])
        return self._add("size", format_size(value))

    def executable(self, value: NativeExecutable) -> int:
        """Compiled code, by its key, and its contract. Output types have no sizes but those of the inputs."""
        if value.key is None or value.once is not None:
            raise Unstorable("frozen tensors" if value.once is not None else "code that is in no cache")
        outputs = [_simplified(type_) for type_ in value.output_types]
        return self._add("native", value.key, self.all(value.input_types), self.all(outputs), self.all(value.asserts))

    def backward(self, value: BackwardPart) -> int:
        """What ties a backward pass to results; its graphs are kept each for itself."""
        self.part = value
        return self._add("backward", self(value.layout))

    def planner(self, value: Planner) -> int:
        """What finds and makes plans."""
        parts = [self.all(part) for part in (value.sources, value.guards, value.asserts, value.numbers)]
        return self._add("planner", self(value.executable), *parts, value.commits)

    def snapshot(self, value: Snapshot) -> int:
        """Containers with their entries, tensors, and parts of objects."""
        containers = [
            [self(container), path, self(type(container)), len(container)] for container, path in value.containers
        ]
        return self._add(
            "snapshot",
            containers,
            [self._leaf(leaf) for leaf in value.leaves],
            self.all(value.tensors),
            [bool(memory.required) for memory in value.memory],
            [self._part(part) for part in value.parts],
        )

    def observed(self, value: Observed | None) -> list[int] | None:
        """The rows of what a trace took its arguments to be; None where they cannot be told."""
        if value is None or value.named:
            return None
        try:
            return [self._nested(value.args), self._nested(dict(value.kwargs)), self(value.conditions)]
        except Unstorable:
            return None

    def _nested(self, value: Any) -> int:
        if type(value) in (tuple, list):
            return self._add(type(value).__name__, [self._nested(part) for part in value])
        if type(value) is dict:
            return self._add("dict", self.all(value), [self._nested(part) for part in value.values()])
        if isinstance(value, (IntSpec, FloatSpec)):
            return self._add("number", type(value).__name__)
        return self(value)

    def _leaf(self, leaf: Leaf) -> Row:
        value = None if leaf.unread else self(type(leaf.value) if leaf.type_only else leaf.value)
        return [self(leaf.container), self(leaf.key), value, leaf.path, leaf.runtime, leaf.type_only, leaf.unread]

    def _part(self, part: Part) -> Row:
        value = code_digest(part.value) if isinstance(part.value, CodeType) else self(part.value)
        return [self(part.owner), part.name, value, part.path]


def _simplified(type_: TensorType) -> TensorType:
    shape, strides = (tuple([simplify(size) for size in part]) for part in (type_.shape, type_.strides))
    return TensorType(shape, type_.dtype, type_.device, strides, type_.weak)


def _is_read_by_parts(value: object) -> bool:
    """Whether a value is an object of which guards tell all that the trace has read."""
    kind = type(value)
    if hasattr(kind, MARK):
        return True
    if native_base(kind) is not object:
        return False  # what C holds of it nothing tells
    return is_of_users(module_of_class(kind)) and variables_of(value) is not None


def code_in(value: Any) -> list[FunctionType]:
    """The functions that a value consists of: itself, or what a descriptor calls."""
    kind = type(value)
    if kind in (property, enum.property):
        found = [value.fget, value.fset, value.fdel]
    elif kind in (staticmethod, classmethod, MethodType):
        found = [value.__func__]
    else:
        found = [value.func if kind is functools.cached_property else value]
    return [each for each in found if type(each) is FunctionType]


def _bits(value: Any) -> object:
    if type(value) is float:
        return struct.pack("<d", value)
    return struct.pack("<dd", value.real, value.imag) if type(value) is complex else value


def _plain(value: Any) -> tuple[str, object]:
    """The class of a plain value, and what JSON keeps of it."""
    if isinstance(value, (float, complex)):
        return type(value).__name__, bytes(_bits(value)).hex()  # pyright: ignore[reportArgumentType] - bytes of both
    return type(value).__name__, value.hex() if isinstance(value, bytes) else value


def _of_dtype(encoder: Encoder, value: DType) -> int:
    encoder.rows.append(["dtype", value.name])
    return len(encoder.rows) - 1


def _of_operator(encoder: Encoder, value: Operator) -> int:
    if OPERATORS.get(value.name) is not value:
        raise Unstorable("an operator of the program's")
    encoder.rows.append(["operator", value.name])
    return len(encoder.rows) - 1


def _of_state(encoder: Encoder, value: StateGuards) -> int:
    snapshot = encoder(value.snapshot)
    encoder.rows.append(["state", snapshot])
    return len(encoder.rows) - 1


def _of_exit(encoder: Encoder, value: Exit) -> int:
    try:
        row = exit_row(encoder, value, encoder.function_of)
    except Unwritable as reason:
        raise Unstorable(str(reason)) from reason
    encoder.rows.append(row)
    return len(encoder.rows) - 1


def _of_hooks(encoder: Encoder, value: HookGuard) -> int:
    if any(found != NO_HOOKS for _, found in value.expected):
        raise Unstorable("hooks of a tensor")
    tensors = encoder.all([leaf for leaf, _ in value.expected])
    encoder.rows.append(["hooks", tensors])
    return len(encoder.rows) - 1


def _of_set(encoder: Encoder, value: frozenset[Any]) -> int:
    parts = encoder.all(sorted(value, key=lambda part: (type(part).__name__, str(part))))
    encoder.rows.append(["frozenset", parts])
    return len(encoder.rows) - 1


def _of_keys(encoder: Encoder, value: object) -> int:
    (shown,) = gc.get_referents(value)
    owner = encoder(shown)
    encoder.rows.append(["keys", owner])
    return len(encoder.rows) - 1


def _of_assert(encoder: Encoder, value: ValueAssert) -> int:
    parts = encoder.all([value.code, value.message, simplify(value.size), value.frame])
    encoder.rows.append(["assert", parts])
    return len(encoder.rows) - 1


_RULES: dict[type, Callable[[Encoder, Any], int]] = {
    tuple: Encoder.tuple,
    SizeExpr: Encoder.size,
    StateGuards: _of_state,
    Exit: _of_exit,
    HookGuard: _of_hooks,
    NativeExecutable: Encoder.executable,
    Planner: Encoder.planner,
    BackwardPart: Encoder.backward,
    Snapshot: Encoder.snapshot,
    DType: _of_dtype,
    Operator: _of_operator,
    frozenset: _of_set,
    type({}.keys()): _of_keys,
    ValueAssert: _of_assert,
}

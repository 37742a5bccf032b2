"""Keeps the entries of compiled functions beside compiled code, and finds those of another process.

    first process:    trace ─▶ entry ─▶ rows ─▶ cache        (or `cache_bypass`, with the reason)
    second process:   key ─▶ cache ─▶ rows ─▶ entry ─▶ guards hold ─▶ run

The key has what no guard tells: the function's code and Rushlight's, settings, versions, the processor. Guards, and
what their objects look like, are in the rows. An entry that does not fit is a miss, and the call is traced.
"""

from __future__ import annotations

import json
import weakref
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

from rushlight.build.executable import NativeExecutable
from rushlight.capture.arguments import Arguments, Names
from rushlight.capture.entry.entry import Entry
from rushlight.capture.entry.measuring import made
from rushlight.capture.entry.misses import miss_of
from rushlight.capture.gradients.orders import Order
from rushlight.capture.marks import marks_of
from rushlight.capture.resume.breaks import KINDS, Reason, Retrace
from rushlight.capture.resume.continuation import Continuation
from rushlight.capture.state.globals import is_of_users, module_of_class, variables_in
from rushlight.capture.state.reachable import MARK, PLAIN, PREPARE, StateWalk, code_roots
from rushlight.capture.stored.decoding import Decoder, Unfit
from rushlight.capture.stored.digests import code_digest, environment_digest
from rushlight.capture.stored.encoding import Encoder, Unstorable
from rushlight.capture.stored.gradients import keep_graph, kept_graphs
from rushlight.capture.stored.order import StoredOrder
from rushlight.capture.stored.places import Places
from rushlight.eager.handle import Handle
from rushlight.ir.spec.propose import Observed
from rushlight.runtime import objects
from rushlight.support import events, settings
from rushlight.term import structural_digest

if TYPE_CHECKING:
    from rushlight.capture.backward import BackwardPart
    from rushlight.capture.gradients.joint import BackwardLayout
    from rushlight.capture.options import Options
    from rushlight.capture.program import Program

_MOST = 8  # entries of one function
_SECTION = "program {}"
_ENDS = "ends"  # the section that says after how many instructions traces of a place have ended, and why
# Modules of the standard library of which nothing differs from process to process.
_STEADY = frozenset(
    {"math", "cmath", "operator", "itertools", "functools", "collections", "abc", "copy", "enum", "dataclasses"}
    | {"typing", "types", "re", "heapq", "bisect", "string", "struct", "numbers", "fractions", "decimal", "contextlib"}
    | {"textwrap", "array", "builtins", "_collections_abc", "__future__", "typing_extensions"}
)
_LIBRARIES = frozenset({"rushlight", "torch", "numpy", "ml_dtypes"})


def key_of(function: object, options: Options, args: Sequence[object]) -> str | None:
    """What entries of a function for such arguments are found by; None where none are kept."""
    values = settings.get()
    looks_on = (
        values.dump or values.edit or values.repro or values.compile_profile or values.verify or values.part_limit
    )
    if looks_on or not (values.cache and values.cache_captured):
        return None
    if callable(options.backend) or options.search or options.freeze:
        return None
    codes = [*_codes_of(function), *[code for value in args if hasattr(type(value), MARK) for code in _codes_of(value)]]
    if not codes:
        return None
    chosen = [repr((type(function).__qualname__, options.dynamic, options.backend, options.budget))]
    if isinstance(function, Continuation):
        chosen += _place_of(function)
    return f"captured {structural_digest([*codes, *chosen, environment_digest()])}"


def _place_of(function: Continuation) -> list[str]:
    """What tells a place in running functions from others, and what its graphs are given."""
    cells = {id(cell): at for at, cell in enumerate(function.shapes[0].closure or ())}
    fixed = [(slot, cells.get(id(value), repr(value))) for slot, value in function.fixed.items()]
    frames = [
        (code_digest(shape.body.raw), shape.position, shape.locals, shape.stack, shape.named)
        for shape in function.shapes
    ]
    chosen = sorted(function.passed), sorted(function.same.items()), sorted(function.mortal)
    return [repr(frames), repr(fixed), repr((function.given(), function.limit)), repr(chosen)]


def _codes_of(function: object) -> list[str]:
    """Names and digests of the code that a function, method, module or place in one begins with."""
    return [f"{root.__module__}.{root.__qualname__} {code_digest(root.__code__)}" for root in code_roots(function)[0]]


class Keeping:
    """What is kept of one function: `find` is asked before each trace, and `keep` after it."""

    __slots__ = ("_key", "_tried")

    def __init__(self) -> None:
        self._key: str | None = None
        self._tried: set[bytes] = set()  # entries that this process has made or has found to fit once

    def find(
        self,
        function: object,
        options: Options,
        args: tuple[object, ...],
        kwargs: dict[str, object],
        undo: list[Callable[[], None]],
    ) -> Entry | None:
        """An entry that fits a call; None where there is none. After one is forgotten the function is traced."""
        self._key = key_of(function, options, args)
        if self._key is None:
            return None
        reason = "no program is kept"
        sections = _sections(self._key)
        self._refuse_beyond(sections.get(_ENDS), function, options, args, kwargs, undo)
        for data in _programs(sections):
            if data in self._tried:
                continue
            try:
                entry = _read(json.loads(data), function, args, kwargs, undo)
            except Exception as unfit:  # noqa: BLE001 - Unfit; and an object of the program's may raise anything
                reason = str(unfit)
                continue
            self._tried.add(data)
            order = stored_order(entry)
            if order is not None:
                key = _key_of_gradients(data)
                order.find, order.keep = partial(kept_graphs, key), partial(keep_graph, key)
            events.record("cache_hit", "captured", _name_of(function))
            return entry
        events.record("cache_miss", "captured", reason)
        return None

    def _refuse_beyond(
        self, data: bytes | None, function: object, options: Options, args: tuple[object, ...], *call: Any
    ) -> None:
        """Asks for a shorter trace, if a program is kept for it that fits the call. Errors: Retrace."""
        if data is None or data in self._tried or not isinstance(function, Continuation):
            return
        for limit, kind, detail in json.loads(data):
            ended = replace(function, limit=limit)
            for each in _programs(_sections(key_of(ended, options, args))):
                try:
                    _read(json.loads(each), ended, args, *call)
                except Exception:  # noqa: BLE001 - Unfit; and an object of the program's may raise anything
                    continue
                self._tried.add(data)
                raise Retrace(limit, Reason(KINDS[kind], detail))

    def keep_end(self, again: Retrace) -> None:
        """Writes after how many instructions a trace of a place has to end."""
        if self._key is None or again.limit <= 0:
            return
        before = _sections(self._key)
        end = [again.limit, again.reason.kind.code, again.reason.detail]
        ends = [end, *[each for each in json.loads(before.get(_ENDS, b"[]")) if each != end]][:_MOST]
        data = json.dumps(ends, separators=(",", ":")).encode()
        self._tried.add(data)
        objects.shared().put(self._key, {**before, _ENDS: data})

    def keep(self, function: object, entry: Entry, program: Program, arguments: Arguments, walk: StateWalk) -> None:
        """Writes an entry, if it can be written."""
        if self._key is None:
            return
        try:
            written, part = _written(function, entry, program, arguments, walk)
            data = json.dumps(written, separators=(",", ":")).encode()
        except Exception as reason:  # noqa: BLE001 - Unstorable; and an object of the program's may raise anything
            events.record("cache_bypass", "captured", str(reason))
            return
        self._tried.add(data)
        before = _sections(self._key)
        kept = [data, *[each for each in _programs(before) if each != data]][:_MOST]
        ends = {name: each for name, each in before.items() if name == _ENDS}
        objects.shared().put(self._key, ends | {_SECTION.format(at): each for at, each in enumerate(kept)})
        if part is not None and isinstance(part.order, Order):
            part.order.keep_in(partial(keep_graph, _key_of_gradients(data)))


def _sections(key: str | None) -> dict[str, bytes]:
    """What is kept under a key, by name."""
    return {} if key is None else objects.shared().get(key) or {}


def _programs(sections: dict[str, bytes]) -> list[bytes]:
    """The entries among them, the last written first."""
    return [data for name, data in sections.items() if name != _ENDS]


def stored_order(entry: Entry) -> StoredOrder | None:
    """The gradients of an entry that was found on disk, if its results have some."""
    attach: Any = entry.call.__globals__["attach"]  # pyright: ignore[reportFunctionMemberAccess] - a function
    return None if attach is None else attach.__self__.order


def layout_of(entry: Entry) -> BackwardLayout:
    """Which gradients the results of an entry take and give."""
    attach: Any = entry.call.__globals__["attach"]  # pyright: ignore[reportFunctionMemberAccess] - a function
    return attach.__self__.layout


def is_same_code(runner: object, entry: Entry) -> bool:
    """Whether a graph's code is that of an entry."""
    keys = [one.key for one in entry.executables if isinstance(one, NativeExecutable)]
    return isinstance(runner, NativeExecutable) and runner.key is not None and keys == [runner.key]


def _key_of_gradients(data: bytes) -> str:
    return f"captured gradients {structural_digest([data.decode()])}"


def _name_of(function: object) -> str:
    named = function.shapes[0].body.raw.co_qualname if isinstance(function, Continuation) else None
    return named or getattr(function, "__qualname__", type(function).__qualname__)


def _roots(function: object, arguments: Arguments) -> dict[str, object]:
    leaves = [(name, value) for name, value in arguments.leaves if not isinstance(value, Handle)]
    first, *others = (function.roots() or [None]) if isinstance(function, Continuation) else [function]
    named = {f"function {at}": other for at, other in enumerate(others, 1)}
    return {"function": first, **named, **{name: value for name, value in leaves if type(value) not in PLAIN}}


def _written(
    function: object, entry: Entry, program: Program, arguments: Arguments, walk: StateWalk
) -> tuple[dict[str, Any], BackwardPart | None]:
    """An entry as JSON has it, and its backward pass. Errors: Unstorable."""
    _refuse(function, arguments, walk)
    if not (program.graph.calls or isinstance(function, Continuation)):
        raise Unstorable("no operators")
    places = Places(_roots(function, arguments).items())
    snapshot = entry.state.snapshot
    encoder = Encoder(places, snapshot, [*snapshot.tensors, *program.effects.written])
    first = Encoder(places, snapshot, ())
    prepared = [first(instance) for instance in walk.marked if hasattr(type(instance), PREPARE)]
    space: dict[str, Any] = entry.call.__globals__  # pyright: ignore[reportFunctionMemberAccess] - a function
    named = {name: value for name, value in space.items() if name != "__builtins__"}
    encoder.own_parts(named.values())
    written = {
        "prepare": [first.rows, prepared],
        "state": encoder(entry.state),
        "space": {name: encoder(value) for name, value in named.items()},
        "first": encoder.all(entry.first),
        "written": encoder.all(entry.written),
        "executables": encoder.all(entry.executables),
        "observed": encoder.observed(entry.observed),
        "shapes": encoder(entry.shapes()),
        "unpack": entry.unpack,
        "key": entry.key,
        "name": program.graph.name,
        "text": entry.text,
        "rows": encoder.rows,
    }
    return written, encoder.part


def _read(
    stored: dict[str, Any],
    function: object,
    args: tuple[object, ...],
    kwargs: dict[str, object],
    undo: list[Callable[[], None]],
) -> Entry:
    """The entry, if it fits a call. Errors: Unfit."""
    arguments = Arguments(args, kwargs, Names())
    roots = _roots(function, arguments)
    if any(marks_of(value) for _, value in arguments.leaves if isinstance(value, Handle)):
        raise Unfit("marks of an argument")
    rows, prepared = stored["prepare"]
    first = Decoder(roots)
    first.read(rows)
    for instance in first.all(prepared):
        getattr(instance, PREPARE)(undo)
    decoder = Decoder(roots)
    decoder.read(stored["rows"])
    space: dict[str, Any] = {name: decoder.objects[row] for name, row in stored["space"].items()}
    exec(compile(stored["text"], f"<rushlight {stored['name']}>", "exec"), space)  # noqa: S102 - see `decoding`
    planner = space["make_plan"].__self__
    entry = Entry(
        space.pop("call"),
        tuple(stored["unpack"]),
        tuple(stored["key"]),
        planner.misfit,
        tuple(decoder.all(stored["first"])),
        decoder.objects[stored["state"]],
        stored["text"],
        tuple(decoder.all(stored["executables"])),
        tuple(decoder.all(stored["written"])),
        weakref.ref(decoder.scope),
        None if stored["observed"] is None else Observed(*decoder.all(stored["observed"])),
        decoder.objects[stored["shapes"]],
    )
    miss = miss_of(entry, args, kwargs)
    if miss is not None:
        raise Unfit(miss.reason)
    return made(entry)


def _refuse(function: object, arguments: Arguments, walk: StateWalk) -> None:
    """Refuses a trace that has read what no guard tells and what may differ in another process. Errors: Unstorable."""
    assumed = walk.assumed
    if assumed.orders:
        raise Unstorable("the order of a set")
    if assumed.revised:
        raise Unstorable("an operator of the program's")
    if any(marks_of(value) for _, value in arguments.leaves if isinstance(value, Handle)):
        raise Unstorable("marks of an argument")
    for name in assumed.libraries:
        if not _is_steady(name):
            raise Unstorable(f"code of the module {name}")
    for root in (*code_roots(function)[0], *assumed.functions()):
        for name in variables_in(root.__code__):
            _refuse_unsteady(name, root.__globals__.get(name))


def _refuse_unsteady(name: str, value: object) -> None:
    """Refuses a global of a library in which something may be that differs from process to process."""
    is_module = issubclass(type(value), ModuleType)
    module = getattr(value, "__name__", "") if is_module else module_of_class(type(value))
    if type(value) in (FunctionType, BuiltinFunctionType) or issubclass(type(value), type):
        module = getattr(value, "__module__", None) or module
    if type(module) is str and not is_of_users(module) and not _is_steady(module):
        raise Unstorable(f"{name}, of the module {module}")


def _is_steady(module: str) -> bool:
    top = module.partition(".")[0]
    return top in _STEADY or top.lstrip("_") in _STEADY or top in _LIBRARIES or is_of_users(module)

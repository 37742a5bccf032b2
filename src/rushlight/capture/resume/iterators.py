"""How iterators, views and tracebacks are built again from what they go over."""

from __future__ import annotations

import gc
from collections import OrderedDict
from collections.abc import Callable, Sequence
from types import FunctionType, MappingProxyType, TracebackType
from typing import Any, NamedTuple

from rushlight.capture.interpreter.tracebacks import is_shown

_RESUMED = frozenset({*[type(iter(item)) for item in ([], (), range(0), "", b"")], enumerate, zip, reversed})
_OF_DICTS = (dict.keys, dict.values, dict.items)
_ORDERED = (OrderedDict.keys, OrderedDict.values, OrderedDict.items)
_View = Callable[[Any], Any]
_VIEWS: dict[type, _View] = {
    **{type(view({})): view for view in _OF_DICTS},
    **{type(view(OrderedDict())): view for view in _ORDERED},
}
_VIEW_OF: dict[type, _View] = {type(iter(view({}))): view for view in _OF_DICTS}


class Parts(NamedTuple):
    """What an object is made of, and how. Containers among the parts have to be `filled` before."""

    parts: Sequence[object]
    make: Callable[[list[Any]], object]
    filled: bool


def parts_of(value: Any) -> Parts | None:
    """The parts of an iterator, a view, a range or a traceback; None of what cannot be built from parts."""
    kind = type(value)
    if kind in _VIEWS or kind is MappingProxyType:
        source = next(iter(gc.get_referents(value)), None)
        view = _VIEWS.get(kind, MappingProxyType)
        return Parts([source], lambda parts: view(*parts), False)
    if kind in _VIEW_OF:
        return _of_dict_iterator(value, _VIEW_OF[kind])
    if kind in _RESUMED:
        return _of_iterator(value)
    if kind is range:
        return Parts([], lambda parts: value, False)
    if kind is slice:
        return Parts([value.start, value.stop, value.step], lambda parts: slice(*parts), False)
    if kind is TracebackType and is_shown(value.tb_frame):
        return _of_traceback(value)
    return None


def _of_iterator(value: Any) -> Parts | None:
    function, args, *rest = value.__reduce__()
    state = [item for item in rest if item is not None]
    if state and type(value) is zip:
        return None

    def resumed(parts: list[Any]) -> object:
        iterator = function(*parts)
        if state:
            iterator.__setstate__(*state)
        return iterator

    return Parts(args, resumed, True)


def _of_dict_iterator(value: Any, view: _View) -> Parts | None:
    """Of an iterator over a dict: another one that has gone as far. None where the dict has changed since."""
    source = next((part for part in gc.get_referents(value) if isinstance(part, dict)), None)
    if source is None:  # it has ended, perhaps by the error that ends the graph
        return None
    left = value.__length_hint__()
    count = len(source) - left
    try:
        (rest,) = value.__reduce__()[1]
    except RuntimeError:
        return None
    expected = list(view(source))[count:]
    if len(rest) != left or not left or any(_differ(*pair) for pair in zip(rest, expected, strict=True)):
        return None
    return Parts([source], lambda parts: _advanced(view(parts[0]), count), True)


def _differ(one: object, other: object) -> bool:
    """Whether two values of an iterator are not the same; items are tuples that are made each time."""
    if isinstance(one, tuple) and isinstance(other, tuple) and len(one) == len(other):
        return any(part is not another for part, another in zip(one, other, strict=True))
    return one is not other


def _advanced(values: Any, count: int) -> object:
    iterator = iter(values)
    for _ in range(count):
        next(iterator, None)
    return iterator


def _of_traceback(value: TracebackType) -> Parts:
    """Of a traceback of interpreted functions: its frame has the variables of each call."""
    frame, lasti, line = value.tb_frame, value.tb_lasti, value.tb_lineno
    code, variables = frame.f_code, frame.f_globals
    names = code.co_varnames

    def made(parts: list[Any]) -> object:
        following, *values = parts
        return TracebackType(following, FunctionType(code, variables)(*values).gi_frame, lasti, line)

    return Parts([value.tb_next, *[frame.f_locals[name] for name in names]], made, False)

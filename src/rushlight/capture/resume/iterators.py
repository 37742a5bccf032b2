"""How iterators, views and tracebacks are built again from what they go over."""

from __future__ import annotations

import gc
import itertools
import operator
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import suppress
from types import FunctionType, MappingProxyType, TracebackType
from typing import Any, NamedTuple
from warnings import catch_warnings, simplefilter

from rushlight.capture.interpreter.generators import Resumable
from rushlight.capture.interpreter.slots import lookup
from rushlight.capture.interpreter.tracebacks import is_shown


class Parts(NamedTuple):
    """What an object is made of, and how. Containers among the parts have to be `filled` before."""

    parts: Sequence[object]
    make: Callable[[list[Any]], object]
    filled: bool


_OF_OPERATOR = {operator.attrgetter, operator.itemgetter, operator.methodcaller}
_OF_ITERTOOLS = {
    *[itertools.accumulate, itertools.chain, itertools.compress, itertools.count, itertools.dropwhile],
    *[itertools.filterfalse, itertools.groupby, itertools.islice, itertools.repeat, itertools.starmap],
    *[itertools.takewhile, itertools.zip_longest, type(next(itertools.groupby("a"))[1])],
}
_RESUMED = frozenset(
    {*[type(iter(item)) for item in ([], (), range(0), "", b"")], enumerate, zip, reversed, map, filter}
    | _OF_OPERATOR
    | _OF_ITERTOOLS
    | {type(vars(Parts)["make"])}
)  # of C, that say what makes another one
_OF_DICTS = (dict.keys, dict.values, dict.items)
_ORDERED = (OrderedDict.keys, OrderedDict.values, OrderedDict.items)
_View = Callable[[Any], Any]
_VIEWS: dict[type, _View] = {
    **{type(view({})): view for view in _OF_DICTS},
    **{type(view(OrderedDict())): view for view in _ORDERED},
}
_VIEW_OF: dict[type, _View] = {type(iter(view({}))): view for view in _OF_DICTS}


def parts_of(value: Any) -> Parts | None:
    """The parts of an iterator, a view, a range or a traceback; None of what cannot be built from parts."""
    kind = type(value)
    if kind in _VIEWS or kind is MappingProxyType:
        source = next(iter(gc.get_referents(value)), None)
        view = _VIEWS.get(kind, MappingProxyType)
        return Parts([source], lambda parts: view(*parts), False)
    if kind in _VIEW_OF:
        return _of_dict_iterator(value, _VIEW_OF[kind])
    if kind in _RESUMED and kind.__reduce__ is not object.__reduce__:
        return _of_iterator(value)
    if kind is range:
        return Parts([], lambda parts: value, False)
    if kind is slice:
        return Parts([value.start, value.stop, value.step], lambda parts: slice(*parts), False)
    if kind is TracebackType and is_shown(value.tb_frame):
        return _of_traceback(value)
    return None


def _of_iterator(value: Any) -> Parts | None:
    with catch_warnings():
        simplefilter("ignore", DeprecationWarning)  # of itertools, from 3.12 to the end of this protocol in 3.14
        function, args, *rest = value.__reduce__()
    if any(map(_is_written_in_python, args)):  # its class may be made anew, and has its methods at the end alone
        return None
    state = [item for item in rest if item is not None]

    def resumed(parts: list[Any]) -> object:
        iterator = function(*parts[: len(args)])
        if state:
            iterator.__setstate__(*parts[len(args) :])
        return iterator

    return Parts([*args, *state], resumed, True)


def _is_written_in_python(iterator: object) -> bool:
    kind = type(iterator)
    return type(lookup(kind, "__next__")) is FunctionType and not issubclass(kind, Resumable)


def _of_dict_iterator(value: Any, view: _View) -> Parts | None:
    """Of an iterator over a dict: another one that has gone as far. None where the dict has changed since."""
    source = next((part for part in gc.get_referents(value) if isinstance(part, dict)), None)
    if source is None:  # it has ended
        return Parts([], lambda parts: iter(view({})), False)
    left = value.__length_hint__()
    count = len(source) - left
    try:
        (rest,) = value.__reduce__()[1]
    except RuntimeError as error:
        if "changed size" not in str(error):
            return None
        return Parts([], lambda parts: _spoilt(view), False)  # the dict has grown, which it says from now on
    expected = list(view(source))[count:]
    if len(rest) != left or not left or any(_differ(*pair) for pair in zip(rest, expected, strict=True)):
        return None
    return Parts([source], lambda parts: _advanced(view(parts[0]), count), True)


def _spoilt(view: _View) -> object:
    """An iterator over a dict that has grown since."""
    grown = {0: 0}
    iterator = iter(view(grown))
    grown[1] = 1
    with suppress(RuntimeError):
        next(iterator)
    return iterator


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

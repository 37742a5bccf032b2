"""How iterators, views and tracebacks are built again from what they go over."""

from __future__ import annotations

import functools
import gc
import itertools
import operator
from collections import OrderedDict
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from types import FunctionType, GenericAlias, MappingProxyType, TracebackType, UnionType
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
VIEWS: dict[type, _View] = {
    MappingProxyType: MappingProxyType,
    **{type(view({})): view for view in _OF_DICTS},
    **{type(view(OrderedDict())): view for view in _ORDERED},
}
"""What shows a dict as it is now, by class: how another one is made of a dict."""
_VIEW_OF: dict[type, _View] = {type(iter(view({}))): view for view in _OF_DICTS}
_ORDERED_ITERATOR = type(iter(OrderedDict()))


def parts_of(value: Any) -> Parts | None:
    """The parts of an iterator, view, range, alias or traceback; None if it cannot be built from parts."""
    kind = type(value)
    if kind in VIEWS:
        source = next(iter(gc.get_referents(value)), None)
        view = VIEWS[kind]
        return Parts([source], lambda parts: view(*parts), False)
    if kind in _VIEW_OF:
        return _of_dict_iterator(value, [_VIEW_OF[kind]], dict)
    if kind is _ORDERED_ITERATOR:
        return _of_dict_iterator(value, _ORDERED, OrderedDict)
    if kind in _RESUMED and kind.__reduce__ is not object.__reduce__:
        return _of_iterator(value)
    if kind is GenericAlias and not value.__unpacked__:
        return Parts([value.__origin__, value.__args__], lambda parts: GenericAlias(*parts), False)
    if kind is UnionType:
        return Parts(value.__args__, lambda parts: functools.reduce(operator.or_, parts), False)
    if kind is range:
        return Parts([], lambda parts: value, False)
    if kind is slice:
        return Parts([value.start, value.stop, value.step], lambda parts: slice(*parts), False)
    if kind is TracebackType and is_shown(value.tb_frame):
        return _of_traceback(value)
    return None


def _of_iterator(value: Any) -> Parts | None:
    with _no_warnings():
        function, args, *rest = value.__reduce__()
    if any(map(_is_written_in_python, args)):  # its class may be made anew, and has its methods at the end alone
        return None
    state = [item for item in rest if item is not None]
    keywords: dict[str, object] = {}
    if type(function) is functools.partial:  # of a `methodcaller` with keywords
        function, args, keywords = function.func, (*function.args, *args), function.keywords
    named, count = len(args) + len(keywords), len(args)

    def resumed(parts: list[Any]) -> object:
        iterator = function(*parts[:count], **dict(zip(keywords, parts[count:named], strict=True)))
        if state:
            with _no_warnings():
                iterator.__setstate__(*parts[named:])
        return iterator

    return Parts([*args, *keywords.values(), *state], resumed, True)


@contextmanager
def _no_warnings() -> Generator[None]:
    """A scope without itertools' warnings of deprecation, which 3.12 and 3.13 give."""
    with catch_warnings():
        simplefilter("ignore", DeprecationWarning)
        yield


def _is_written_in_python(iterator: object) -> bool:
    kind = type(iterator)
    return type(lookup(kind, "__next__")) is FunctionType and not issubclass(kind, Resumable)


def _of_dict_iterator(value: Any, views: Sequence[_View], kind: type[dict[object, object]]) -> Parts | None:
    """Of an iterator over a dict: another one that has gone as far, over one of the views. None if there is none."""
    view = views[0]
    source = next((part for part in gc.get_referents(value) if isinstance(part, kind)), None)
    if source is None:  # it has ended
        return Parts([], lambda parts: _advanced(view(kind()), 1), False)
    try:
        rest = list(value.__reduce__()[1][0])
    except RuntimeError as error:  # the dict has changed, which it says from now on
        text = str(error)
        if "keys" in text and operator.length_hint(value):  # values come before the error
            return None
        return Parts([], lambda parts: _spoilt(view, kind, text), False)
    for view in views:
        values = list(view(source))
        count = len(values) - len(rest)
        if count >= 0 and not any(_differ(*pair) for pair in zip(rest, values[count:], strict=True)):
            return Parts([source], partial(_gone_on, view, count), True)
    return None


def _gone_on(view: _View, count: int, parts: Sequence[object]) -> object:
    return _advanced(view(parts[0]), count)


def _spoilt(view: _View, kind: type[dict[object, object]], text: str) -> object:
    """An iterator over a dict that has changed since, in what the text of its error says.

    Only a size is an error again and again.
    """
    changed = kind()
    changed.update(zip(range(2), range(2), strict=True))
    iterator = iter(view(changed))
    if "size" in text:
        changed[2] = 2
        with suppress(RuntimeError):
            next(iterator)
        return iterator
    for _ in range(2 if kind is dict else 1):
        next(iterator)
    changed[2] = changed.pop(0)
    return iterator


def _differ(one: object, other: object) -> bool:
    """Whether two values of an iterator are not the same; items are tuples that are made each time."""
    if isinstance(one, tuple) and isinstance(other, tuple) and len(one) == len(other):
        return any(part is not another for part, another in zip(one, other, strict=True))
    return one is not other


def _advanced(values: Iterable[object], count: int) -> object:
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

"""Functions whose results `functools` keeps: of plain values, what they give is part of the graph, and guarded."""

from __future__ import annotations

import gc
from collections.abc import Container
from types import ModuleType
from typing import Any

from rushlight.capture.interpreter.hooks import MISSING
from rushlight.capture.resume.blueprint import is_by_identity
from rushlight.capture.resume.interpreters.examples import untraced
from rushlight.capture.resume.interpreters.identifying import NUMBERS, fixed_number
from rushlight.capture.resume.reached import ReachedObjects, Reroot, is_object
from rushlight.capture.state.reachable import PLAIN, is_walked
from rushlight.eager.tensor import Tensor
from rushlight.eager.tensor_meta import Size
from rushlight.ir.dtype import DType
from rushlight.ir.type import Device

_FORMS = frozenset({Device, DType})  # of tensors: values that never change


def result_of(
    cache: Any, args: tuple[object, ...], kwargs: dict[str, object], made: Container[int], reached: ReachedObjects
) -> object:
    """What an earlier cache gives for arguments that last; MISSING where each call has to ask it.

    Those are plain values, and objects that are no arguments and that the trace has not `made`, by identity. Sizes are
    fixed. A result that is not there yet Python computes first. Errors: Reroot then: that may have changed the state.
    """
    given = (*args, *kwargs.values())
    lasting = [_is_plain(value) or (_is_one(value, reached) and id(value) not in made) for value in given]
    if not all(lasting) or "cache_parameters" not in vars(cache) or cache.cache_parameters()["typed"]:
        return MISSING
    args, kwargs = tuple(map(_fixed, args)), {name: _fixed(value) for name, value in kwargs.items()}
    asked = cache, args, *kwargs.items()
    if not _has(cache, args, kwargs):
        if _is_full(cache):
            return MISSING
        with untraced():
            cache(*args, **kwargs)
        if _has(cache, args, kwargs):
            raise Reroot
        return MISSING
    value = cache(*args, **kwargs)
    if type(value) is Tensor or is_object(value) or is_walked(value):
        reached.results[asked] = value
        reached.read(reached.results, asked, value, f"{cache.__qualname__}{args!r}")
    elif not (_is_plain(value) or issubclass(type(value), (type, ModuleType))):
        return MISSING
    reached.walk.assumed.returns(cache, args, kwargs, value)
    return value


def _is_plain(value: object) -> bool:
    kind = type(value)
    if kind in PLAIN or kind in NUMBERS or kind in _FORMS:
        return True
    return kind in (tuple, Size) and isinstance(value, tuple) and all(map(_is_plain, value))


def _fixed(value: Any) -> Any:
    """An argument of a cache, with sizes and other numbers of the run time as they are in this call."""
    if type(value) in (tuple, Size):
        return type(value)(map(_fixed, value))
    return fixed_number(value)


def _is_one(value: object, reached: ReachedObjects) -> bool:
    """Whether an object of the state is equal to itself alone."""
    return is_by_identity(type(value)) and is_object(value) and not reached.knows(value)


def _is_full(cache: Any) -> bool:
    kept = cache.cache_info()
    return kept.maxsize is not None and kept.currsize >= kept.maxsize


def _has(cache: Any, args: tuple[object, ...], kwargs: dict[str, object]) -> bool:
    """Whether a cache has a result. One text or integer is its own key, other arguments are a tuple."""
    own, parts = vars(cache), gc.get_referents(cache)
    key: object = args[0] if len(args) == 1 and type(args[0]) in (str, int) else args
    if kwargs:
        (mark,) = [part for part in parts if type(part) is object]  # which stands before names
        key = (*args, mark, *[part for pair in kwargs.items() for part in pair])
    return any(type(part) is dict and part is not own and key in part for part in parts)

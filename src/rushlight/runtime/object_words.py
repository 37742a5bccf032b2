"""Where in an object CPython keeps its class, or another part, so that native code can compare it.

Offsets are found by looking where the part's address stands in an object that has it: nothing is assumed about layouts.
"""

from __future__ import annotations

import ctypes
import functools
from typing import Any

_WORD = ctypes.sizeof(ctypes.c_void_p)


class _Sample:
    """A class whose parts are looked for."""


def _sample() -> None:
    """A function whose parts are looked for."""


_sample.__defaults__ = ("a default",)
_Sample.__qualname__ = _sample.__qualname__ = "another name"
_sample.__kwdefaults__ = {"name": "a default"}


@functools.cache
def _offset(name: str, *, of_class: bool) -> int:
    sample: Any = _Sample if of_class else _sample
    words = (ctypes.c_size_t * (type(sample).__basicsize__ // _WORD)).from_address(id(sample))
    return _WORD * list(words).index(id(getattr(sample, name)))


def word_address(owner: object, name: str) -> int:
    """The address of the word that points to an attribute; of None the word may be 0.

    That is the class of any object, the `__mro__` of a class, the code and defaults of a function, and names of both.
    """
    return id(owner) + _offset(name, of_class=issubclass(type(owner), type))

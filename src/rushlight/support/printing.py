"""How values are printed in errors: short, and with their types."""

import os
from collections.abc import Callable
from typing import cast

_LONGEST = 120  # characters of one value; a path is never cut, since one that is cut cannot be opened
_MOST = 12  # elements of one sequence or mapping


def printed(value: object) -> str:
    """Return `value` as errors show it.

    A class of ours says it itself by a method `__error_text__`. Anything else with a dtype and a shape is printed like
    a tensor type, plain values as Python writes them, and the rest with the name of its class.
    """
    try:
        text = _printed(value)
    except Exception as cause:  # noqa: BLE001 - a broken __repr__ must not hide the error that prints it
        text = f"<{type(value).__name__} that cannot be printed: {type(cause).__name__}>"
    whole = len(text) <= _LONGEST or (isinstance(value, str) and os.path.isabs(value))
    return text if whole else text[: _LONGEST - 1] + "…"


def _printed(value: object) -> str:
    own: Callable[[], str] | None = getattr(type(value), "__error_text__", None)
    if own is not None:
        return cast(Callable[[object], str], own)(value)
    if isinstance(value, type):
        return value.__qualname__
    if value is None or isinstance(value, str | bytes | bool | int | float | complex):
        return repr(value)
    if isinstance(value, tuple | list):
        elements = cast(tuple[object, ...] | list[object], value)
        return _sequence(elements, "()" if isinstance(value, tuple) else "[]")
    shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
    if shape is not None and dtype is not None:
        return f"{type(value).__name__} {dtype}[{', '.join(map(str, shape))}]"
    if type(value).__repr__ is object.__repr__:
        return str(value) if type(value).__str__ is not object.__str__ else f"<{type(value).__name__}>"
    return str(value) if type(value).__module__.startswith("rushlight.") else f"{type(value).__name__} {value!r}"


def _sequence(elements: tuple[object, ...] | list[object], brackets: str) -> str:
    texts = [_printed(element) for element in elements[:_MOST]]
    if len(elements) > _MOST:
        texts.append(f"… {len(elements)} in all")
    if len(texts) == 1 and brackets == "()":
        texts.append("")
    return brackets[0] + ", ".join(texts).rstrip(" ") + brackets[1]

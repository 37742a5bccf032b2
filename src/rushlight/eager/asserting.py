"""What is asked of values: at once in eager calls, at each call of a graph where a function is traced."""

from __future__ import annotations

from typing import Any

from rushlight.eager.dispatch import STATE
from rushlight.ir.type import TensorType
from rushlight.ops import OPERATORS
from rushlight.support.errors import require


def asks_values() -> bool:
    """Whether values can be asked: not those of places of `vmap`, which have no graph of their own."""
    return not STATE.maps


def require_values(holds: Any, code: str, message: str, **context: Any) -> None:
    """Error `code` unless bools are True everywhere; a graph asserts it (`build.index_asserts`)."""
    if STATE.tracer is None:
        require(bool(holds.all()), code, message, **context)
    else:
        OPERATORS["asserted"](holds, code=code, message=message)


def refused(given: Any, type_: TensorType, code: str, message: str) -> Any:
    """A value of a graph: error `code` at each call that computes it of what is `given`."""
    nan = OPERATORS["any"](OPERATORS["isnan"](given))
    never = OPERATORS["logical_and"](nan, OPERATORS["logical_not"](nan))  # computed where and when the given value is
    holds = OPERATORS["asserted"](never, code=code, message=message)
    nothing = [OPERATORS["full"](type_.shape, value, dtype=type_.dtype, device=type_.device) for value in (0, 1)]
    return OPERATORS["where"](holds, *nothing)

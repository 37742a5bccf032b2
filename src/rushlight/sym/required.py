"""What an operator needs of sizes to have a result at all: no choice, so nothing depends on the answer but an error."""

from __future__ import annotations

from rushlight.sym.condition import Condition
from rushlight.sym.scope import guard, scope_of


def required(condition: bool | Condition, message: str = "") -> bool:
    """Whether what is needed of sizes holds: known, or true of the example and then guarded.

    Where a symbol has no hint it is taken to hold, which is asserted at run time.
    """
    if isinstance(condition, bool):
        return condition
    scope = scope_of(condition.expr)
    if scope is None or scope.known(condition) is not None or scope.hint_or_none(condition.expr) is not None:
        return guard(condition, message)
    scope.check(condition, message)
    return True

"""The two operands of a statement's remainder or power, for what the error of the result depends on."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace

from tools.fuzz.program import Array

Pair = tuple[object, object]


class _Operand:
    """Stands for a tensor: evaluating the statement gives the two operands, in the order of the operator."""

    def __init__(self, array: Array) -> None:
        self.array = array

    def before(self, other: object) -> Pair:
        """This operand first."""
        return self, other

    def behind(self, other: object) -> Pair:
        """This operand second."""
        return other, self

    fmod = fmod_ = remainder = remainder_ = pow = pow_ = float_power = float_power_ = before
    __mod__ = __pow__ = before
    __rmod__ = __rpow__ = behind


def _pair(one: object, other: object) -> Pair:
    return one, other


def operand_pair(statement: str, arrays: Mapping[str, Array]) -> Pair | None:
    """The operands of the one remainder or power that a statement is: arrays, or numbers; None for others."""
    space: dict[str, object] = {name: _Operand(array) for name, array in arrays.items()}
    torch = SimpleNamespace(fmod=_pair, remainder=_pair, pow=_pair, float_power=_pair)
    try:
        pair = eval(statement.rpartition(" = ")[2], {"torch": torch, **space})  # noqa: S307 - the generator's own text
        one, other = [part.array if isinstance(part, _Operand) else part for part in pair]
    except (AttributeError, NameError, TypeError, ValueError):
        return None
    return one, other

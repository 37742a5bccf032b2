"""What is known of the calls of an operator: the ways to divide them among ranks, and what is linear."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from rushlight.sym import Condition, Size, SizeExpr, evaluate


class Along(NamedTuple):
    """A dim that is divided; `unit` places of it belong together."""

    dim: int
    unit: Size


class SizeOf(NamedTuple):
    """Stands for a size among attributes: that of a dim of a result, or of operand `operand`, as the rank has it."""

    operand: int | None
    dim: int


class Division(NamedTuple):
    """One way to divide a call among the ranks of an axis.

    `operands` and `result` say which dims are divided, None for those that each rank needs whole. `reduction` makes
    one result of the ranks'. `sizes` are attributes that become the rank's own: by name and place. Operands in `added`
    are added to what is reduced: they have to be partial sums, so that they count once.
    """

    operands: tuple[Along | None, ...]
    result: Along | None
    reduction: str | None
    sizes: tuple[tuple[str, int, SizeOf], ...]
    added: frozenset[int] = frozenset()


class Linear(NamedTuple):
    """Operands that may be partial at once. `moves`: the result is made of their elements as they are."""

    operands: frozenset[int]
    moves: bool


class Derived(NamedTuple):
    """Divisions for sizes of which conditions hold."""

    divisions: tuple[Division, ...]
    symbols: tuple[SizeExpr, ...]
    conditions: tuple[Condition, ...]


class Rule(NamedTuple):
    """How the calls of an operator on operands of some ranks and dtypes may be divided.

    Of operands that are `unread` only sizes matter.
    """

    derived: tuple[Derived, ...]
    linear: tuple[Linear, ...]
    unread: frozenset[int]

    def holds(self, values: Sequence[int]) -> bool:
        """Whether it was derived for calls of such sizes."""
        for part in self.derived:
            bindings = dict(zip(part.symbols, values, strict=True))
            if not all(condition.holds(bindings) for condition in part.conditions):
                return False
        return True

    def divisions(self, values: Sequence[int]) -> tuple[Division, ...]:
        """The divisions, with units that are numbers."""
        found: dict[Division, None] = {}
        for part in self.derived:
            bindings = dict(zip(part.symbols, values, strict=True))
            for division in part.divisions:
                operands = tuple([_fixed(along, bindings) for along in division.operands])
                found[division._replace(operands=operands, result=_fixed(division.result, bindings))] = None
        return tuple(found)


def _fixed(along: Along | None, bindings: Mapping[SizeExpr, int]) -> Along | None:
    return along if along is None or isinstance(along.unit, int) else Along(along.dim, evaluate(along.unit, bindings))


class Signature(NamedTuple):
    """What a rule depends on, and the sizes that it does not depend on."""

    key: tuple[object, ...]
    values: tuple[int, ...]

"""What is known of the calls of an operator: the ways to divide them among ranks, and what is linear."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from rushlight.ir.type import TensorType
from rushlight.sym import Condition, Size, SizeExpr, guard, substitute


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

    def holds(self, values: Sequence[Size]) -> bool:
        """Whether the conditions hold of such sizes: of whole operands, and of the parts that each rank calls with."""
        bindings = dict(zip(self.symbols, values, strict=True)) if self.conditions else {}
        return all(guard(condition.of(bindings)) for condition in self.conditions)


class Rule(NamedTuple):
    """How the calls of an operator on operands of some ranks and dtypes may be divided.

    Of operands that are `unread` only sizes matter.
    """

    derived: tuple[Derived, ...]
    linear: tuple[Linear, ...]
    unread: frozenset[int]

    def holds(self, values: Sequence[Size]) -> bool:
        """Whether it was derived for calls of such sizes."""
        return all(part.holds(values) for part in self.derived)

    def divisions(self, values: Sequence[Size]) -> Mapping[Division, Derived]:
        """The divisions, with units that are numbers, and what each was derived with."""
        found: dict[Division, Derived] = {}
        for part in self.derived:
            bindings = dict(zip(part.symbols, values, strict=True))
            for division in part.divisions:
                operands = tuple([_fixed(along, bindings) for along in division.operands])
                found.setdefault(division._replace(operands=operands, result=_fixed(division.result, bindings)), part)
        return found


def _fixed(along: Along | None, bindings: Mapping[SizeExpr, Size]) -> Along | None:
    return along if along is None or isinstance(along.unit, int) else Along(along.dim, substitute(along.unit, bindings))


class Signature(NamedTuple):
    """What a rule depends on, and the sizes that it does not depend on.

    The first ones are sizes of operands: `dims` says of which and of which dim. `attrs` are the attributes, whose sizes
    are the others, with places in `values` instead of sizes.
    """

    key: tuple[object, ...]
    values: tuple[Size, ...]
    dims: tuple[tuple[int, int], ...]
    attrs: Mapping[str, object]

    def of_trace(self, types: Sequence[TensorType], attrs: Mapping[str, object]) -> Signature:
        """The signature of a call of a trace, of which this one is an example: with its sizes."""
        values = list(self.values)
        values[: len(self.dims)] = [types[operand].shape[dim] for operand, dim in self.dims]
        for name, at in self.attrs.items():
            _place(values, at, attrs[name])
        return self._replace(values=tuple(values))

    def local(self, shapes: Sequence[Sequence[Size]], sizes: Mapping[tuple[str, int], Size]) -> tuple[Size, ...]:
        """The sizes of a rank's call: of operands of `shapes`, with `sizes` of its own among the attributes."""
        values = list(self.values)
        values[: len(self.dims)] = [shapes[operand][dim] for operand, dim in self.dims]
        for (name, place), size in sizes.items():
            at = self.attrs[name]
            at = at[place] if isinstance(at, tuple) else at
            if isinstance(at, Placeholder):
                values[at] = size
        return tuple(values)


def _place(values: list[Size], at: object, value: object) -> None:
    if isinstance(at, Placeholder):
        assert isinstance(value, (int, SizeExpr))
        values[at] = value
    elif isinstance(at, tuple) and isinstance(value, tuple):
        for inner, part in zip(at, value, strict=True):
            _place(values, inner, part)


class Placeholder(int):
    """The place of a size among the values of a signature."""

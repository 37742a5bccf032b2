"""In which of its operands a call is linear: of partial sums of these it makes partial sums."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Sequence

from rushlight.distributed.tensor.loops import Bodies
from rushlight.distributed.tensor.rule import Linear
from rushlight.ir.dtype import Kind
from rushlight.ir.loops import Scatter
from rushlight.ir.scalar import OPS, SUMS, Scalar

_MOST_SUBSETS = 4  # operands of which all subsets are asked whether the result is linear in them


def is_zero(scalar: Scalar) -> bool:
    """Whether a scalar is the constant 0."""
    return scalar.op is OPS["constant"] and not scalar.attr("value")


def is_linear(bodies: Bodies, scalar: Scalar, operands: Collection[int]) -> bool:
    """Whether a scalar is linear in some operands jointly."""
    return bool(operands) and _degree_of(bodies, scalar, tuple(operands)) in (_LINEAR, _MOVED)


def linear_sets(bodies: Bodies) -> Iterator[Linear]:
    """The sets of operands that may be partial at once, the largest first."""
    inexact = [position for position, buffer in enumerate(bodies.buffers) if buffer.type.dtype.kind >= Kind.FLOAT]
    if any(type_.dtype.kind < Kind.FLOAT for type_ in bodies.results):
        inexact = []
    lengths = range(len(inexact), 0, -1) if len(inexact) <= _MOST_SUBSETS else (len(inexact), 1)
    for length in lengths:
        for chosen in itertools.combinations(inexact, length):
            degrees = [_degree_of(bodies, body, chosen) for body in bodies.bodies]
            if all(degree in (_LINEAR, _MOVED) for degree in degrees):
                yield Linear(frozenset(chosen), length == 1 and all(degree == _MOVED for degree in degrees))
    whole = [position for position, buffer in enumerate(bodies.buffers) if buffer.type.dtype.kind < Kind.FLOAT]
    if len(bodies.buffers) == 1 and whole and _degree_of(bodies, bodies.bodies[0], (0,)) == _MOVED:
        yield Linear(frozenset((0,)), True)


_FREE, _ZERO, _MOVED, _LINEAR, _OTHER = range(5)


def _degree_of(bodies: Bodies, body: Scalar | Scatter, chosen: Sequence[int]) -> int:
    partial = {id(bodies.buffers[position]) for position in chosen}
    degrees = _Degrees(partial)
    if not isinstance(body, Scatter):
        return degrees.of(body)
    if any(isinstance(index, Scalar) and degrees.of(index) != _FREE for index in body.index):
        return _OTHER
    if body.combine not in ("sum", "set"):
        return _OTHER
    ends = {degrees.of(body.initial), degrees.of(body.value)}
    return _LINEAR if ends <= {_ZERO, _MOVED, _LINEAR} and ends != {_ZERO} else _OTHER


class _Degrees:
    """How scalars depend on partial operands: not at all, as their elements are, linearly, or otherwise."""

    def __init__(self, partial: set[int]) -> None:
        self._partial = partial
        self._known: dict[int, int] = {}

    def of(self, scalar: Scalar) -> int:
        """The degree of one scalar."""
        known = self._known.get(id(scalar))
        if known is None:
            known = self._known[id(scalar)] = self._find(scalar)
        return known

    def _find(self, scalar: Scalar) -> int:
        degrees = [self.of(operand) for operand in scalar.operands]
        name = scalar.op.name
        if name == "load":
            if any(degree not in (_FREE, _ZERO) for degree in degrees):
                return _OTHER
            return _MOVED if id(scalar.attr("buffer")) in self._partial else _FREE
        if is_zero(scalar):
            return _ZERO
        if all(degree in (_FREE, _ZERO) for degree in degrees):
            return _FREE
        if _OTHER in degrees:
            return _OTHER
        return self._composed(name, scalar, degrees)

    def _composed(self, name: str, scalar: Scalar, degrees: list[int]) -> int:
        homogeneous = all(degree != _FREE for degree in degrees)
        if name == "cast":
            source = scalar.operands[0].type.kind
            return degrees[0] if source is scalar.type.kind and source >= Kind.FLOAT else _OTHER
        if name in ("select", "guard"):
            if degrees[0] not in (_FREE, _ZERO) or _FREE in degrees[1:]:
                return _OTHER
            return _MOVED if degrees[1] == degrees[2] == _MOVED else _LINEAR
        if name in ("add", "sub", "complex"):
            return _LINEAR if homogeneous else _OTHER
        if name in ("neg", "real", "imag"):
            return _LINEAR
        if name in ("mul", "contract"):
            return _LINEAR if _FREE in degrees or _ZERO in degrees else _OTHER
        if name == "div":
            return _LINEAR if degrees[1] == _FREE else _OTHER
        if name == "fma":
            scales = _FREE in degrees[:2] or _ZERO in degrees[:2]
            scaled = any(degree in (_MOVED, _LINEAR) for degree in degrees[:2])
            return _LINEAR if scales and (scaled or _ZERO in degrees[:2]) and degrees[2] != _FREE else _OTHER
        if name == "reduce":
            return _LINEAR if scalar.attr("kind") in SUMS else _OTHER
        return _OTHER

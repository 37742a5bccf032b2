"""Integer solutions of linear equalities and inequalities, by the Omega test (Pugh, CACM 35:8, 1992).

Equalities are solved for a variable, if need be after a change of variables that makes a coefficient 1. Variables of
inequalities are eliminated in pairs of a lower and an upper bound. Where all pairs have a coefficient of 1 that loses
nothing; otherwise a solution is looked for in the dark shadow, over which there surely is an integer, and then close
above each lower bound, where all others are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import gcd
from typing import NamedTuple

from rushlight.support.errors import fail

Coefficients = tuple[tuple[int, int], ...]  # (variable, coefficient) by variable, no coefficient being 0


class Linear(NamedTuple):
    """A linear form: a sum of variables with coefficients, and a constant."""

    coefficients: Coefficients
    constant: int

    def value(self, values: Mapping[int, int]) -> int:
        """Its value; variables without one count as 0."""
        return self.constant + sum([scale * values.get(variable, 0) for variable, scale in self.coefficients])


def linear(table: Mapping[int, int], constant: int) -> Linear:
    """The form with these coefficients."""
    return Linear(tuple(sorted([pair for pair in table.items() if pair[1]])), constant)


def combined(a: Linear, scale: int, b: Linear, other: int) -> Linear:
    """scale*a + other*b."""
    table = {variable: scale * part for variable, part in a.coefficients}
    for variable, part in b.coefficients:
        table[variable] = table.get(variable, 0) + other * part
    return linear(table, scale * a.constant + other * b.constant)


class Effort:
    """How much work is left, and the next variable that nobody uses."""

    def __init__(self, steps: int, variable: int) -> None:
        self.steps = steps
        self.variable = variable

    def spend(self, steps: int) -> None:
        """C023 where nothing is left."""
        self.steps -= steps
        if self.steps < 0:
            fail("C023", "sizes: whether some sizes satisfy all assumptions was not decided within the effort allowed")

    def new_variable(self) -> int:
        """A variable that occurs nowhere yet."""
        self.variable += 1
        return self.variable - 1


class _Solved(NamedTuple):
    """A variable that was eliminated by an equality."""

    variable: int
    image: Linear


class _Bounded(NamedTuple):
    """A variable that was eliminated between its bounds: forms that are at least 0."""

    variable: int
    lower: list[Linear]
    upper: list[Linear]


class _Trail(NamedTuple):
    """What was eliminated, latest first."""

    step: _Solved | _Bounded
    before: _Trail | None


class _System(NamedTuple):
    zero: list[Linear]
    nonnegative: list[Linear]
    trail: _Trail | None


class _Gap(NamedTuple):
    """What the dark shadow leaves out, when this variable is eliminated."""

    system: _System
    variable: int


def solve(zero: Iterable[Linear], nonnegative: Iterable[Linear], effort: Effort) -> dict[int, int] | None:
    """Values that make the forms in `zero` 0 and those in `nonnegative` at least 0, or None.

    Variables that are left out may have any value. Values are near their lower bounds. Errors: C023.
    """
    pending: list[_System | _Gap] = [_System(list(zero), list(nonnegative), None)]
    while pending:
        task = pending.pop()
        if isinstance(task, _Gap):
            if _has_real_points(task.system, effort):
                pending.extend(_splinters(task, effort))
            continue
        system = _normalized(task, effort)
        while system is not None and (system.zero or system.nonnegative):
            if not system.zero:
                variable, exact = _cheapest(system.nonnegative)
                if not exact:
                    pending.append(_Gap(system, variable))
            system = _reduced(system, effort, dark=True)
        if system is not None:
            return _values(system.trail)
    return None


def _has_real_points(system: _System | None, effort: Effort) -> bool:
    """Whether the real shadow, with coefficients in lowest terms, has points; else there are no integers."""
    while system is not None and (system.zero or system.nonnegative):
        system = _reduced(system, effort, dark=False)
    return system is not None


def _reduced(system: _System, effort: Effort, dark: bool) -> _System | None:
    """The system with a variable less, normalized."""
    if system.zero:
        return _normalized(_without_equality(system, effort), effort)
    return _normalized(_without_variable(system, effort, dark), effort)


def _normalized(system: _System, effort: Effort) -> _System | None:
    """Brings coefficients to lowest terms and keeps one bound a direction; None if contradictory."""
    effort.spend(1 + len(system.zero) + len(system.nonnegative))
    zero: dict[Linear, None] = {}
    for form in system.zero:
        number = gcd(*[scale for _, scale in form.coefficients])
        if form.constant % number if number else form.constant:
            return None
        if number:
            zero[_divided(form, number)] = None
    least: dict[Coefficients, int] = {}
    for form in system.nonnegative:
        number = gcd(*[scale for _, scale in form.coefficients])
        if number:
            coefficients, constant = _divided(form, number)
            least[coefficients] = min(constant, least.get(coefficients, constant))
        elif form.constant < 0:
            return None
    for coefficients, constant in list(least.items()):
        opposite = tuple([(variable, -scale) for variable, scale in coefficients])
        room = constant + least.get(opposite, -constant + 1)
        if room < 0:
            return None
        if room == 0:
            del least[coefficients], least[opposite]
            zero[Linear(coefficients, constant)] = None
    return _System(list(zero), [Linear(*pair) for pair in least.items()], system.trail)


def _divided(form: Linear, number: int) -> Linear:
    if number == 1:
        return form
    return Linear(
        tuple([(variable, scale // number) for variable, scale in form.coefficients]), form.constant // number
    )


def _without_equality(system: _System, effort: Effort) -> _System:
    """Eliminates the variable with the least coefficient from an equality.

    A new variable takes its place unless that coefficient is 1 or -1.
    """
    _, index = min([(min([abs(scale) for _, scale in form.coefficients]), at) for at, form in enumerate(system.zero)])
    form = system.zero[index]
    scale, variable = min([(scale, variable) for variable, scale in form.coefficients], key=lambda pair: abs(pair[0]))
    sign = 1 if scale > 0 else -1
    rest = Linear(
        tuple([coefficient for coefficient in form.coefficients if coefficient[0] != variable]), form.constant
    )
    kept = system.zero
    if abs(scale) == 1:
        image = combined(rest, -sign, rest, 0)
        kept = [other for other in system.zero if other is not form]
    else:
        number = abs(scale) + 1
        table = {other: sign * _balanced(part, number) for other, part in rest.coefficients}
        image = linear({**table, effort.new_variable(): -sign * number}, sign * _balanced(form.constant, number))
    zero = [_replaced(other, variable, image) for other in kept]
    nonnegative = [_replaced(other, variable, image) for other in system.nonnegative]
    return _System(zero, nonnegative, _Trail(_Solved(variable, image), system.trail))


def _balanced(value: int, number: int) -> int:
    """The remainder of least magnitude."""
    return value - number * ((2 * value + number) // (2 * number))


def _replaced(form: Linear, variable: int, image: Linear) -> Linear:
    scale = dict(form.coefficients).get(variable, 0)
    if not scale:
        return form
    rest = Linear(
        tuple([coefficient for coefficient in form.coefficients if coefficient[0] != variable]), form.constant
    )
    return combined(rest, 1, image, scale)


def _without_variable(system: _System, effort: Effort, dark: bool) -> _System:
    """Eliminates the variable that is cheapest between its bounds: the dark shadow, or the larger, real one."""
    variable, _ = _cheapest(system.nonnegative)
    lower, upper, rest = _bounds_of(variable, system.nonnegative)
    effort.spend(len(lower) * len(upper))
    shadow: list[Linear] = []
    for a, low in lower:
        for b, high in upper:
            pair = combined(low, b, high, a)
            shadow.append(Linear(pair.coefficients, pair.constant - (a - 1) * (b - 1) * dark))
    step = _Bounded(variable, [form for _, form in lower], [form for _, form in upper])
    return _System([], rest + shadow, _Trail(step, system.trail))


_Scaled = list[tuple[int, Linear]]


def _bounds_of(variable: int, forms: Iterable[Linear]) -> tuple[_Scaled, _Scaled, list[Linear]]:
    """The forms that bound a variable from below, those from above, and the rest.

    A bound comes with the magnitude of the variable's coefficient.
    """
    lower: _Scaled = []
    upper: _Scaled = []
    rest: list[Linear] = []
    for form in forms:
        scale = dict(form.coefficients).get(variable, 0)
        if not scale:
            rest.append(form)
        else:
            (lower if scale > 0 else upper).append((abs(scale), form))
    return lower, upper, rest


def _cheapest(forms: Sequence[Linear]) -> tuple[int, bool]:
    """The variable to eliminate next, and whether that is exact.

    Exact eliminations come first, then those that leave the fewest forms.
    """
    signs: dict[int, list[int]] = {}
    for form in forms:
        for variable, scale in form.coefficients:
            signs.setdefault(variable, []).append(scale)
    best: tuple[bool, int, int] | None = None
    for variable, scales in signs.items():
        lower, upper = [scale for scale in scales if scale > 0], [scale for scale in scales if scale < 0]
        loses = bool(lower and upper) and max(lower) > 1 and min(upper) < -1
        cost = (loses, len(lower) * len(upper) - len(scales), variable)
        best = cost if best is None else min(best, cost)
    assert best is not None
    return best[2], not best[0]


def _splinters(gap: _Gap, effort: Effort) -> list[_System]:
    """The systems with the variable close above a lower bound, where the dark shadow misses points."""
    lower, upper, _ = _bounds_of(gap.variable, gap.system.nonnegative)
    most = max([scale for scale, _ in upper])
    systems: list[_System] = []
    for scale, form in lower:
        for distance in range((most * scale - most - scale) // most + 1):
            effort.spend(1)
            equal = Linear(form.coefficients, form.constant - distance)
            systems.append(_System([equal], gap.system.nonnegative, gap.system.trail))
    return systems


def _values(trail: _Trail | None) -> dict[int, int]:
    """The variables' values, worked out from the last eliminated to the first."""
    values: dict[int, int] = {}
    while trail is not None:
        step, trail = trail
        for form in (step.image,) if isinstance(step, _Solved) else (*step.lower, *step.upper):
            for variable, _ in form.coefficients:
                if variable != step.variable:
                    values.setdefault(variable, 0)
        values[step.variable] = step.image.value(values) if isinstance(step, _Solved) else _between(step, values)
    return values


def _between(step: _Bounded, values: Mapping[int, int]) -> int:
    """The value nearest to the lower bound, or to 0 where there is none."""
    without = {**values, step.variable: 0}
    scales = [dict(form.coefficients)[step.variable] for form in (*step.lower, *step.upper)]
    ends = [form.value(without) for form in (*step.lower, *step.upper)]
    lower = [-(end // scale) for end, scale in zip(ends, scales, strict=True) if scale > 0]
    upper = [end // -scale for end, scale in zip(ends, scales, strict=True) if scale < 0]
    return max(lower) if lower else min([0, *upper])

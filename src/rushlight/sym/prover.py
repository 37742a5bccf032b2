"""Proofs that an expression is never negative, from what its symbols are born with.

The expression is read as a polynomial. Loop axes and quotients are eliminated, youngest first, by putting in the
value at which the polynomial is least: an axis is 0 or size - 1, depending on the sign of its coefficient; of
q = x // n we know x - n + 1 <= n*q <= x. What is left is a polynomial in sizes; each is shifted by its lower bound,
and if no coefficient is negative then, nor is the value. A failed proof says nothing.

All values are integers, so p >= 0 follows from k*p + k - 1 >= 0: that is asked instead, for the least k with which the
coefficient of q is a multiple of n.

A loop that is entered has a size of at least 1, and so has a divisor: both may be assumed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import gcd

from rushlight.sym.expr import FLOORDIV, MAXIMUM, MINIMUM, SYMBOL, Size, SizeExpr, atoms_of, constant_of, terms
from rushlight.sym.interval import Interval, declared_bounds, times
from rushlight.sym.memo import memo_of_two

Monomial = tuple[SizeExpr, ...]  # atoms by serial, repeated as powers
Polynomial = dict[Monomial, int]

_LONGEST = 32  # parts of a polynomial beyond which only intervals are asked
_STEPS = 64  # eliminations in one proof, over all branches
_DEEPEST = 4  # proofs about signs of coefficients within proofs


def proves_nonnegative(e: Size, positive: tuple[Size, ...] = ()) -> bool:
    """Whether e >= 0 follows from declared bounds and from every `positive` being at least 1."""
    lower, upper = declared_bounds(e)
    if lower is not None and lower >= 0:
        return True
    if isinstance(e, int) or (upper is not None and upper < 0) or e.count > _LONGEST:
        return False
    if not positive and all(product.op is SYMBOL and product.facts.size is None for product, _ in terms(e)):
        return False  # for a linear form in sizes the interval is exact
    return _proves(e, positive)


def proves_at_most(a: Size, b: Size, positive: tuple[Size, ...] = (), slack: int = 0) -> bool:
    """Whether a + slack <= b is proved; `positive` as in `proves_nonnegative`. Faster than building b - a - slack."""
    most, least = declared_bounds(a)[1], declared_bounds(b)[0]
    if most is not None and least is not None and most + slack <= least:
        return True
    if (isinstance(a, SizeExpr) and a.count > _LONGEST) or (isinstance(b, SizeExpr) and b.count > _LONGEST):
        return False
    polynomial = to_polynomial(b)
    _add(polynomial, to_polynomial(a), -1)
    _add(polynomial, {(): slack}, -1)
    return _Proof(polynomial, positive).nonnegative(polynomial, 0)


@memo_of_two
def _proves(e: SizeExpr, positive: tuple[Size, ...]) -> bool:
    polynomial = to_polynomial(e)
    return _Proof(polynomial, positive).nonnegative(polynomial, 0)


def to_polynomial(e: Size) -> Polynomial:
    """The parts of the sum by their atoms; the constant has none."""
    polynomial: Polynomial = {atoms_of(product): coefficient for product, coefficient in terms(e)}
    if constant := constant_of(e):
        polynomial[()] = constant
    return polynomial


def by_serial(atom: SizeExpr) -> int:
    """The order of atoms in a monomial."""
    return atom.serial


def _add(into: Polynomial, other: Polynomial, scale: int) -> None:
    """into += scale * other."""
    for atoms, coefficient in other.items():
        value = into.get(atoms, 0) + scale * coefficient
        if value:
            into[atoms] = value
        else:
            into.pop(atoms, None)


def _add_scaled(into: Polynomial, factor: Polynomial, other: Polynomial) -> None:
    """into += factor * other."""
    for atoms, coefficient in factor.items():
        for more, scale in other.items():
            key = tuple(sorted(atoms + more, key=by_serial)) if atoms and more else atoms or more
            value = into.get(key, 0) + coefficient * scale
            if value:
                into[key] = value
            else:
                into.pop(key, None)


def _scaled(polynomial: Polynomial, scale: int) -> Polynomial:
    return {atoms: scale * coefficient for atoms, coefficient in polynomial.items()}


class _Proof:
    """One attempt, with what it may assume and what work is left to it."""

    def __init__(self, polynomial: Polynomial, positive: Iterable[Size]) -> None:
        self.steps = _STEPS
        self.least: dict[SizeExpr, int] = {}  # bounds of atoms that are better than at birth
        self.most: dict[SizeExpr, int] = {}
        self.positive: list[Polynomial] = []  # sums that are at least 1
        for size in positive:
            self._assume_positive(size)
        seen: set[SizeExpr] = set()
        for atoms in polynomial:
            self._assume_loops_run(atoms, seen)

    def _assume_loops_run(self, atoms: Iterable[SizeExpr], seen: set[SizeExpr]) -> None:
        for atom in atoms:
            if atom in seen:
                continue
            seen.add(atom)
            if atom.op is SYMBOL and atom.facts.size is not None:
                self._assume_positive(atom.facts.size)
            elif atom.op is FLOORDIV:
                dividend, divisor = atom.operands
                self._assume_positive(divisor)
                for product, _ in terms(dividend):
                    inner = [factor for factor in atoms_of(product) if factor.op is SYMBOL]
                    self._assume_loops_run(inner, seen)

    def _assume_positive(self, size: Size) -> None:
        if isinstance(size, int):
            return
        parts = to_polynomial(size)
        constant = parts.pop((), 0)
        if len(parts) == 1 and not constant:
            (atoms,) = parts
            if all(self._is_nonnegative(atom) for atom in atoms):
                for atom in atoms:
                    self._raise_least(atom, 1)
                return
        elif len(parts) == 1:
            ((atoms, coefficient),) = parts.items()
            if len(atoms) == 1 and coefficient == 1:
                self._raise_least(atoms[0], 1 - constant)
                return
            if len(atoms) == 1 and coefficient == -1:
                self.most[atoms[0]] = min(constant - 1, self.most.get(atoms[0], constant))
                return
        if constant:
            parts[()] = constant
        self.positive.append(parts)

    def _raise_least(self, atom: SizeExpr, value: int) -> None:
        lower = self._lower(atom)
        self.least[atom] = value if lower is None else max(lower, value)

    def _lower(self, atom: SizeExpr) -> int | None:
        bound = self.least.get(atom)
        return declared_bounds(atom)[0] if bound is None else bound

    def _is_nonnegative(self, atom: SizeExpr) -> bool:
        lower = self._lower(atom)
        return lower is not None and lower >= 0

    def _bounds_of(self, atom: SizeExpr) -> Interval:
        lower, upper = declared_bounds(atom)
        return (self.least.get(atom, lower), self.most.get(atom, upper))

    def _interval(self, polynomial: Polynomial) -> Interval:
        low: int | None = 0
        high: int | None = 0
        for atoms, coefficient in polynomial.items():
            lower, upper = self._interval_of_monomial(atoms)
            if coefficient < 0:
                lower, upper = upper, lower
            low = None if low is None or lower is None else low + coefficient * lower
            high = None if high is None or upper is None else high + coefficient * upper
            if low is None and high is None:
                break
        return low, high

    def _interval_of_monomial(self, atoms: Monomial) -> Interval:
        low: int | None = 1
        high: int | None = 1
        for atom in atoms:
            lower, upper = self._bounds_of(atom)
            if low is not None and low >= 0 and lower is not None and lower >= 0:
                low, high = low * lower, None if high is None or upper is None else high * upper
            else:
                low, high = times((low, high), (lower, upper))
        return low, high

    def nonnegative(self, polynomial: Polynomial, depth: int) -> bool:
        """Whether the polynomial is provably at least 0."""
        while True:
            if self.steps <= 0 or len(polynomial) > 4 * _LONGEST:
                return False
            self.steps -= 1
            lower, upper = self._interval(polynomial)
            if lower is not None and lower >= 0:
                return True
            if upper is not None and upper < 0:
                return False
            atom = self._next_to_eliminate(polynomial)
            if atom is None:
                return self._nonnegative_shifted(polynomial) or self._follows(polynomial, depth)
            ways = self._eliminate(polynomial, atom, depth)
            if len(ways) == 1 and len(ways[0]) == 1:
                polynomial = ways[0][0]
                continue
            return any(all(self.nonnegative(branch, depth) for branch in branches) for branches in ways)

    def _next_to_eliminate(self, polynomial: Polynomial) -> SizeExpr | None:
        best: SizeExpr | None = None
        for atoms in polynomial:
            for atom in reversed(atoms):
                if best is not None and atom.serial <= best.serial:
                    break
                if atom.op is not SYMBOL or atom.facts.size is not None:
                    best = atom
                    break
        if best is None or best.op not in (MINIMUM, MAXIMUM):
            return best
        # The bound of -min(a, b) may be chosen, those of min(a, b) must all hold: the choice comes last, case by case.
        forced = [
            atoms[0]
            for atoms, coefficient in polynomial.items()
            if len(atoms) == 1 and atoms[0].op is (MINIMUM if coefficient > 0 else MAXIMUM)
        ]
        return max(forced, key=by_serial, default=best)

    def _eliminate(self, polynomial: Polynomial, atom: SizeExpr, depth: int) -> list[list[Polynomial]]:
        """Ways to do without `atom`: lists of polynomials of which one is less than 0 wherever the one given is."""
        rest: Polynomial = {}
        factor: Polynomial = {}
        for atoms, coefficient in polynomial.items():
            if atom not in atoms:
                rest[atoms] = coefficient
                continue
            index = atoms.index(atom)
            remaining = atoms[:index] + atoms[index + 1 :]
            if atom in remaining:
                return []
            factor[remaining] = coefficient
        scale = _scale_to_divide(factor, atom.operands[1]) if atom.op is FLOORDIV else 1
        if scale > 1:
            rest, factor = _scaled(rest, scale), _scaled(factor, scale)
            _add(rest, {(): scale - 1}, 1)
        ways: list[list[Polynomial]] = []
        for bounds in self._bounds(atom, factor, self._sign(factor, depth)):
            branches: list[Polynomial] = []
            for bound, weight in bounds:
                new = dict(rest)
                _add_scaled(new, weight, bound)
                branches.append(new)
            ways.append(branches)
        return ways

    def _bounds(self, atom: SizeExpr, factor: Polynomial, sign: int) -> list[list[tuple[Polynomial, Polynomial]]]:
        """Ways to bound factor * atom, whose factor has this sign (0: unknown), from below.

        Each is a list of pairs (bound, weight), with weight * bound <= factor * atom for one of the pairs.
        """
        if atom.op is SYMBOL:
            last = to_polynomial(0 if atom.facts.size is None else atom.facts.size)
            _add(last, {(): 1}, -1)
            return [[(end, factor) for end in ([{}], [{}, last], [last])[1 - sign]]]
        ways: list[list[tuple[Polynomial, Polynomial]]] = []
        if atom.op is FLOORDIV:
            weight = _divided(factor, atom.operands[1]) if sign else None
            if weight is not None:
                ways.append([(_product_with_divisor(atom, sign), weight)])
        else:
            values = [(to_polynomial(operand), factor) for operand in atom.operands]
            one_is_enough = (atom.op is MINIMUM and sign < 0) or (atom.op is MAXIMUM and sign > 0)
            ways.extend([[value] for value in values] if one_is_enough else [values])
        end = self._bounds_of(atom)[0 if sign > 0 else 1] if sign else None
        if end is not None:
            ways.append([({(): end} if end else {}, factor)])
        return ways

    def _sign(self, factor: Polynomial, depth: int) -> int:
        """1 if the polynomial is provably at least 0, -1 if at most 0, 0 if neither is known."""
        simple = [
            (coefficient > 0) - (coefficient < 0) if all(self._is_nonnegative(atom) for atom in atoms) else 0
            for atoms, coefficient in factor.items()
        ]
        if all(sign > 0 for sign in simple):
            return 1
        if all(sign < 0 for sign in simple):
            return -1
        for positive in self.positive:
            sign = _sign_of_multiple(factor, positive)
            if sign:
                return sign
        if depth >= _DEEPEST:
            return 0
        if self.nonnegative(factor, depth + 1):
            return 1
        return -1 if self.nonnegative(_scaled(factor, -1), depth + 1) else 0

    def _follows(self, polynomial: Polynomial, depth: int) -> bool:
        """Whether taking a multiple of one assumption off, so that a part goes, leaves something provable."""
        if depth >= _DEEPEST:
            return False
        for assumption in self.positive:
            for atoms, coefficient in assumption.items():
                for monomial, part in polynomial.items() if atoms else ():
                    factor = without_atoms(monomial, atoms) if part * coefficient > 0 else None
                    if factor is None or not all(self._is_nonnegative(atom) for atom in factor):
                        continue
                    # |coefficient| * polynomial - |part| * factor * (assumption - 1) no longer has the monomial.
                    left: Polynomial = {}
                    _add(left, polynomial, abs(coefficient))
                    _add_scaled(left, {factor: -abs(part)}, assumption)
                    _add_scaled(left, {factor: abs(part)}, {(): 1})
                    if self.nonnegative(left, depth + 1):
                        return True
        return False

    def _nonnegative_shifted(self, polynomial: Polynomial) -> bool:
        """Whether no coefficient is negative once each atom is written as its lower bound plus something."""
        shifted: Polynomial = {}
        for atoms, coefficient in polynomial.items():
            part: Polynomial = {(): coefficient}
            for atom in atoms:
                lower = self._lower(atom)
                if lower is None or lower < 0 or len(part) > _LONGEST:
                    return False
                step: Polynomial = {(atom,): 1, (): lower} if lower else {(atom,): 1}
                grown: Polynomial = {}
                _add_scaled(grown, part, step)
                part = grown
            _add(shifted, part, 1)
        return all(coefficient >= 0 for coefficient in shifted.values())


def _product_with_divisor(quotient: SizeExpr, sign: int) -> Polynomial:
    """What divisor * quotient is at least (sign > 0), or at most."""
    dividend, divisor = quotient.operands
    bound = to_polynomial(dividend)
    if sign > 0:
        _add(bound, to_polynomial(divisor), -1)
        _add(bound, {(): 1}, 1)
    return bound


def _scale_to_divide(factor: Polynomial, divisor: Size) -> int:
    """The least multiple of a factor that the integer of a divisor divides, which is one product."""
    parts = to_polynomial(divisor)
    if len(parts) != 1:
        return 1
    (scale,) = parts.values()
    return abs(scale) // gcd(scale, *factor.values())


def _divided(factor: Polynomial, divisor: Size) -> Polynomial | None:
    """factor / divisor if it is exact and the divisor is one product."""
    parts = to_polynomial(divisor)
    if len(parts) != 1:
        return None
    ((atoms, scale),) = parts.items()
    result: Polynomial = {}
    for monomial, coefficient in factor.items():
        remaining = without_atoms(monomial, atoms)
        if remaining is None or coefficient % scale:
            return None
        result[remaining] = coefficient // scale
    return result


def without_atoms(monomial: Monomial, atoms: Monomial) -> Monomial | None:
    """The monomial divided by the product of `atoms`, or None if it is no multiple."""
    if not atoms:
        return monomial
    left = list(monomial)
    for atom in atoms:
        if atom not in left:
            return None
        left.remove(atom)
    return tuple(left)


def _sign_of_multiple(factor: Polynomial, total: Mapping[Monomial, int]) -> int:
    """1 or -1 if `factor` is an integer multiple of the sum `total`, which is positive; else 0."""
    if len(factor) != len(total):
        return 0
    ratio = 0
    for atoms, scale in total.items():
        coefficient = factor.get(atoms, 0)
        if not coefficient or coefficient % scale or (ratio and coefficient // scale != ratio):
            return 0
        ratio = coefficient // scale
    return 1 if ratio > 0 else -1

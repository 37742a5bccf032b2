"""What one scope has learned of its symbols: equalities, intervals and divisors, and the queries that use them.

Queries are memoised on every node they visit, and sums share nodes with the sums that they were built from, so a
query about a sum that grew by one part costs the logarithm of its length. Learning about a symbol that no memo has
read leaves the memos as they are; otherwise they are emptied. `version` counts the facts.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import gcd, lcm

from rushlight.sym.arithmetic import multiply
from rushlight.sym.condition import (
    Condition,
    condition,
    content,
    decide,
    is_linear_in_sizes,
    lone_symbols,
    normalized,
)
from rushlight.sym.division import mod
from rushlight.sym.equalities import Equalities
from rushlight.sym.expr import (
    FLOORDIV,
    SUM,
    SYMBOL,
    Size,
    SizeExpr,
    atoms_of,
    constant_of,
    newest_coefficient,
    sum_of_table,
    terms,
    with_constant,
)
from rushlight.sym.interval import (
    EVERYTHING,
    Interval,
    Lookup,
    declared_bounds,
    declared_symbol_bounds,
    fold_bounds,
    interval_of_parts,
    meet,
)
from rushlight.sym.prover import proves_nonnegative
from rushlight.sym.query import free_symbols, symbols_of

_LONGEST = 64  # parts of a fact that is indexed by its symbols, to be read anew when one of them is replaced
_MOST_ANSWERS = 4096
_SHORT = 16  # parts of expressions, and number of facts, that proofs deal with


class Knowledge:
    """Equalities, intervals and divisors learned since the symbols' birth."""

    def __init__(self) -> None:
        self.version = 0
        self.equalities = Equalities()
        self.facts: dict[Condition, None] = {}  # all that was learned, in order, as it was said
        self._intervals: dict[SizeExpr, Interval] = {}  # of sums without constant, in a condition's canonical form
        self._forms_about: dict[SizeExpr, list[SizeExpr]] = {}  # those intervals by the symbols in them
        self._multiples: dict[SizeExpr, int] = {}
        self._true: dict[Condition, None] = {}  # facts as they were when they were learned, resolved
        self._facts_about: dict[SizeExpr, list[Condition]] = {}
        self._bounds: dict[SizeExpr, Interval] = {}  # memo
        self._answers: dict[Condition, bool | None] = {}  # memo, since the last fact

    def copy(self) -> Knowledge:
        """The same knowledge, which grows by itself from now on."""
        other = Knowledge()
        vars(other).update({name: _copied(value) for name, value in vars(self).items()})
        return other

    def resolve(self, e: Size) -> Size:
        """`e` with each symbol replaced by what it is known to equal."""
        return self.equalities.resolve(e)

    def bounds(self, e: Size) -> Interval:
        """The numeric interval of `e`, from birth and from what was learned."""
        e = self.resolve(e)
        if isinstance(e, int):
            return (e, e)
        if not self._intervals:
            return declared_bounds(e)
        if e.op is SYMBOL and e.facts.size is None:
            return self._symbol_interval(e, self._look_up)
        if _is_short_and_linear(e):
            interval = interval_of_parts(terms(e), constant_of(e), self._interval_of_scoped_symbol)
            if e.count == 1:
                return interval
        else:
            interval = fold_bounds(e, self._look_up, self._remember, self._symbol_interval)
        form, sign, number = _form(e)
        learned = self._intervals.get(form)
        if learned is None:
            return interval
        constant = constant_of(e)
        ends = [None if end is None else sign * number * end + constant for end in learned[::sign]]
        return meet(interval, (ends[0], ends[1]))

    def _look_up(self, e: Size) -> Interval:
        return (e, e) if isinstance(e, int) else self._bounds[e]

    def _remember(self, e: SizeExpr, interval: Interval) -> None:
        learned = self._intervals.get(e)
        self._bounds[e] = interval if learned is None else meet(interval, learned)

    def _interval_of_scoped_symbol(self, e: Size) -> Interval:
        return (e, e) if isinstance(e, int) else self._symbol_interval(e, self._look_up)

    def _symbol_interval(self, symbol: SizeExpr, of: Lookup) -> Interval:
        bounds = declared_symbol_bounds(symbol, of)
        learned = self._intervals.get(symbol)
        return bounds if learned is None else meet(bounds, learned)

    def multiple(self, e: Size) -> int:
        """The greatest integer that is known to divide `e`; 0 for the size 0."""
        result = abs(constant_of(e))
        for product, coefficient in terms(e):
            if result == 1:
                break
            for atom in atoms_of(product):
                if atom.op is SYMBOL:
                    coefficient *= self._divisor_of(atom)
            result = gcd(result, coefficient)
        return result

    def _divisor_of(self, symbol: SizeExpr) -> int:
        return self._multiples.get(symbol, symbol.facts.multiple_of)

    def known(self, asked: bool | Condition) -> bool | None:
        """Whether the condition is known to be true, or to be false; None if neither."""
        if isinstance(asked, bool):
            return asked
        try:
            return self._answers[asked]
        except KeyError:
            pass
        if len(self._answers) >= _MOST_ANSWERS:
            self._answers.clear()
        answer = self._answers[asked] = self._answer(asked)
        return answer

    def _answer(self, asked: Condition) -> bool | None:
        if self.equalities.images:
            resolved = self.resolve(asked.expr)
            if resolved is not asked.expr:
                again = condition(asked.relation, resolved)
                if isinstance(again, bool):
                    return again
                asked = again
        if asked in self._true:
            return True
        if asked.relation == "==" and asked.negate() in self._true:
            return False  # other negations show in the intervals
        return decide(asked, self.bounds(asked.expr), self.multiple, self._prover(asked.expr))

    def _prover(self, e: SizeExpr) -> Callable[[Size], bool] | None:
        """What proves that `e`, or a sum made from it, is never negative; None if intervals say all there is."""
        if e.count > _SHORT:
            return None
        assumed = self._assumptions(e) if self._intervals else ()
        if not assumed:
            return None if is_linear_in_sizes(e) else proves_nonnegative
        return partial(proves_nonnegative, positive=assumed)

    def _assumptions(self, e: SizeExpr) -> tuple[Size, ...]:
        """Expressions known to be at least 1 about the symbols of `e` and those compared with them."""
        assumed: dict[Size, None] = {}
        seen: dict[SizeExpr, None] = {}
        symbols = list(free_symbols(e))
        for symbol in symbols:
            if symbol.facts.size is not None:
                symbols.extend([other for other in free_symbols(symbol.facts.size) if other not in symbols])
            for form in self._forms_about.get(symbol, ()):
                if form in seen or len(assumed) >= _SHORT:
                    continue
                seen[form] = None
                symbols.extend([other for other in free_symbols(form) if other not in symbols])
                lower, upper = self._intervals[form]
                if lower is not None:
                    assumed[form - (lower - 1)] = None
                if upper is not None:
                    assumed[upper + 1 - form] = None
        return tuple(assumed)

    def is_nonnegative(self, e: Size) -> bool:
        """Whether e >= 0 is known."""
        e = self.resolve(e)
        lower = self.bounds(e)[0]
        if lower is not None and lower >= 0:
            return True
        proves = None if isinstance(e, int) else self._prover(e)
        return proves is not None and proves(e)

    def constraints(self) -> list[Condition]:
        """What is known, in terms of symbols that nothing has replaced, in the order in which it was learned.

        Bounds of single symbols are left out: `bounds` tells them.
        """
        facts: dict[Condition, None] = {}
        for fact in self._true:
            resolved = normalized(fact.relation, self.resolve(fact.expr))
            if not isinstance(resolved, bool) and not _is_bound(resolved):
                facts[resolved] = None
        return list(facts)

    def learn(self, fact: Condition) -> None:
        """Takes a condition to be true from now on."""
        if fact in self.facts:
            return
        self.facts[fact] = None
        self.version += 1
        pending: list[Condition] = [fact]
        while pending:
            expr = pending.pop()
            resolved = normalized(expr.relation, self.resolve(expr.expr))
            if not isinstance(resolved, bool):
                pending.extend(self._take(resolved))
        self._answers.clear()

    def _take(self, fact: Condition) -> list[Condition]:
        """Stores a resolved fact; returns older facts that must be read anew."""
        self._answers.clear()
        self._true[fact] = None
        if fact.relation == "==":
            again = self._take_equality(fact.expr)
            if again is not None:
                return again
            self._take_divisor(fact.expr)
        if fact.expr.count <= _LONGEST:
            for symbol in symbols_of(fact.expr):
                self._facts_about.setdefault(symbol, []).append(fact)
        form = with_constant(fact.expr, 0)
        if not isinstance(form, int):
            self._take_interval(form, fact.relation, -constant_of(fact.expr))
        return []

    def _take_interval(self, form: SizeExpr, relation: str, value: int) -> None:
        """Learns `form relation value`."""
        lower, upper = self._intervals.get(form, EVERYTHING)
        if relation == "!=":
            least, most = self.bounds(form)
            if least == value:
                lower = value + 1
            elif most == value:
                upper = value - 1
            else:
                return
        if relation in ("==", ">=") and (lower is None or lower < value):
            lower = value
        if relation in ("==", "<=") and (upper is None or upper > value):
            upper = value
        if form not in self._intervals and form.count <= _SHORT:
            for symbol in symbols_of(form):
                self._forms_about.setdefault(symbol, []).append(form)
        if (lower, upper) != self._intervals.get(form, EVERYTHING):
            self._intervals[form] = (lower, upper)
            self._forget_bounds(form)

    def _forget_bounds(self, form: SizeExpr) -> None:
        if form in self._bounds:
            self._bounds.clear()

    def _take_divisor(self, e: SizeExpr) -> None:
        """Learns from x - n*(x//n) == 0, for a symbol x, that n divides x."""
        table = dict(terms(e)) if e.count == 2 and not constant_of(e) else {}
        for quotient, scale in table.items():
            if quotient.op is not FLOORDIV:
                continue
            symbol, number = quotient.operands
            if isinstance(number, int) and table.get(symbol, 0) * number == -scale and symbol.op is SYMBOL:
                self._multiples[symbol] = lcm(number, self._divisor_of(symbol))

    def _take_equality(self, e: SizeExpr) -> list[Condition] | None:
        """Solves e == 0 for a symbol; None if no symbol stands alone."""
        candidates = [candidate for candidate in lone_symbols(e) if candidate[0].facts.size is None]
        if not candidates:
            return None
        symbol, sign = max(candidates, key=lambda candidate: (candidate[0].facts.hint is None, candidate[0].serial))
        rest = dict(terms(e))
        del rest[symbol]
        image = multiply(-sign, sum_of_table(rest, constant_of(e)))
        self.equalities.replace(symbol, image)
        return [*self._passed_on(symbol, image), *self._facts_about.pop(symbol, [])]

    def _passed_on(self, symbol: SizeExpr, image: Size) -> list[Condition]:
        """What is known of a replaced symbol holds for its image."""
        if isinstance(image, int):
            return []
        facts: list[bool | Condition] = []
        number = self._divisor_of(symbol)
        if image.op is SYMBOL and number > 1:
            self._multiples[image] = lcm(number, self._divisor_of(image))
        elif number > 1:
            facts.append(condition("==", mod(image, number)))
        lower, upper = meet((symbol.facts.lower, symbol.facts.upper), self._intervals.get(symbol, EVERYTHING))
        for relation, bound in ((">=", lower), ("<=", upper)):
            fact = True if bound is None else condition(relation, image - bound)
            if self.known(fact) is None:
                facts.append(fact)
        return [fact for fact in facts if not isinstance(fact, bool)]


def _is_short_and_linear(e: SizeExpr) -> bool:
    return e.count <= 2 and all(product.op is SYMBOL and product.facts.size is None for product, _ in terms(e))


def _is_bound(fact: Condition) -> bool:
    """Whether the fact is a bound of one symbol."""
    e = fact.expr
    return fact.relation in ("<=", ">=") and e.count == 1 and (e if e.op is not SUM else e.operands[0]).op is SYMBOL


def _form(e: SizeExpr) -> tuple[SizeExpr, int, int]:
    """(form, sign, number): `e` without its constant is sign * number * form, and form is canonical in conditions."""
    if e.op is not SUM:
        return e, 1, 1
    number = content(e)
    sign = 1 if newest_coefficient(e) > 0 else -1
    if sign == 1 and number == 1:
        form = with_constant(e, 0)
    else:
        form = sum_of_table({product: sign * scale // number for product, scale in terms(e)}, 0)
    return (e if isinstance(form, int) else form), sign, number


def _copied(value: object) -> object:
    if isinstance(value, dict):
        return {key: list(entry) if isinstance(entry, list) else entry for key, entry in value.items()}
    return value.copy() if isinstance(value, Equalities) else value

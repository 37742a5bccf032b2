"""Hints: the example's value of a size, and plausible values of sizes that no example gives."""

from __future__ import annotations

from collections.abc import Callable

from rushlight.sym.condition import Condition, compares
from rushlight.sym.expr import FLOORDIV, SYMBOL, Size, SizeExpr, below, constant_of, set_memo_hint, terms
from rushlight.sym.knowledge import Knowledge
from rushlight.sym.query import bottom_up, coefficient, evaluate_node, free_symbols

_DEFAULT = 8192  # what an unbacked size is taken to be where its facts allow it
_STARTS = (None, 0, 64)  # where the search for values starts: at the defaults, or near these
_ROUNDS = 48  # passes over the broken facts from one start


def backed_hint(e: Size) -> int | None:
    """The value of `e` for the example; None if a symbol in it is unbacked or an axis. Remembered on each node."""
    if isinstance(e, int):
        return e
    try:
        return e.memo_hint
    except AttributeError:
        pass
    stack = [e]
    while stack:
        node = stack[-1]
        missing = [operand for operand in below(node) if not hasattr(operand, "memo_hint")]
        if missing:
            stack.extend(missing)
            continue
        stack.pop()
        if not hasattr(node, "memo_hint"):
            set_memo_hint(node, _hint_of_node(node))
    return e.memo_hint


def _hint_of_node(node: SizeExpr) -> int | None:
    if node.op is SYMBOL:
        return node.facts.hint
    if any(operand.memo_hint is None for operand in below(node)):
        return None
    return value_of_node(node, lambda operand: operand.memo_hint or 0)


def value_of_node(node: SizeExpr, value: Callable[[SizeExpr], int]) -> int:
    """The node's value. A hint may be 0 where it is a divisor; the quotient is then as good as any."""
    if node.op is FLOORDIV:
        dividend, divisor = [operand if isinstance(operand, int) else value(operand) for operand in node.operands]
        return dividend // divisor if divisor else dividend
    return evaluate_node(node, value)


class Hints:
    """Plausible values for all symbols of a scope: hints, or else values that agree with what is known of the symbol.

    The same facts learned in the same order give the same values in every process.
    """

    def __init__(self, knowledge: Knowledge) -> None:
        self._knowledge = knowledge
        self._values: dict[SizeExpr, int] = {}  # memo of all nodes but unbacked symbols
        self._chosen: dict[SizeExpr, int] = {}  # values of unbacked symbols
        self._unchecked = False

    def value(self, e: Size) -> int:
        """A plausible value of `e`; always answers."""
        if self._unchecked:
            self._unchecked = False
            self._values.clear()
            self._chosen = Solver(self._knowledge).solve()
        e = self._knowledge.resolve(e)
        if isinstance(e, int):
            return e
        values = self._values
        for node in bottom_up(e, known=values):
            values[node] = self._of_symbol(node) if node.op is SYMBOL else value_of_node(node, values.__getitem__)
        return values[e]

    def _of_symbol(self, symbol: SizeExpr) -> int:
        chosen = self._chosen.get(symbol)
        return default_value(symbol, self._knowledge) if chosen is None else chosen

    def facts_changed(self, fact: Condition) -> None:
        """Something was learned: if the values so far do not agree with it, they are worked out anew when asked for."""
        if self._unchecked or backed_hint(fact.expr) is not None:
            return  # what was learned of backed sizes is true of the example
        if fact.relation in ("<=", ">=") and self._is_bound_of_new_symbol(fact.expr):
            return  # default_value() will keep to it
        # An equality may bring the bounds of several symbols together.
        self._unchecked = fact.relation == "==" or not self._holds(fact)

    def _is_bound_of_new_symbol(self, e: SizeExpr) -> bool:
        if e.count != 1 or self._knowledge.resolve(e) is not e:
            return False
        ((product, _),) = terms(e)
        return product.op is SYMBOL and product not in self._values and product not in self._chosen

    def _holds(self, fact: Condition) -> bool:
        return compares(fact.relation, self.value(fact.expr))


def default_value(symbol: SizeExpr, knowledge: Knowledge) -> int:
    """The value of a symbol that agrees with its own bounds and divisors: the hint, or near the preferred value."""
    facts = symbol.facts
    if facts.hint is not None:
        return facts.hint
    if facts.size is not None:
        return 0
    return _nearest(symbol, _DEFAULT if facts.preferred is None else facts.preferred, knowledge)


def _nearest(symbol: SizeExpr, value: int, knowledge: Knowledge) -> int:
    """The value the symbol may have that is nearest to `value`, the lesser of two."""
    lower, upper = knowledge.bounds(symbol)
    step = max(knowledge.multiple(symbol), 1)
    least = None if lower is None else -(-lower // step) * step
    most = None if upper is None else upper // step * step
    down = value // step * step
    value = down if 2 * (value - down) <= step else down + step
    value = value if most is None else min(value, most)
    return value if least is None else max(value, least)


class Solver:
    """Values of unbacked symbols that agree with all facts of a scope.

    Each broken fact is repaired by moving the one symbol in it that breaks the fewest others, and weighs more the
    longer it stays broken (min-conflicts with breakout: Morris, AAAI 1993). Facts that contradict each other, or are
    too entangled for that, leave the best values met.
    """

    def __init__(self, knowledge: Knowledge) -> None:
        self._knowledge = knowledge
        self._facts = knowledge.constraints()
        self._values: dict[SizeExpr, int] = {}
        self._about: dict[SizeExpr, list[Condition]] = {}
        self._weights = dict.fromkeys(self._facts, 1)
        self._visits: dict[tuple[SizeExpr, int], int] = {}
        for fact in self._facts:
            for symbol in free_symbols(fact.expr):
                self._values.setdefault(symbol, default_value(symbol, knowledge))
                if symbol.facts.hint is None and symbol.facts.size is None:
                    self._about.setdefault(symbol, []).append(fact)

    def solve(self) -> dict[SizeExpr, int]:
        """The values of the unbacked symbols that occur in facts."""
        best: dict[SizeExpr, int] = {}
        fewest = len(self._facts) + 1
        # From the default values, so that what no fact forbids stays as it is; failing that, from small ones.
        for start in _STARTS:
            for symbol in self._about:
                wanted = default_value(symbol, self._knowledge) if start is None else start
                self._values[symbol] = _nearest(symbol, wanted, self._knowledge)
            self._visits.clear()
            for _ in range(_ROUNDS):
                broken = [fact for fact in self._facts if not self._holds(fact)]
                if len(broken) < fewest:
                    best, fewest = {symbol: self._values[symbol] for symbol in self._about}, len(broken)
                if not broken:
                    return best
                for fact in broken:
                    self._weights[fact] += 1
                    if not self._holds(fact):
                        self._repair(fact)
        return best

    def _holds(self, fact: Condition) -> bool:
        return compares(fact.relation, self._value(fact.expr))

    def _value(self, e: SizeExpr) -> int:
        values = self._values
        try:
            return constant_of(e) + sum([scale * values[product] for product, scale in terms(e)])
        except KeyError:  # not a sum of symbols alone
            pass
        node_values = dict(values)
        for node in bottom_up(e, known=node_values):
            node_values[node] = value_of_node(node, node_values.__getitem__)
        return node_values[e]

    def _repair(self, fact: Condition) -> None:
        """Makes the move that leaves the fewest facts broken, and among those mends this one best."""
        best: tuple[int, int, int] | None = None
        visits = self._visits
        move: tuple[SizeExpr, int] | None = None
        for symbol in free_symbols(fact.expr):
            if symbol not in self._about:
                continue
            old = self._values[symbol]
            for value in self._candidates(fact, symbol):
                self._values[symbol] = value
                broken = sum([self._weights[other] for other in self._about[symbol] if not self._holds(other)])
                # A value that was tried before costs more each time: two that are equally bad would alternate forever.
                broken += visits.get((symbol, value), 0)
                cost = (broken, _distance(fact.relation, self._value(fact.expr)), abs(value - old))
                if best is None or cost < best:
                    best, move = cost, (symbol, value)
            self._values[symbol] = old
        if move is not None:
            self._values[move[0]] = move[1]
            visits[move] = visits.get(move, 0) + 1

    def _candidates(self, fact: Condition, symbol: SizeExpr) -> list[int]:
        """Other values of the symbol, one of which mends the fact if the symbol alone can."""
        old, value = self._values[symbol], self._value(fact.expr)
        step = max(self._knowledge.multiple(symbol), 1)
        self._values[symbol] = old + step
        slope = self._value(fact.expr) - value
        self._values[symbol] = old
        wanted = [old - step, old + step, old // 2, old * 2, 0, 1]
        if slope:
            exact = -value * step // slope  # where a linear expression is 0
            wanted = [old + exact, old + exact - step, old + exact + step, *wanted]
        wanted.extend(self._crossing(fact, symbol))
        near = [_nearest(symbol, target, self._knowledge) for target in wanted]
        return [target for target in dict.fromkeys(near) if target != old]

    def _crossing(self, fact: Condition, symbol: SizeExpr) -> list[int]:
        """The two neighbours between 0 and the symbol's value where a nonlinear expression changes its sign."""
        old, step = self._values[symbol], max(self._knowledge.multiple(symbol), 1)
        if coefficient(fact.expr, symbol) is not None:
            return []
        low, high = 0, old // step
        ends: list[bool] = []
        for end in (low, high):
            self._values[symbol] = end * step
            ends.append(self._value(fact.expr) > 0)
        while ends[0] != ends[1] and high - low > 1:
            middle = (low + high) // 2
            self._values[symbol] = middle * step
            low, high = (middle, high) if (self._value(fact.expr) > 0) == ends[0] else (low, middle)
        self._values[symbol] = old
        return [low * step, high * step] if ends[0] != ends[1] else []


def _distance(relation: str, value: int) -> int:
    """How far the value is from `value relation 0`."""
    if compares(relation, value):
        return 0
    return 1 if relation == "!=" else abs(value)

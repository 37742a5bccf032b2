"""Points that satisfy conditions on sizes, or a proof that there are none: what coverage of a domain is decided by.

Exact for linear conditions, with floor divisions and remainders by integers, minima and maxima. Other parts (products
of sizes, divisions by sizes) are taken for integers of which nothing is known but their bounds: that no point exists is
then a proof all the same, and a point is given only where it truly satisfies the conditions.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rushlight.support.errors import fail
from rushlight.sym.condition import Condition
from rushlight.sym.expr import FLOORDIV, MAXIMUM, MINIMUM, SYMBOL, Size, SizeExpr, constant_of, terms
from rushlight.sym.interval import declared_bounds
from rushlight.sym.linear import Effort, Linear, combined, linear, solve
from rushlight.sym.query import bottom_up, evaluate

_STEPS = 400_000  # forms looked at, in one question

Fact = bool | Condition
Constraint = tuple[str, Linear]  # "==" or ">=", compared with 0
Case = tuple[Constraint, ...]  # all of them hold
Clause = tuple[Case, ...]  # one of them holds


def satisfiable(conditions: Iterable[Fact]) -> dict[SizeExpr, int] | None:
    """Values of the symbols that satisfy all conditions; None if there provably are none. Errors: C023."""
    return uncovered(list(conditions), ())


def uncovered(domain: Sequence[Fact], parts: Sequence[Sequence[Fact]]) -> dict[SizeExpr, int] | None:
    """A point of the domain that lies in none of the parts, or None if there provably is none. Errors: C023.

    The domain and each part are conjunctions. The facts that symbols are born with (bounds, divisors) hold as well.
    """
    if any(fact is False for fact in domain):
        return None
    asked = [literal for literal in domain if not isinstance(literal, bool)]
    possible = [part for part in parts if not any(literal is False for literal in part)]
    avoided = [[literal for literal in part if not isinstance(literal, bool)] for part in possible]
    if not all(avoided):
        return None
    problem = _Problem()
    for condition in [*asked, *[literal for part in avoided for literal in part]]:
        problem.introduce(condition.expr)
    clauses = [*[problem.holds(literal) for literal in asked], *[problem.fails(part) for part in avoided]]
    values = _search(problem, clauses)
    return None if values is None else {symbol: values[index] for symbol, index in problem.symbols.items()}


def _search(problem: _Problem, clauses: Sequence[Clause]) -> list[int] | None:
    """Values that satisfy a case of each clause. Cases are tried of a clause that a solution of the others breaks."""
    effort, doubtful = Effort(_STEPS, problem.count), False
    certain = tuple([form for clause in clauses if len(clause) == 1 for form in clause[0]])
    pending: list[tuple[Case, list[Clause]]] = [(certain, [clause for clause in clauses if len(clause) != 1])]
    while pending:
        forms, choices = pending.pop()
        linked, links = problem.linked(forms)
        zero = [form for relation, form in linked if relation == "=="]
        point = solve(zero, [form for relation, form in linked if relation == ">="], effort)
        if point is None:
            continue
        guess = [point.get(variable, 0) for variable in range(problem.count)]
        truth = problem.values(guess)
        broken = next((clause for clause in links if not _satisfied(clause, guess)), None)
        broken = broken or next((clause for clause in choices if not _satisfied(clause, truth)), None)
        if broken is not None:
            left = [clause for clause in choices if clause is not broken]
            pending.extend([((*forms, *case), left) for case in reversed(broken)])
        elif _holds(forms, truth):
            return truth
        else:
            doubtful = True
    if doubtful:
        fail("C023", "sizes: products or quotients of sizes are beyond what can be decided")
    return None


def _satisfied(clause: Clause, values: Sequence[int]) -> bool:
    return any(_holds(case, values) for case in clause)


def _holds(case: Case, values: Sequence[int]) -> bool:
    for relation, form in case:
        value = form.constant + sum([scale * values[variable] for variable, scale in form.coefficients])
        if value < 0 or (value and relation == "=="):
            return False
    return True


class _Problem:
    """Conditions in terms of variables 0, 1, ..., one for each atom and some more."""

    def __init__(self) -> None:
        self.symbols: dict[SizeExpr, int] = {}
        self.count = 0
        self._variables: dict[SizeExpr, int] = {}
        self._born: list[Constraint] = []
        self._definitions: dict[int, Case] = {}  # what holds of an atom that is no symbol, if it is looked at
        self._links: dict[int, Clause] = {}

    def introduce(self, e: SizeExpr) -> None:
        """Gives the atoms of an expression variables, operands first."""
        for node in bottom_up(e):
            for product, _ in terms(node):
                if product not in self._variables:
                    self._variables[product] = self.count
                    self._define(product, self._fresh())

    def linked(self, forms: Case) -> tuple[Case, list[Clause]]:
        """The forms with the facts of symbols and of the atoms that they mention, and the atoms' choices."""
        linked: dict[int, None] = {}
        pending = list(forms)
        result = [*forms, *self._born]
        while pending:
            for variable, _ in pending.pop()[1].coefficients:
                if variable in self._definitions and variable not in linked:
                    linked[variable] = None
                    pending.extend(self._definitions[variable])
                    result.extend(self._definitions[variable])
        return tuple(result), [self._links[variable] for variable in linked if variable in self._links]

    def values(self, solution: Sequence[int]) -> list[int]:
        """The values of all variables, given those of the symbols."""
        values = list(solution)
        for atom, variable in self._variables.items():
            if atom.op is not SYMBOL:
                assignment = {symbol: values[index] for symbol, index in self.symbols.items()}
                values[variable] = evaluate(atom, assignment)
        return values

    def _define(self, atom: SizeExpr, itself: Linear) -> None:
        variable, operands = itself.coefficients[0][0], atom.operands
        if atom.op is SYMBOL:
            self.symbols[atom] = variable
            self._symbol(atom, itself)
        elif atom.op is FLOORDIV and isinstance(operands[1], int) and operands[1] > 0:
            rest = combined(self._form(operands[0]), 1, itself, -operands[1])
            self._definitions[variable] = ((">=", rest), _at_most(rest, operands[1] - 1))
        elif atom.op in (MINIMUM, MAXIMUM):
            forms, sign = [self._form(operand) for operand in operands], 1 if atom.op is MINIMUM else -1
            self._definitions[variable] = tuple([(">=", combined(form, sign, itself, -sign)) for form in forms])
            self._links[variable] = tuple([(("==", combined(itself, 1, form, -1)),) for form in forms])
        else:
            self._definitions[variable] = _bounded(itself, *declared_bounds(atom))

    def _symbol(self, symbol: SizeExpr, itself: Linear) -> None:
        facts = symbol.facts
        self._born.extend(_bounded(itself, facts.lower, facts.upper))
        if facts.multiple_of > 1:
            self._born.append(("==", combined(itself, 1, self._fresh(), -facts.multiple_of)))
        if facts.size is not None:
            if isinstance(facts.size, SizeExpr):
                self.introduce(facts.size)
            last = _plus(combined(self._form(facts.size), 1, itself, -1), -1)
            self._born.extend([(">=", itself), (">=", last)])

    def _fresh(self) -> Linear:
        self.count += 1
        return Linear(((self.count - 1, 1),), 0)

    def _form(self, e: Size) -> Linear:
        if isinstance(e, int):
            return Linear((), e)
        return linear({self._variables[product]: scale for product, scale in terms(e)}, constant_of(e))

    def holds(self, condition: Condition) -> Clause:
        """What a condition says."""
        form = self._form(condition.expr)
        return _apart(form) if condition.relation == "!=" else ((_compared(form, condition.relation),),)

    def fails(self, part: Sequence[Condition]) -> Clause:
        """That one condition fails while those before it hold."""
        cases: list[Case] = []
        before: Case = ()
        for condition in part:
            form = self._form(condition.expr)
            if condition.relation == "==":
                cases.extend([(*before, *case) for case in _apart(form)])
            else:
                cases.append((*before, _failed(form, condition.relation)))
            if condition.relation != "!=":
                before = (*before, _compared(form, condition.relation))
        return tuple(cases)


def _bounded(form: Linear, lower: int | None, upper: int | None) -> Case:
    least: Case = () if lower is None else ((">=", _plus(form, -lower)),)
    return least if upper is None else (*least, _at_most(form, upper))


def _plus(form: Linear, value: int) -> Linear:
    return Linear(form.coefficients, form.constant + value)


def _at_most(form: Linear, value: int) -> Constraint:
    return ">=", _plus(combined(form, -1, form, 0), value)


def _apart(form: Linear) -> Clause:
    """That a form is not 0."""
    return (((">=", _plus(form, -1)),), (_at_most(form, -1),))


def _failed(form: Linear, relation: str) -> Constraint:
    """That a form is not related to 0 so, but for equality."""
    if relation == "!=":
        return "==", form
    return _at_most(form, -1) if relation == ">=" else (">=", _plus(form, -1))


def _compared(form: Linear, relation: str) -> Constraint:
    return _at_most(form, 0) if relation == "<=" else (relation, form)

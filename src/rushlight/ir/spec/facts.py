"""Splits a specification's assumptions into facts about single variables and other conditions.

Also finds the argument that each variable's value is read from.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import lcm
from typing import TypeGuard

from rushlight.ir.spec.check import Binding
from rushlight.ir.spec.leaf import IntSpec, LeafSpec, TensorSpec
from rushlight.ir.spec.size import Assumption, ShapeExpr, ShapeVar, symbol_named
from rushlight.support.errors import CompileError, fail, require
from rushlight.sym import Condition, Size, SizeExpr, eq, free_symbols, ge, is_symbol, le, mod, substitute
from rushlight.sym.condition import condition, normalized
from rushlight.sym.coverage import satisfiable
from rushlight.sym.expr import FLOORDIV, SymbolFacts, constant_of, terms
from rushlight.sym.symbols import new_symbol
from rushlight.sym.text import natural_order


class _Facts:
    """What is assumed of one variable alone."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.lower: int | None = None
        self.upper: int | None = None
        self.step = 1
        self.hint: int | None = None

    def declare(self, variable: ShapeVar) -> None:
        """Takes what a variable of this name was declared with."""
        if variable.min is not None:
            self.raise_lower(variable.min)
        if variable.max is not None:
            self.reduce_upper(variable.max)
        self.step = lcm(self.step, variable.multiple_of)
        if variable.hint is not None:
            same = self.hint in (None, variable.hint)
            require(same, "C019", f"spec: {self.name} has hints {self.hint} and {variable.hint}")
            self.hint = variable.hint

    def raise_lower(self, value: int) -> None:
        """Learns variable >= value."""
        self.lower = value if self.lower is None else max(self.lower, value)

    def reduce_upper(self, value: int) -> None:
        """Learns variable <= value."""
        self.upper = value if self.upper is None else min(self.upper, value)

    def variable(self) -> ShapeVar:
        """All that was learned; C019 if no integer satisfies it."""
        lower, upper, step = self.lower, self.upper, self.step
        if lower is not None and upper is not None:
            said = f"{lower} <= {self.name} <= {upper}" + (f", {self.name} % {step} == 0" if step > 1 else "")
            require(-(-lower // step) * step <= upper, "C019", f"spec: no value satisfies {said}")
        variable = ShapeVar(self.name, lower, upper, step, self.hint)
        if self.hint is not None:
            inside = (lower is None or lower <= self.hint) and (upper is None or self.hint <= upper)
            require(inside and not self.hint % step, "C019", f"spec: the hint {self.hint} is no value of {self.name}")
        return variable


def assumed(
    leaves: Sequence[LeafSpec], assumptions: Sequence[Assumption]
) -> tuple[dict[str, ShapeVar], tuple[Condition, ...]]:
    """The variables with their own bounds and divisors, and the conditions that relate variables.

    Variables are in order of appearance, conditions in order of their text.
    """
    facts: dict[str, _Facts] = {}
    in_shapes: set[str] = set()
    for leaf in leaves:
        for variable in _variables_of(leaf):
            facts.setdefault(variable.name, _Facts(variable.name)).declare(variable)
            if isinstance(leaf, TensorSpec):
                in_shapes.add(variable.name)
        for size in leaf.shape if isinstance(leaf, TensorSpec) else ():
            if isinstance(size, ShapeExpr) and is_symbol(size.size):
                facts[size.size.facts.name].raise_lower(0)
    others: dict[Condition, None] = {}
    for assumption in assumptions:
        for variable in assumption.variables:
            require(variable.name in facts, "C018", f"spec: no argument has the variable {variable.name}")
            facts[variable.name].declare(variable)
        if assumption.condition is False:
            fail("C019", "spec: an assumption is false of all sizes")
        if isinstance(assumption.condition, Condition) and not _is_about_one(assumption.condition, facts):
            others[assumption.condition] = None
    for name in in_shapes:
        if facts[name].lower is None:
            facts[name].lower = 0
    variables = {name: fact.variable() for name, fact in facts.items()}
    conditions = sorted(_not_implied(others, variables), key=lambda assumption: natural_order(str(assumption)))
    derived = [size.size for leaf in leaves if isinstance(leaf, TensorSpec) for size in leaf.shape if _is_derived(size)]
    _require_consistent(variables, conditions, derived)
    return variables, tuple(conditions)


def _not_implied(conditions: Iterable[Condition], variables: Mapping[str, ShapeVar]) -> list[Condition]:
    """Drops the conditions that the bounds and divisors of single variables imply; C019 for a false one."""
    images: dict[SizeExpr, Size] = {}
    for name, lower, upper, step, _ in [variable.facts for variable in variables.values()]:
        least, most = None if lower is None else -(-lower // step), None if upper is None else upper // step
        images[symbol_named(name)] = step * new_symbol(SymbolFacts(name, least, most))
    decided = {fact: condition(fact.relation, substitute(fact.expr, images)) for fact in conditions}
    for key, holds in decided.items():
        require(holds is not False, "C019", f"spec: {key} is false of all sizes that are within their bounds")
    return [element for element, holds in decided.items() if not isinstance(holds, bool)]


def own_facts(variable: ShapeVar, value: Size) -> list[bool | Condition]:
    """What is assumed of a variable alone, as conditions on what stands for it."""
    _, lower, upper, step, _ = variable.facts
    bounds = [True if lower is None else ge(value, lower), True if upper is None else le(value, upper)]
    return [*bounds, eq(mod(value, step), 0)]


def _is_derived(size: object) -> TypeGuard[ShapeExpr]:
    return isinstance(size, ShapeExpr) and not is_symbol(size.size)


def _require_consistent(
    variables: Mapping[str, ShapeVar], conditions: Sequence[Condition], derived: Sequence[SizeExpr]
) -> None:
    """C019 if it can be proved that no values satisfy everything."""
    if not conditions and not derived:
        return
    facts = [fact for variable in variables.values() for fact in own_facts(variable, variable.size)]
    facts.extend([*conditions, *[ge(size, 0) for size in derived]])
    try:
        possible = satisfiable(facts) is not None
    except CompileError:
        return  # too hard to decide
    said = ", ".join([str(fact) for fact in facts if isinstance(fact, Condition)])
    require(possible, "C019", f"spec: no sizes satisfy {said}")


def _variables_of(leaf: LeafSpec) -> tuple[ShapeVar, ...]:
    if isinstance(leaf, IntSpec):
        return () if leaf.variable is None else (leaf.variable,)
    return leaf.variables if isinstance(leaf, TensorSpec) else ()


def _is_about_one(fact: Condition, facts: Mapping[str, _Facts]) -> bool:
    """Takes a bound or a divisor of one variable into what is known of it; False for other conditions."""
    e = fact.expr
    symbols = free_symbols(e)
    if len(symbols) != 1:
        return False
    about = facts[symbols[0].facts.name]
    table = dict(terms(e))
    if table == {symbols[0]: 1} and fact.relation != "!=":
        if fact.relation != "<=":
            about.raise_lower(-constant_of(e))
        if fact.relation != ">=":
            about.reduce_upper(-constant_of(e))
        return True
    divisors = [atom.operands[1] for atom in table if atom.op is FLOORDIV]
    if fact.relation != "==" or len(divisors) != 1 or normalized("==", mod(symbols[0], divisors[0])) != fact:
        return False
    about.step = lcm(about.step, divisors[0])
    return True


def binding_of(name: str, leaves: Sequence[LeafSpec]) -> Binding:
    """Where a variable's value comes from: a size or an integer itself, or else a linear size. Errors: C020."""
    symbol = symbol_named(name)
    solvable: Binding | None = None
    for number, leaf in enumerate(leaves):
        if isinstance(leaf, IntSpec) and leaf.variable is not None and leaf.variable.name == name:
            return Binding(number, None)
        for dim, size in enumerate(leaf.shape if isinstance(leaf, TensorSpec) else ()):
            scale = dict(terms(size.size)) if isinstance(size, ShapeExpr) else {}
            if not isinstance(size, ShapeExpr) or set(scale) != {symbol}:
                continue
            if is_symbol(size.size):
                return Binding(number, dim)
            solvable = solvable or Binding(number, dim, scale[symbol], constant_of(size.size))
    if solvable is None:
        fail("C020", f"spec: no argument shows the value of {name}")
    return solvable

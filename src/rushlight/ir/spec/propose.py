"""Specifications proposed from what backed traces guarded: the way from compiling as calls come to compiling ahead.

Each trace of a function holds for the sizes that satisfy its guards. Said as a specification, the same sizes are served
by an artifact without guards, and whether the specifications leave a hole can be proved before any call.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import cast

from rushlight.ir.spec.cover import coverage_hole
from rushlight.ir.spec.leaf import ConstSpec, FloatSpec, IntSpec, TensorSpec
from rushlight.ir.spec.size import Assumption, ShapeExpr, ShapeVar
from rushlight.ir.spec.specification import ParamsSpec
from rushlight.ir.type import TensorType
from rushlight.support.errors import CompileError, RushlightError
from rushlight.support.frozen import frozen
from rushlight.sym import Condition, Scope, Size, SizeExpr, eq, free_symbols, ge, is_symbol, le, mod, substitute
from rushlight.sym.condition import normalized
from rushlight.sym.coverage import uncovered
from rushlight.sym.expr import constant_of, terms
from rushlight.sym.knowledge import Knowledge


@frozen
class Observed:
    """One backed trace: what its arguments were, and the conditions on their sizes that it guarded.

    `args` and `kwargs` are nested as in the call. A leaf is a TensorType, the size that stands for an integer, an
    IntSpec or FloatSpec for a number that each call chooses, or any value that the trace took for fixed. `named` are
    sizes whose names stay; others are called s0, s1, ...
    """

    args: tuple[object, ...]
    kwargs: Mapping[str, object]
    conditions: tuple[Condition, ...]
    named: frozenset[SizeExpr] = frozenset()


def propose(traces: Sequence[Observed]) -> list[ParamsSpec]:
    """A specification for each trace, in order, but for those whose calls another one takes.

    Guards of equality become equal or fixed sizes, and those that others show to be true are left out. A guard that no
    specification can express (on a stride, on a quotient of sizes) is left out too: compiling will ask for it anew.
    """
    specs: list[ParamsSpec] = []
    for trace in traces:
        spec = _Proposal(trace).spec()
        if not any(_takes(other, spec) for other in specs):
            specs = [*[other for other in specs if not _takes(spec, other)], spec]
    return specs


def _takes(spec: ParamsSpec, other: ParamsSpec) -> bool:
    """Whether the first specification provably takes all that the second one does."""
    try:
        return coverage_hole(other, [spec]) is None
    except CompileError:
        return spec == other


class _Proposal:
    """One trace on its way to a specification. Its symbols are renamed, so that no example's facts are left."""

    def __init__(self, trace: Observed) -> None:
        self.trace = trace
        self.scope = Scope()
        self.images: dict[SizeExpr, Size] = {}
        self.hints: dict[SizeExpr, int | None] = {}
        self.declared: list[bool | Condition] = []
        for arg in (*trace.args, *trace.kwargs.values()):
            self._introduce(arg)
        for fact in [
            *self.declared,
            *[self._image(condition) for condition in trace.conditions if self._is_about_sizes(condition)],
        ]:
            if isinstance(fact, Condition):
                self.scope.learn(fact)
        self.names: dict[SizeExpr, Size] = {}
        self.variables: dict[SizeExpr, ShapeVar] = {}
        self.equal: list[Assumption] = []  # of integers with expressions of sizes

    def spec(self) -> ParamsSpec:
        """The specification."""
        for symbol, image in self.images.items():
            left = self.scope.resolve(image)
            if symbol in self.trace.named and not isinstance(left, int) and is_symbol(left):
                self._name(left, symbol.facts.name)
        for symbol in self.hints:
            for left in free_symbols(self.scope.resolve(symbol)):
                self._name(left)
        facts = [fact for fact in map(self._resolved, self.scope.learned) if isinstance(fact, Condition)]
        args = [self._item(arg) for arg in self.trace.args]
        kwargs = {name: self._item(kwarg) for name, kwarg in self.trace.kwargs.items()}
        assumptions = [said for fact in _simplified(facts) for said in self._said(fact)]
        return ParamsSpec(*args, assumptions=[*assumptions, *self.equal], **kwargs)

    def _introduce(self, argument: object) -> None:
        """Gives the sizes in an argument symbols of the proposal."""
        if isinstance(argument, TensorType):
            for size in argument.shape:
                self._introduce_size(size, 0)
        elif isinstance(argument, SizeExpr):
            self._introduce_size(argument, None)
        elif isinstance(argument, tuple | list | dict):
            parts: Iterable[object] = argument.values() if isinstance(argument, dict) else argument
            for part in parts:
                self._introduce(part)

    def _introduce_size(self, size: Size, lower: int | None) -> None:
        for symbol in free_symbols(size):
            if symbol in self.images:
                continue
            facts = symbol.facts
            image = self.images[symbol] = self.scope.symbol(lower=None)
            self.hints[image] = facts.suggested
            least = lower if facts.lower is None else facts.lower
            self.declared += [True if least is None else ge(image, least)]
            self.declared += [True if facts.upper is None else le(image, facts.upper)]
            self.declared += [eq(mod(image, facts.multiple_of), 0)]

    def _is_about_sizes(self, condition: Condition) -> bool:
        return all(symbol in self.images for symbol in free_symbols(condition.expr))

    def _image(self, condition: Condition) -> bool | Condition:
        return normalized(condition.relation, substitute(condition.expr, self.images))

    def _resolved(self, condition: Condition) -> bool | Condition:
        return normalized(condition.relation, self.scope.resolve(condition.expr))

    def _name(self, symbol: SizeExpr, name: str | None = None) -> None:
        if symbol in self.names:
            return
        if name is None:
            taken = {shown.facts.name for shown in self.trace.named}
            name = next(f"s{at}" for at in itertools.count(len(self.names)) if f"s{at}" not in taken)
        variable = ShapeVar(name, min=None, hint=self.hints.get(symbol))
        self.names[symbol], self.variables[symbol] = variable.size, variable

    def _item(self, argument: object) -> object:
        if isinstance(argument, TensorType):
            strides = "contiguous" if argument.is_contiguous else "any"
            return TensorSpec(argument.dtype, [self._dim(size) for size in argument.shape], strides)
        if isinstance(argument, SizeExpr):
            return self._integer(argument)
        if isinstance(argument, tuple | list):
            parts = [self._item(part) for part in cast(Iterable[object], argument)]
            return tuple(parts) if isinstance(argument, tuple) else parts
        if isinstance(argument, dict):
            return {key: self._item(part) for key, part in cast(dict[object, object], argument).items()}
        return argument if isinstance(argument, FloatSpec | IntSpec) else ConstSpec(argument)

    def _integer(self, element: SizeExpr) -> IntSpec | ConstSpec:
        size = self._dim(element)
        if isinstance(size, int):
            return ConstSpec(size)
        if size is None or isinstance(size, ShapeVar):
            return IntSpec(size)
        variable = ShapeVar(f"s{len(self.variables) + len(self.equal)}", min=None)
        self.equal.append(Assumption(eq(variable.size, size.size), [variable, *size.variables]))
        return IntSpec(variable)

    def _dim(self, size: Size) -> int | ShapeExpr | None:
        """The size by its variables; None where only its value is its name."""
        resolved = self.scope.resolve(substitute(size, self.images))
        if isinstance(resolved, int):
            return resolved
        if is_symbol(resolved):
            return self.variables[resolved]
        try:
            named = substitute(resolved, self.names)
            return ShapeExpr(named, self._variables_in(resolved)) if isinstance(named, SizeExpr) else named
        except RushlightError:
            return None

    def _variables_in(self, e: SizeExpr) -> list[ShapeVar]:
        return [self.variables[symbol] for symbol in free_symbols(e)]

    def _said(self, condition: Condition) -> list[Assumption]:
        """The condition as an assumption, if the language has it."""
        try:
            variables = self._variables_in(condition.expr)
            expression = ShapeExpr(cast(SizeExpr, substitute(condition.expr, self.names)), variables)
        except RushlightError:
            return []
        return [Assumption(normalized(condition.relation, expression.size), variables)]


def _simplified(facts: Sequence[Condition]) -> list[Condition]:
    """Drops the facts that others imply; raises a lower bound past values that are excluded."""
    left: dict[Condition, None] = dict.fromkeys([*_raised(facts), *facts])
    for fact in sorted(left, key=lambda fact: fact.relation != "!="):
        others = [other for other in left if other != fact]
        try:
            implied = uncovered(others, [[fact]]) is None
        except CompileError:
            implied = False
        if implied and _evident(fact, others):
            del left[fact]
    return list(left)


def _evident(condition: Condition, others: Sequence[Condition]) -> bool:
    """Whether a trace that assumes the others knows it: what takes a proof would have to be asked for anew."""
    knowledge = Knowledge()
    for other in others:
        knowledge.learn(other)
    return knowledge.known(condition) is True


def _raised(facts: Sequence[Condition]) -> list[Condition]:
    """Lower bounds that follow from what single sizes are not."""
    least: dict[SizeExpr, int] = {}
    unlike: dict[SizeExpr, set[int]] = {}
    for condition in facts:
        ((product, scale), *more) = terms(condition.expr)
        if more or scale != 1 or not is_symbol(product):
            continue
        value = -constant_of(condition.expr)
        if condition.relation == ">=":
            least[product] = max(value, least.get(product, value))
        elif condition.relation == "!=":
            unlike.setdefault(product, set()).add(value)
    bounds: list[Condition] = []
    for symbol, value in least.items():
        while value in unlike.get(symbol, ()):
            value += 1
        fact = ge(symbol, value)
        bounds.extend([fact] if isinstance(fact, Condition) else [])
    return bounds

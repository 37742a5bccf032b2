"""Patterns over terms and tables of rewriting rules, each tagged exact or fast."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TypeVar

from rushlight.support.frozen import frozen
from rushlight.term.term import Op, Term
from rushlight.term.walk import map_terms

T = TypeVar("T", bound=Term)


@frozen
class Wildcard:
    """Matches every term and binds it to a name; the same name twice must match the same term.

    `where` restricts it, for example to constants.
    """

    name: str
    where: Callable[[Term], bool] | None = None


@frozen
class Pattern:
    """Matches a term of one op whose operands match.

    `where` restricts the whole term, its attributes and type.
    """

    op: Op
    operands: tuple[Pattern | Wildcard, ...]
    where: Callable[[Term], bool] | None = None


def match(pattern: Pattern | Wildcard, term: Term) -> dict[str, Term] | None:
    """The bindings under which `pattern` is `term`, or None."""
    bindings: dict[str, Term] = {}
    stack: list[tuple[Pattern | Wildcard, Term]] = [(pattern, term)]
    while stack:
        part, result = stack.pop()
        if part.where is not None and not part.where(result):
            return None
        if isinstance(part, Wildcard):
            if bindings.setdefault(part.name, result) is not result:
                return None
            continue
        if result.op is not part.op or len(result.operands) != len(part.operands):
            return None
        stack.extend(zip(part.operands, result.operands, strict=True))
    return bindings


@frozen
class Rule:
    """Where `pattern` matches, `replace(**bindings)` gives the new term or None to decline.

    `exact` rules keep every bit for every input, NaN payloads aside; others may run only when numerics are "fast".
    """

    name: str
    pattern: Pattern
    replace: Callable[..., Term | None]
    exact: bool = True


@dataclass(frozen=True, slots=True)
class Rules:
    """A table of rules, looked up by the op at the pattern's root and tried in order."""

    rules: tuple[Rule, ...]
    by_op: dict[Op, tuple[Rule, ...]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        table: dict[Op, tuple[Rule, ...]] = {}
        for rule in self.rules:
            table[rule.pattern.op] = (*table.get(rule.pattern.op, ()), rule)
        object.__setattr__(self, "by_op", table)

    def __iter__(self) -> Iterator[Rule]:
        return iter(self.rules)

    def apply(self, term: T, *, exact_only: bool = True) -> T:
        """`term` rewritten at its root until no rule fires."""
        changed = True
        while changed:
            changed = False
            for rule in self.by_op.get(term.op, ()):
                if exact_only and not rule.exact:
                    continue
                bindings = match(rule.pattern, term)
                new = rule.replace(**bindings) if bindings is not None else None
                if new is not None and new is not term:
                    term = new  # pyright: ignore[reportAssignmentType] - a rule stays in its language
                    changed = True
                    break
        return term


def rewrite(
    roots: Iterable[T], rules: Rules, rebuild: Callable[[T, tuple[T, ...]], T], *, exact_only: bool = True
) -> list[T]:
    """Rewrites bottom-up: each term is rebuilt on its rewritten operands, then rewritten at its root."""

    def visit(term: T, operands: tuple[T, ...]) -> T:
        same = all(new is old for new, old in zip(operands, term.operands, strict=True))
        return rules.apply(term if same else rebuild(term, operands), exact_only=exact_only)

    return map_terms(roots, visit)

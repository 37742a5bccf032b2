"""Where Rushlight answers otherwise than PyTorch on purpose: rules with reasons (docs/deviations.md has the rows)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tools.opdb.comparing import Difference

RANDOM = {
    *("bernoulli", "multinomial", "normal", "rand", "rand_like", "randint", "randint_like", "randn", "randn_like"),
    *("empty", "empty_like", "new_empty", "nn.functional.dropout", "randperm"),
}


@dataclass(frozen=True)
class Question:
    """What was asked: an operator's name in PyTorch, its dtype, the part of the check, and the arguments' text."""

    operator: str
    dtype: str
    part: str
    call: str


@dataclass(frozen=True)
class Rule:
    """What may differ, and why."""

    name: str
    reason: str
    allows: Callable[[Question, Difference], bool]


RULES: tuple[Rule, ...] = (
    Rule(
        "random values",
        "the generator is Rushlight's own, and memory of `empty` holds what it held",
        lambda question, difference: question.operator in RANDOM and difference.category == "value",
    ),
)


def rule_for(question: Question, difference: Difference) -> Rule | None:
    """The first rule that allows the difference."""
    return next((rule for rule in RULES if rule.allows(question, difference)), None)

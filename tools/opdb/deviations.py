"""Where Rushlight answers otherwise than PyTorch on purpose: rules with reasons (docs/deviations.md has the rows)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tools.opdb.comparing import Difference

DTYPES = ("float32", "float64", "bfloat16", "int64", "bool", "complex64")
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


TIES = {"sort", "argsort", "topk", "kthvalue", "median", "msort", "max", "min", "argmax", "argmin", "mode"}
RULES: tuple[Rule, ...] = (
    Rule(
        "attention of 16-bit floats",
        "scores are rounded to the dtype, as those of a product and a softmax are; PyTorch keeps them in float32",
        lambda question, difference: (
            question.operator == "nn.functional.scaled_dot_product_attention"
            and question.dtype == "bfloat16"
            and difference.category == "value"
        ),
    ),
    Rule(
        "dropout in attention",
        "the generator is Rushlight's own",
        lambda question, difference: "dropout_p=0.5" in question.call and difference.category == "value",
    ),
    Rule(
        "fill_ of what has a gradient",
        "what is overwritten has no gradient, where PyTorch gives zeros",
        lambda question, difference: (
            question.operator == "fill" and difference.detail.endswith("None, expected a tensor")
        ),
    ),
    Rule(
        "abs_ of complex tensors",
        "PyTorch refuses it; here the magnitudes are written",
        lambda question, difference: question.operator == "abs" and difference.category == "accepted",
    ),
    Rule(
        "bernoulli's gradient",
        "drawn numbers have no gradient, where PyTorch gives zeros",
        lambda question, difference: question.operator == "bernoulli" and question.part in ("gradient", "inplace"),
    ),
    Rule(
        "indices of equal elements",
        "PyTorch leaves open which of equal elements is named; here it is the first in order",
        lambda question, difference: (
            question.operator in TIES
            and difference.category == "value"
            and (difference.detail.startswith("1: ") or question.operator.startswith("arg"))
        ),
    ),
    Rule(
        "linspace of 16-bit floats",
        "PyTorch multiplies a step rounded to the dtype; here elements are computed in float64 and rounded once",
        lambda question, difference: question.operator == "linspace" and question.dtype == "bfloat16",
    ),
    Rule(
        "gradient of as_strided_scatter",
        "PyTorch lets the gradient of what is overwritten pass, and none of the rest",
        lambda question, difference: question.operator == "as_strided_scatter" and question.part == "gradient",
    ),
    Rule(
        "random values",
        "the generator is Rushlight's own, and memory of `empty` holds what it held",
        lambda question, difference: question.operator in RANDOM and difference.category == "value",
    ),
)


def rule_for(question: Question, difference: Difference) -> Rule | None:
    """The first rule that allows the difference."""
    return next((rule for rule in RULES if rule.allows(question, difference)), None)

"""Optimizers of tables by FBGEMM's words: what `fused_params` of sharders say."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import Enum, unique
from typing import Any

from rushlight.distributed.optim.in_backward import APPLIED
from rushlight.nn import Parameter
from rushlight.recsys.optim.rules import LAMB, SGD, Adagrad, Adam, PartialRowWiseAdam, RowRule, RowWiseAdagrad, rule_of
from rushlight.support.errors import require


@unique
class EmbOptimType(Enum):
    """Optimizers of rows. All add up the gradients of a row before it is updated."""

    SGD = "sgd"
    EXACT_SGD = "exact_sgd"
    LAMB = "lamb"
    ADAM = "adam"
    EXACT_ADAGRAD = "exact_adagrad"
    EXACT_ROWWISE_ADAGRAD = "exact_row_wise_adagrad"
    PARTIAL_ROWWISE_ADAM = "partial_row_wise_adam"
    ROWWISE_ADAGRAD = "row_wise_adagrad"


_RULES: dict[EmbOptimType, type[RowRule]] = {
    EmbOptimType.SGD: SGD,
    EmbOptimType.EXACT_SGD: SGD,
    EmbOptimType.LAMB: LAMB,
    EmbOptimType.ADAM: Adam,
    EmbOptimType.EXACT_ADAGRAD: Adagrad,
    EmbOptimType.EXACT_ROWWISE_ADAGRAD: RowWiseAdagrad,
    EmbOptimType.PARTIAL_ROWWISE_ADAM: PartialRowWiseAdam,
    EmbOptimType.ROWWISE_ADAGRAD: RowWiseAdagrad,
}


def rule_of_parameters(fused_params: Mapping[str, Any]) -> RowRule | None:
    """Return the rule that `optimizer` names, with the other numbers; None without one. A002 for unknown ones."""
    numbers = dict(fused_params)
    kind = numbers.pop("optimizer", None)
    if kind is None:
        return None
    known = isinstance(kind, EmbOptimType)
    require(known, "A002", "fused_params: there is no such optimizer", optimizer=kind, known=[*EmbOptimType])
    if "learning_rate" in numbers:
        numbers["lr"] = numbers.pop("learning_rate")
    return rule_of(_RULES[kind], numbers)


def in_backward_optimizer_filter(
    named_parameters: Iterator[tuple[str, Parameter]], include: bool = False
) -> Iterator[tuple[str, Parameter]]:
    """Yield the parameters that no optimizer steps with in the backward pass; with `include` the others."""
    for name, parameter in named_parameters:
        if hasattr(parameter, APPLIED) == include:
            yield name, parameter

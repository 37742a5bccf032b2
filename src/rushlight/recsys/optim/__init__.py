"""Optimizers that run in the backward pass, on the rows that a batch has touched, and named ones."""

from rushlight.distributed.optim.in_backward import apply_optimizer_in_backward
from rushlight.recsys.optim.fbgemm import EmbOptimType, in_backward_optimizer_filter, rule_of_parameters
from rushlight.recsys.optim.keyed import CombinedOptimizer, KeyedOptimizer, KeyedOptimizerWrapper, OptimizerWrapper
from rushlight.recsys.optim.rules import (
    LAMB,
    OWN_COLUMNS,
    SGD,
    Adagrad,
    Adam,
    PartialRowWiseAdam,
    RowRule,
    RowSums,
    RowWiseAdagrad,
    RuleOptimizer,
    rule_of,
)
from rushlight.recsys.optim.warmup import (
    GradientClipping,
    GradientClippingOptimizer,
    WarmupOptimizer,
    WarmupPolicy,
    WarmupStage,
)

__all__ = [
    "LAMB",
    "OWN_COLUMNS",
    "SGD",
    "Adagrad",
    "Adam",
    "CombinedOptimizer",
    "EmbOptimType",
    "GradientClipping",
    "GradientClippingOptimizer",
    "KeyedOptimizer",
    "KeyedOptimizerWrapper",
    "OptimizerWrapper",
    "PartialRowWiseAdam",
    "RowRule",
    "RowSums",
    "RowWiseAdagrad",
    "RuleOptimizer",
    "WarmupOptimizer",
    "WarmupPolicy",
    "WarmupStage",
    "apply_optimizer_in_backward",
    "in_backward_optimizer_filter",
    "rule_of",
    "rule_of_parameters",
]

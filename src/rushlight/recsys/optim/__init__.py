"""Optimizers that run in the backward pass, on the rows that a batch has touched."""

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
    rule_of,
)

__all__ = [
    "LAMB",
    "OWN_COLUMNS",
    "SGD",
    "Adagrad",
    "Adam",
    "PartialRowWiseAdam",
    "RowRule",
    "RowSums",
    "RowWiseAdagrad",
    "rule_of",
]

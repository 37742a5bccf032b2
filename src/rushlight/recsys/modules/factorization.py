"""Interactions of embeddings as in DeepFM (Guo et al. 2017), by TorchRec's names."""

from __future__ import annotations

from collections.abc import Sequence

import rushlight as rl
from rushlight import Tensor
from rushlight.nn import Module


def _flat(embeddings: Sequence[Tensor]) -> Tensor:
    """The numbers of all embeddings of each example: [batch, ...] each to [batch, numbers]."""
    return rl.cat([one.flatten(1) for one in embeddings], 1)


class DeepFM(Module):
    """A module over the numbers of all embeddings: interactions of any order.

    DeepFM(nn.Linear(192, 30))([rl.randn(3, 2, 64), rl.randn(3, 2, 32)])
    """

    def __init__(self, dense_module: Module) -> None:
        super().__init__()
        self.dense_module = dense_module

    def forward(self, embeddings: Sequence[Tensor]) -> Tensor:
        """Return what the module gives for [batch, numbers]."""
        return self.dense_module(_flat(embeddings))


class FactorizationMachine(Module):
    """The sum of the products of all pairs of numbers: interactions of second order.

    FactorizationMachine()([rl.randn(3, 2, 64), rl.randn(3, 2, 32)])
    """

    def forward(self, embeddings: Sequence[Tensor]) -> Tensor:
        """Return [batch, 1]."""
        numbers = _flat(embeddings)
        total = numbers.sum(1, keepdim=True)
        return (total * total - (numbers * numbers).sum(1, keepdim=True)) * 0.5

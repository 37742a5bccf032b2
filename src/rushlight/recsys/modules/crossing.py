"""Cross networks: products of features with each other, layer by layer, with TorchRec's names and keys of states.

Sources: Wang et al. 2017, "Deep & Cross Network for Ad Click Predictions"; Wang et al. 2020, "DCN V2".
"""

from __future__ import annotations

from collections.abc import Callable

import rushlight as rl
from rushlight import Tensor
from rushlight.nn import Linear, Module, ModuleList, Parameter, ParameterList
from rushlight.nn.functional import linear, softmax
from rushlight.nn.init import xavier_normal_
from rushlight.support.errors import require


def _kernels(count: int, *shape: int) -> ParameterList:
    return ParameterList([Parameter(xavier_normal_(rl.empty(*shape))) for _ in range(count)])


def _biases(count: int, *shape: int) -> ParameterList:
    return ParameterList([Parameter(rl.zeros(*shape)) for _ in range(count)])


class CrossNet(Module):
    """Layers of `x0 * (W x + b) + x` with square matrices W. Inputs and outputs are [batch, in_features].

    CrossNet(in_features=10, num_layers=2)(rl.randn(3, 10))
    """

    def __init__(self, in_features: int, num_layers: int) -> None:
        super().__init__()
        self.kernels = _kernels(num_layers, in_features, in_features)
        self.bias = _biases(num_layers, in_features, 1)

    def forward(self, input: Tensor) -> Tensor:
        """Return the crossed features."""
        crossed = input
        for kernel, bias in zip(self.kernels, self.bias, strict=True):
            crossed = input * (linear(crossed, kernel) + bias.squeeze(1)) + crossed
        return crossed


class LowRankCrossNet(Module):
    """Layers of `x0 * (W (V x) + b) + x` where W is [in_features, low_rank]. A002 for ranks below 1.

    LowRankCrossNet(in_features=10, num_layers=2, low_rank=3)(rl.randn(3, 10))
    """

    def __init__(self, in_features: int, num_layers: int, low_rank: int = 1) -> None:
        super().__init__()
        require(low_rank >= 1, "A002", "LowRankCrossNet: low_rank is at least 1", low_rank=low_rank)
        self.W_kernels = _kernels(num_layers, in_features, low_rank)
        self.V_kernels = _kernels(num_layers, low_rank, in_features)
        self.bias = _biases(num_layers, in_features)

    def forward(self, input: Tensor) -> Tensor:
        """Return the crossed features."""
        crossed = input
        for wide, narrow, bias in zip(self.W_kernels, self.V_kernels, self.bias, strict=True):
            crossed = input * (linear(linear(crossed, narrow), wide) + bias) + crossed
        return crossed


class VectorCrossNet(Module):
    """Layers of `x0 (w . x) + b + x` with one vector w each.

    VectorCrossNet(in_features=10, num_layers=2)(rl.randn(3, 10))
    """

    def __init__(self, in_features: int, num_layers: int) -> None:
        super().__init__()
        self.kernels = _kernels(num_layers, in_features, 1)
        self.bias = _biases(num_layers, in_features, 1)

    def forward(self, input: Tensor) -> Tensor:
        """Return the crossed features."""
        crossed = input
        for kernel, bias in zip(self.kernels, self.bias, strict=True):
            crossed = input * (crossed @ kernel) + bias.squeeze(1) + crossed
        return crossed


class LowRankMixtureCrossNet(Module):
    """Layers of experts `x0 * (U g(C g(V x)) + b)` of low rank, weighted by a gate, plus x.

    LowRankMixtureCrossNet(in_features=10, num_layers=2, num_experts=5, low_rank=3)(rl.randn(3, 10))

    One expert has no gate. A002 for fewer experts than one, or ranks below 1.
    """

    def __init__(
        self,
        in_features: int,
        num_layers: int,
        num_experts: int = 1,
        low_rank: int = 1,
        activation: Module | Callable[[Tensor], Tensor] = rl.relu,
    ) -> None:
        super().__init__()
        enough = num_experts >= 1 and low_rank >= 1
        message = "LowRankMixtureCrossNet: num_experts and low_rank are at least 1"
        require(enough, "A002", message, num_experts=num_experts, low_rank=low_rank)
        self._activation = activation
        self.U_kernels = _kernels(num_layers, num_experts, in_features, low_rank)
        self.V_kernels = _kernels(num_layers, num_experts, low_rank, in_features)
        self.bias = _biases(num_layers, in_features, 1)
        gates = [Linear(in_features, 1, bias=False) for _ in range(num_experts)]
        self.gates = ModuleList(gates) if num_experts > 1 else None
        self.C_kernels = _kernels(num_layers, num_experts, low_rank, low_rank)

    def forward(self, input: Tensor) -> Tensor:
        """Return the crossed features."""
        crossed = input
        layers = zip(self.U_kernels, self.V_kernels, self.C_kernels, self.bias, strict=True)
        for wide, narrow, square, bias in layers:
            inner = self._activation(rl.einsum("bn,ern->ber", crossed, narrow))
            inner = self._activation(rl.einsum("ber,esr->bes", inner, square))
            experts = input.unsqueeze(1) * (rl.einsum("bes,ens->ben", inner, wide) + bias.squeeze(1))
            crossed = self._mixed(experts, crossed) + crossed
        return crossed

    def _mixed(self, experts: Tensor, crossed: Tensor) -> Tensor:
        """The experts' mean by their gates: [batch, experts, features] to [batch, features]."""
        if self.gates is None:
            return experts.squeeze(1)
        gates = softmax(rl.cat([gate(crossed) for gate in self.gates], 1), 1)
        return (gates.unsqueeze(1) @ experts).squeeze(1)

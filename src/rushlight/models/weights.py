"""Linear layers whose weights are kept in 16, 8 or 4 bits and multiplied in float32.

Writing one token after the other is bound by reading the weights: half the bits take half the time. With one row of
input the weight is widened while it is read, in one kernel; with more it is widened first, once for all of them.
"""

from __future__ import annotations

import rushlight as rl
from rushlight import nn
from rushlight.support.errors import require

F = nn.functional
KINDS = ("float32", "bfloat16", "float16", "int8", "int4")
GROUP = 32  # elements that share a scale in int4


class KeptLinear(nn.Module):
    """x @ weight.T + bias in float32, of a weight [out, in] that is kept as it is stored."""

    def __init__(self, weight: rl.Tensor, bias: rl.Tensor | None) -> None:
        super().__init__()
        self.register_buffer("weight", weight)
        self.register_buffer("bias", bias)

    def widened(self) -> rl.Tensor:
        """The weight [out, in] in float32."""
        return self.weight.float()

    def product(self, x: rl.Tensor) -> rl.Tensor:
        """One row [in] times the weight: [out]."""
        return (self.weight.float() * x).sum(-1)

    def forward(self, x: rl.Tensor) -> rl.Tensor:
        """[..., in] to [..., out]."""
        lead = x.shape[:-1]
        if x.numel() == x.shape[-1]:
            product = self.product(x.reshape(-1))
            product = product.reshape(*lead, product.shape[0])
        else:
            product = F.linear(x, self.widened())
        return product if self.bias is None else product + self.bias


class Int8Linear(KeptLinear):
    """A weight of int8 and a scale of each row: the largest element of a row is 127."""

    def __init__(self, weight: rl.Tensor, bias: rl.Tensor | None) -> None:
        wide = weight.float()
        scale = (wide.abs().amax(1) / 127).clamp_min(1e-30)
        super().__init__((wide / scale[:, None]).round().to(rl.int8), bias)
        self.register_buffer("scale", scale)

    def widened(self) -> rl.Tensor:
        """The weight in float32."""
        return self.weight.float() * self.scale[:, None]

    def product(self, x: rl.Tensor) -> rl.Tensor:
        """One row times the weight."""
        return super().product(x) * self.scale


class Int4Linear(KeptLinear):
    """A weight of 4 bits, two elements a byte, and a scale of each 32: their largest is 7.

    A byte holds an element of the first half of its 32, and in the upper bits one of the second half, both plus 8.
    """

    def __init__(self, weight: rl.Tensor, bias: rl.Tensor | None) -> None:
        rows, columns = weight.shape
        require(columns % GROUP == 0, "S002", f"int4: a row of weights is a multiple of {GROUP}", weight=weight)
        groups = weight.float().reshape(rows, columns // GROUP, GROUP)
        scale = (groups.abs().amax(2) / 7).clamp_min(1e-30)
        levels = (groups / scale[:, :, None]).round().to(rl.int32) + 8
        packed = levels[:, :, : GROUP // 2] | (levels[:, :, GROUP // 2 :] << 4)
        super().__init__(packed.to(rl.uint8), bias)
        self.register_buffer("scale", scale)

    def _halves(self) -> tuple[rl.Tensor, rl.Tensor]:
        low, high = (self.weight & 15).float() - 8.0, (self.weight >> 4).float() - 8.0
        return low * self.scale[:, :, None], high * self.scale[:, :, None]

    def widened(self) -> rl.Tensor:
        """The weight in float32."""
        return rl.cat(self._halves(), 2).reshape(self.weight.shape[0], -1)

    def product(self, x: rl.Tensor) -> rl.Tensor:
        """One row times the weight."""
        parts = x.reshape(-1, 2, GROUP // 2)
        low, high = self._halves()
        return (low * parts[:, 0] + high * parts[:, 1]).sum((1, 2))


def kept(weight: rl.Tensor, bias: rl.Tensor | None, kind: str | None) -> KeptLinear:
    """A layer that keeps a weight in one of `KINDS`, or with None in its own dtype."""
    bias = None if bias is None else bias.float()
    if kind in ("int8", "int4"):
        return (Int8Linear if kind == "int8" else Int4Linear)(weight, bias)
    return KeptLinear(weight if kind is None else weight.to(getattr(rl, kind)), bias)


def keep_linear_layers(module: nn.Module, kind: str | None) -> None:
    """Makes all linear layers in a module ones that keep their weights in a kind. A002 for an unknown one."""
    valid = kind is None or kind in KINDS
    require(valid, "A002", f"models: weights are one of {', '.join(KINDS)}", weights=kind)
    for name, layer in list(module.named_modules()):
        if isinstance(layer, nn.Linear):
            owner, _, own = name.rpartition(".")
            setattr(module.get_submodule(owner), own, kept(layer.weight.detach(), layer.bias, kind))

"""Instance norms."""

from __future__ import annotations

from rushlight.eager.symbols import holds
from rushlight.eager.tensor import Tensor
from rushlight.nn import functional
from rushlight.nn.modules.batchnorm import ChannelNorm, LazyNorm
from rushlight.support.errors import require, warn

__all__ = [
    "InstanceNorm1d",
    "InstanceNorm2d",
    "InstanceNorm3d",
    "LazyInstanceNorm1d",
    "LazyInstanceNorm2d",
    "LazyInstanceNorm3d",
]


class InstanceNorm(ChannelNorm):
    """Base of the instance norms (Ulyanov et al. 2016): each channel of each sample by itself.

    Running statistics, where they are tracked, are those of evaluation. The lower of `_ranks` is of one sample.
    """

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = False,
        track_running_stats: bool = False,
        device: object = None,
        dtype: object = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)

    def forward(self, input: Tensor) -> Tensor:
        """Return the normalised input."""
        self._check_input_dim(input)
        single = input.ndim == self._ranks[0]
        dim = 0 if single else 1
        if not holds(input.shape[dim] == self.num_features):
            normalized = (
                f"input's size at dim={dim} to match num_features ({self.num_features}), but got: {input.shape[dim]}"
            )
            require(not self.affine, "A002", f"expected {normalized}")
            warn("A008", f"{type(self).__name__}: num_features is not used, and is not the input's size at dim={dim}")
        output = functional.instance_norm(
            input.unsqueeze(0) if single else input,
            self.running_mean,
            self.running_var,
            self.weight,
            self.bias,
            self.training or not self.track_running_stats,
            0.0 if self.momentum is None else self.momentum,
            self.eps,
        )
        return output.squeeze(0) if single else output


class InstanceNorm1d(InstanceNorm):
    """Normalises each channel of each sample of (n, channels, length) or (channels, length)."""

    _ranks = (2, 3)


class InstanceNorm2d(InstanceNorm):
    """Normalises each channel of samples of (n, channels, height, width) or (channels, height, width)."""

    _ranks = (3, 4)


class InstanceNorm3d(InstanceNorm):
    """Normalises each channel of each sample of (n, channels, depth, height, width), n optional."""

    _ranks = (4, 5)


class LazyInstanceNorm1d(LazyNorm, InstanceNorm):
    """An InstanceNorm1d whose `num_features` the first input tells."""

    cls_to_become = InstanceNorm1d
    _ranks = InstanceNorm1d._ranks


class LazyInstanceNorm2d(LazyNorm, InstanceNorm):
    """An InstanceNorm2d whose `num_features` the first input tells."""

    cls_to_become = InstanceNorm2d
    _ranks = InstanceNorm2d._ranks


class LazyInstanceNorm3d(LazyNorm, InstanceNorm):
    """An InstanceNorm3d whose `num_features` the first input tells."""

    cls_to_become = InstanceNorm3d
    _ranks = InstanceNorm3d._ranks

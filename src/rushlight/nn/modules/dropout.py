"""Dropout of channels, and for networks of selu."""

from __future__ import annotations

from rushlight.eager.tensor import Tensor
from rushlight.nn import functional
from rushlight.nn.modules.module import Module
from rushlight.support.errors import require

__all__ = ["AlphaDropout", "Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "FeatureAlphaDropout"]


class Dropout(Module):
    """Sets elements to 0 with probability `p` while training, and divides the others by `1 - p`."""

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        require(0 <= p <= 1, "A002", f"dropout probability has to be between 0 and 1, but got {p}")
        self.p = p
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """Return the input with elements dropped."""
        return functional.dropout(input, self.p, self.training, self.inplace)

    def extra_repr(self) -> str:
        """Return the options."""
        return f"p={self.p}, inplace={self.inplace}"


class Dropout1d(Dropout):
    """Drops whole channels of (n, c, length) while training."""

    def forward(self, input: Tensor) -> Tensor:
        """Return the input with channels dropped."""
        return functional.dropout1d(input, self.p, self.training, self.inplace)


class Dropout2d(Dropout):
    """Drops whole channels of (n, c, h, w) while training."""

    def forward(self, input: Tensor) -> Tensor:
        """Return the input with channels dropped."""
        return functional.dropout2d(input, self.p, self.training, self.inplace)


class Dropout3d(Dropout):
    """Drops whole channels of (n, c, d, h, w) while training."""

    def forward(self, input: Tensor) -> Tensor:
        """Return the input with channels dropped."""
        return functional.dropout3d(input, self.p, self.training, self.inplace)


class AlphaDropout(Dropout):
    """Dropout that keeps mean and variance of what selu gives."""

    def forward(self, input: Tensor) -> Tensor:
        """Return the input with elements dropped."""
        return functional.alpha_dropout(input, self.p, self.training, self.inplace)


class FeatureAlphaDropout(Dropout):
    """AlphaDropout of whole channels."""

    def forward(self, input: Tensor) -> Tensor:
        """Return the input with channels dropped."""
        return functional.feature_alpha_dropout(input, self.p, self.training, self.inplace)

"""Dropout of channels, and for networks of selu."""

from __future__ import annotations

from rushlight.eager.tensor import Tensor
from rushlight.nn import functional
from rushlight.nn.activation import Dropout


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

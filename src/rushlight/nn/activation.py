"""Activations and dropout as modules."""

from __future__ import annotations

from rushlight.eager.tensor import Tensor
from rushlight.nn import functional
from rushlight.nn.module import Module
from rushlight.support.errors import require


class InplaceActivation(Module):
    """A module with the one option to overwrite its input."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def extra_repr(self) -> str:
        """Return the option where it is set."""
        return "inplace=True" if self.inplace else ""


class ReLU(InplaceActivation):
    """The larger of each element and 0."""

    def forward(self, input: Tensor) -> Tensor:
        """Return the activation."""
        return functional.relu(input, self.inplace)


class ReLU6(InplaceActivation):
    """Each element held between 0 and 6."""

    def forward(self, input: Tensor) -> Tensor:
        """Return the activation."""
        return functional.relu6(input, self.inplace)


class SiLU(InplaceActivation):
    """`x * sigmoid(x)`, also called swish."""

    def forward(self, input: Tensor) -> Tensor:
        """Return the activation."""
        return functional.silu(input, self.inplace)


class Mish(InplaceActivation):
    """`x * tanh(softplus(x))`."""

    def forward(self, input: Tensor) -> Tensor:
        """Return the activation."""
        return functional.mish(input, self.inplace)


class Hardswish(InplaceActivation):
    """`x * relu6(x + 3) / 6`."""

    def forward(self, input: Tensor) -> Tensor:
        """Return the activation."""
        return functional.hardswish(input, self.inplace)


class LeakyReLU(Module):
    """x where positive, else `negative_slope * x`."""

    def __init__(self, negative_slope: float = 0.01, inplace: bool = False) -> None:
        super().__init__()
        self.negative_slope = negative_slope
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """Return the activation."""
        return functional.leaky_relu(input, self.negative_slope, self.inplace)

    def extra_repr(self) -> str:
        """Return the slope."""
        return f"negative_slope={self.negative_slope}" + (", inplace=True" if self.inplace else "")


class ELU(Module):
    """x where positive, else `alpha * (exp(x) - 1)`."""

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        self.alpha = alpha
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """Return the activation."""
        return functional.elu(input, self.alpha, self.inplace)

    def extra_repr(self) -> str:
        """Return alpha."""
        return f"alpha={self.alpha}" + (", inplace=True" if self.inplace else "")


class Softplus(Module):
    """`log(1 + exp(beta * x)) / beta`."""

    def __init__(self, beta: float = 1.0, threshold: float = 20.0) -> None:
        super().__init__()
        self.beta = beta
        self.threshold = threshold

    def forward(self, input: Tensor) -> Tensor:
        """Return the activation."""
        return functional.softplus(input, self.beta, self.threshold)

    def extra_repr(self) -> str:
        """Return the options."""
        return f"beta={self.beta}, threshold={self.threshold}"


class Hardtanh(Module):
    """Each element held between two bounds."""

    def __init__(self, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        require(min_val < max_val, "A002", "Hardtanh: max_val must be larger than min_val")
        self.min_val = min_val
        self.max_val = max_val
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """Return the activation."""
        return functional.hardtanh(input, self.min_val, self.max_val, self.inplace)

    def extra_repr(self) -> str:
        """Return the bounds."""
        return f"min_val={self.min_val}, max_val={self.max_val}" + (", inplace=True" if self.inplace else "")


class GELU(Module):
    """`x * Phi(x)` with the normal distribution's Phi, which "tanh" approximates.

    Source: Hendrycks and Gimpel 2016.
    """

    def __init__(self, approximate: str = "none") -> None:
        super().__init__()
        self.approximate = approximate

    def forward(self, input: Tensor) -> Tensor:
        """Return the activation."""
        return functional.gelu(input, approximate=self.approximate)

    def extra_repr(self) -> str:
        """Return the approximation."""
        return f"approximate={self.approximate!r}"


class Sigmoid(Module):
    """`1 / (1 + exp(-x))`."""

    def forward(self, input: Tensor) -> Tensor:
        """Return the activation."""
        return functional.sigmoid(input)


class LogSigmoid(Module):
    """The logarithm of the sigmoid."""

    def forward(self, input: Tensor) -> Tensor:
        """Return the activation."""
        return functional.logsigmoid(input)


class Tanh(Module):
    """Hyperbolic tangent."""

    def forward(self, input: Tensor) -> Tensor:
        """Return the activation."""
        return functional.tanh(input)


class Softmax(Module):
    """Exponentials over their sum along a dim."""

    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Tensor) -> Tensor:
        """Return the probabilities."""
        return functional.softmax(input, self.dim)

    def extra_repr(self) -> str:
        """Return the dim."""
        return f"dim={self.dim}"


class LogSoftmax(Module):
    """The logarithm of softmax."""

    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Tensor) -> Tensor:
        """Return the logarithms of probabilities."""
        return functional.log_softmax(input, self.dim)

    def extra_repr(self) -> str:
        """Return the dim."""
        return f"dim={self.dim}"


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

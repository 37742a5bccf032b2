"""Further activations as layers."""

from __future__ import annotations

from rushlight.eager.creation import full
from rushlight.eager.tensor import Parameter, Tensor
from rushlight.nn import functional, init
from rushlight.nn.activation import InplaceActivation
from rushlight.nn.module import Module
from rushlight.support.errors import require


class SELU(InplaceActivation):
    """The scaled elu that keeps mean 0 and variance 1."""

    def forward(self, input: Tensor) -> Tensor:
        """Return the activation."""
        return functional.selu(input, self.inplace)


class Hardsigmoid(InplaceActivation):
    """`relu6(x + 3) / 6`."""

    def forward(self, input: Tensor) -> Tensor:
        """Return the activation."""
        return functional.hardsigmoid(input, self.inplace)

    def extra_repr(self) -> str:
        """Return nothing, as PyTorch prints it."""
        return ""


class CELU(Module):
    """x where positive, else `alpha * (exp(x / alpha) - 1)`."""

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        self.alpha = alpha
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """Return the activation."""
        return functional.celu(input, self.alpha, self.inplace)

    def extra_repr(self) -> str:
        """Return alpha."""
        return f"alpha={self.alpha}" + (", inplace=True" if self.inplace else "")


class GLU(Module):
    """The first half of a dim times the sigmoid of the second."""

    def __init__(self, dim: int = -1) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Tensor) -> Tensor:
        """Return the activation."""
        return functional.glu(input, self.dim)

    def extra_repr(self) -> str:
        """Return the dim."""
        return f"dim={self.dim}"


class Hardshrink(Module):
    """x, or 0 within `lambd` of 0."""

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = lambd

    def forward(self, input: Tensor) -> Tensor:
        """Return the activation."""
        return functional.hardshrink(input, self.lambd)

    def extra_repr(self) -> str:
        """Return the bound."""
        return f"{self.lambd}"


class Softshrink(Module):
    """x moved towards 0 by `lambd`, or 0 within `lambd` of 0."""

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = lambd

    def forward(self, input: Tensor) -> Tensor:
        """Return the activation."""
        return functional.softshrink(input, self.lambd)

    def extra_repr(self) -> str:
        """Return the bound."""
        return f"{self.lambd}"


class PReLU(Module):
    """x where positive, else x times a parameter: one for all channels, or one for each."""

    def __init__(
        self, num_parameters: int = 1, init: float = 0.25, device: object = None, dtype: object = None
    ) -> None:
        super().__init__()
        self.num_parameters = num_parameters
        self.init = init
        self.weight = Parameter(full((num_parameters,), init, device=device, dtype=dtype))

    def reset_parameters(self) -> None:
        """Set the slopes to their first value."""
        init.constant_(self.weight, self.init)

    def forward(self, input: Tensor) -> Tensor:
        """Return the activation."""
        return functional.prelu(input, self.weight)

    def extra_repr(self) -> str:
        """Return the number of slopes."""
        return f"num_parameters={self.num_parameters}"


class RReLU(Module):
    """x where positive, else x times a slope that is drawn while training."""

    def __init__(self, lower: float = 1 / 8, upper: float = 1 / 3, inplace: bool = False) -> None:
        super().__init__()
        require(lower <= upper, "A002", "RReLU: lower is at most upper", lower=lower, upper=upper)
        self.lower = lower
        self.upper = upper
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """Return the activation."""
        return functional.rrelu(input, self.lower, self.upper, self.training, self.inplace)

    def extra_repr(self) -> str:
        """Return the range of slopes."""
        return f"lower={self.lower}, upper={self.upper}" + (", inplace=True" if self.inplace else "")


class Threshold(Module):
    """x above a threshold, else a value."""

    def __init__(self, threshold: float, value: float, inplace: bool = False) -> None:
        super().__init__()
        self.threshold = threshold
        self.value = value
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """Return the activation."""
        return functional.threshold(input, self.threshold, self.value, self.inplace)

    def extra_repr(self) -> str:
        """Return the threshold and the value."""
        return f"threshold={self.threshold}, value={self.value}" + (", inplace=True" if self.inplace else "")


class Softmax2d(Module):
    """Softmax over the channels of (n, c, h, w) or (c, h, w)."""

    def forward(self, input: Tensor) -> Tensor:
        """Return the probabilities."""
        require(input.ndim in (3, 4), "A002", "Softmax2d: the input has 3 or 4 dims", input=input)
        return functional.softmax(input, -3)


class Softmin(Module):
    """The softmax of -x."""

    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Tensor) -> Tensor:
        """Return the probabilities."""
        return functional.softmin(input, self.dim)

    def extra_repr(self) -> str:
        """Return the dim."""
        return f"dim={self.dim}"


class Softsign(Module):
    """`x / (1 + |x|)`."""

    def forward(self, input: Tensor) -> Tensor:
        """Return the activation."""
        return functional.softsign(input)


class Tanhshrink(Module):
    """`x - tanh(x)`."""

    def forward(self, input: Tensor) -> Tensor:
        """Return the activation."""
        return functional.tanhshrink(input)

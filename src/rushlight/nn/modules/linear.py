"""Linear and bilinear layers."""

from __future__ import annotations

import math

from rushlight.eager.creation import empty
from rushlight.eager.tensor import Parameter, Tensor
from rushlight.nn import functional, init
from rushlight.nn.modules.lazy import LazyModuleMixin
from rushlight.nn.modules.module import Module
from rushlight.nn.parameter import UninitializedParameter, UninitializedTensorMixin
from rushlight.support.errors import require

__all__ = ["Bilinear", "Identity", "LazyLinear", "Linear"]


class Identity(Module):
    """Returns its input; takes and ignores any arguments."""

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__()

    def forward(self, input: Tensor) -> Tensor:
        """Return the input."""
        return input


class Linear(Module):
    """`input @ weight.mT + bias`; the weight is (out_features, in_features)."""

    weight: Parameter
    bias: Parameter | None

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, device: object = None, dtype: object = None
    ) -> None:
        super().__init__()
        self.in_features = in_features
        self.out_features = out_features
        self.weight = Parameter(empty(out_features, in_features, device=device, dtype=dtype))
        if bias:
            self.bias = Parameter(empty(out_features, device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new values, evenly within one over the root of the number of inputs."""
        init_like_linear(self.weight, self.bias)

    def forward(self, input: Tensor) -> Tensor:
        """Return the product, with the bias added."""
        return functional.linear(input, self.weight, self.bias)

    def extra_repr(self) -> str:
        """Return the sizes."""
        return f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"


class NonDynamicallyQuantizableLinear(Linear):
    """A Linear under the name that the output of PyTorch's attention has."""


class LazyLinear(LazyModuleMixin, Linear):
    """A Linear whose `in_features` the first input tells."""

    cls_to_become = Linear

    def __init__(self, out_features: int, bias: bool = True, device: object = None, dtype: object = None) -> None:
        super().__init__(0, 0, False)
        self.out_features = out_features
        self.weight = UninitializedParameter(device=device, dtype=dtype)
        if bias:
            self.bias = UninitializedParameter(device=device, dtype=dtype)

    def reset_parameters(self) -> None:
        """Draw new values, once there is a shape."""
        if not self.has_uninitialized_params() and self.in_features != 0:
            super().reset_parameters()

    def initialize_parameters(self, input: Tensor) -> None:
        """Take the number of inputs from the last dim."""
        waits = self.has_uninitialized_params()
        if waits or not self.in_features:
            self.in_features = input.shape[-1]
        if waits:
            shapes = {"weight": (self.out_features, self.in_features), "bias": (self.out_features,)}
            for name, shape in shapes.items():
                one = getattr(self, name)
                if isinstance(one, UninitializedTensorMixin):
                    one.materialize(shape)
            self.reset_parameters()


def init_like_linear(weight: Tensor, bias: Tensor | None) -> None:
    """Draw a weight and a bias as PyTorch does for linear and convolution layers."""
    init.kaiming_uniform_(weight, a=math.sqrt(5))
    if bias is not None:
        fan_in, _ = init.calculate_fans(weight)
        if fan_in > 0:
            bound = 1 / math.sqrt(fan_in)
            init.uniform_(bias, -bound, bound)


class Bilinear(Module):
    """`x1' W_k x2 + b_k` for each of `out_features` matrices."""

    def __init__(
        self,
        in1_features: int,
        in2_features: int,
        out_features: int,
        bias: bool = True,
        device: object = None,
        dtype: object = None,
    ) -> None:
        super().__init__()
        require(in1_features > 0, "A002", f"in1_features must be > 0, but got {in1_features}")
        self.in1_features = in1_features
        self.in2_features = in2_features
        self.out_features = out_features
        shape = (out_features, in1_features, in2_features)
        self.weight = Parameter(empty(shape, device=device, dtype=dtype))
        self.register_parameter("bias", Parameter(empty(out_features, device=device, dtype=dtype)) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the weight and the bias anew."""
        bound = self.in1_features**-0.5
        init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input1: Tensor, input2: Tensor) -> Tensor:
        """Return the bilinear forms."""
        return functional.bilinear(input1, input2, self.weight, self.bias)

    def extra_repr(self) -> str:
        """Return the sizes."""
        sizes = f"in1_features={self.in1_features}, in2_features={self.in2_features}"
        return f"{sizes}, out_features={self.out_features}, bias={self.bias is not None}"

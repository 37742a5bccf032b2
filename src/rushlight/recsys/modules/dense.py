"""Layers of dense numbers, by TorchRec's names and with its keys of states."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, cast

import rushlight as rl
from rushlight import Tensor
from rushlight.nn import Identity, LayerNorm, Linear, Module, Sequential, Sigmoid
from rushlight.support.errors import require

Activation = Module | Callable[[Tensor], Tensor]


class SwishLayerNorm(Module):
    """The Swish function of normalised numbers: `x * sigmoid(LayerNorm(x))`.

    SwishLayerNorm(16)(rl.randn(4, 16))
    """

    def __init__(self, input_dims: int | Sequence[int], device: Any = None) -> None:
        super().__init__()
        dims = input_dims if isinstance(input_dims, int) else list(input_dims)
        self.norm = Sequential(LayerNorm(dims, device=device), Sigmoid())

    def forward(self, input: Tensor) -> Tensor:
        """Return a tensor of the same shape."""
        return input * self.norm(input)


class Perceptron(Module):
    """A linear layer and an activation.

    Perceptron(40, 16)(rl.randn(3, 40))
    """

    def __init__(
        self,
        in_size: int,
        out_size: int,
        bias: bool = True,
        activation: Activation = rl.relu,
        device: Any = None,
        dtype: Any = rl.float32,
    ) -> None:
        super().__init__()
        self._linear = Linear(in_size, out_size, bias=bias, device=device, dtype=dtype)
        self._activation_fn = activation

    def forward(self, input: Tensor) -> Tensor:
        """[batch, in_size] to [batch, out_size]."""
        return self._activation_fn(self._linear(input))


_NAMED: dict[str, Activation] = {"relu": rl.relu, "sigmoid": rl.sigmoid}
_NORMALISED = "swish_layernorm"


class MLP(Module):
    """Perceptrons, one after another.

    MLP(40, [16, 8, 4])(rl.randn(3, 40))

    `activation` is a function, a module that all layers share, a function without arguments that makes one for each
    layer, or one of the names relu, sigmoid and swish_layernorm. A002 for other names.
    """

    def __init__(
        self,
        in_size: int,
        layer_sizes: Sequence[int],
        bias: bool = True,
        activation: str | Activation | Callable[[], Module] = rl.relu,
        device: Any = None,
        dtype: Any = rl.float32,
        activation_on_last: bool = True,
    ) -> None:
        super().__init__()
        known = [*_NAMED, _NORMALISED]
        named = not isinstance(activation, str) or activation in known
        require(named, "A002", "MLP: there is no such activation", activation=activation, known=known)
        layers: list[Module] = []
        for place, (size, before) in enumerate(zip(layer_sizes, [in_size, *layer_sizes], strict=False)):
            plain = place == len(layer_sizes) - 1 and not activation_on_last
            function = Identity() if plain else _activation(activation, size, device)
            layers.append(Perceptron(before, size, bias, function, device, dtype))
        self._mlp = Sequential(*layers)

    def forward(self, input: Tensor) -> Tensor:
        """[batch, in_size] to [batch, the last of layer_sizes]."""
        return self._mlp(input)


def _activation(kind: str | Activation | Callable[[], Module], size: int, device: Any) -> Activation:
    """The activation of one layer."""
    if isinstance(kind, str):
        return SwishLayerNorm(size, device) if kind == _NORMALISED else _NAMED[kind]
    if not isinstance(kind, Module) and (isinstance(kind, type) or _takes_nothing(kind)):
        return cast(Callable[[], Module], kind)()
    return cast(Activation, kind)


def _takes_nothing(function: Callable[..., object]) -> bool:
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:  # a function of C without a signature
        return False
    return all(one.default is not one.empty or one.kind in (one.VAR_POSITIONAL, one.VAR_KEYWORD) for one in parameters)

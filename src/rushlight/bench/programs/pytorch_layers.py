"""Recurrent layers and transforms in PyTorch's API."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import rushlight as rl
from rushlight.bench.programs.pytorch_ops import Function, Modes, plain, with_gradients

F = rl.nn.functional
NAMES = ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0")


@functools.cache
def layer_of(kind: str, width: int, hidden: int) -> Any:
    """A layer, whose own parameters are not used."""
    return getattr(rl.nn, kind)(width, hidden)


def recurrent(kind: str, x: rl.Tensor, *parameters: rl.Tensor) -> rl.Tensor:
    """The outputs of a layer with these weights and biases."""
    layer = layer_of(kind, x.shape[-1], parameters[1].shape[1])
    return rl.func.functional_call(layer, dict(zip(NAMES, parameters, strict=True)), (x,))[0]


def soft(w: rl.Tensor, x: rl.Tensor) -> rl.Tensor:
    """The sum of softplus(w @ x)."""
    return F.softplus(w @ x).sum()


FUNCTIONS: dict[str, Callable[[Modes], Function]] = {
    "lstm": with_gradients(functools.partial(recurrent, "LSTM"), 5),
    "gru": with_gradients(functools.partial(recurrent, "GRU"), 5),
    "vmap": plain(lambda w, x: rl.vmap(lambda row: (w @ row).tanh())(x)),
    "jacrev": plain(lambda w, x: rl.func.jacrev(lambda point: (w @ point).tanh())(x)),
    "hessian": plain(lambda w, x: rl.func.hessian(functools.partial(soft, w))(x)),
}

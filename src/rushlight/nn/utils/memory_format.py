"""Weights of convolutions in another order of memory."""

from __future__ import annotations

from typing import Any, TypeVar

from rushlight.eager.boundary import checked
from rushlight.nn.modules.conv import Conv2d, Conv3d, ConvTranspose2d, ConvTranspose3d
from rushlight.nn.modules.module import Module
from rushlight.support.peer_names import absent_name

__all__ = ["convert_conv2d_weight_memory_format", "convert_conv3d_weight_memory_format"]

T = TypeVar("T", bound=Module)


@checked
def convert_conv2d_weight_memory_format(module: T, memory_format: object) -> T:
    """Lay out the weights of all 2-d convolutions in a module anew, as `rl.channels_last` for one."""
    return _convert(module, (Conv2d, ConvTranspose2d), memory_format)


@checked
def convert_conv3d_weight_memory_format(module: T, memory_format: object) -> T:
    """Lay out the weights of all 3-d convolutions in a module anew, as `rl.channels_last_3d` for one."""
    return _convert(module, (Conv3d, ConvTranspose3d), memory_format)


def _convert(module: T, kinds: tuple[type[Module], ...], memory_format: object) -> T:
    layers: list[Any] = [layer for layer in module.modules() if isinstance(layer, kinds)]
    for layer in layers:
        layer.weight.data = layer.weight.detach().clone(memory_format=memory_format)
    return module


def __getattr__(name: str) -> object:
    raise absent_name(__name__, name, __all__)

"""The record of a small model: its maker, its inputs, and the ranges of their sizes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import rushlight as rl


class Extent(NamedTuple):
    """The least and the most that a size may be; without a most, anything fits."""

    least: int
    most: int | None = None


@dataclass(frozen=True, slots=True)
class SmallModel:
    """A model of at most five million parameters, written in PyTorch's API.

    `inputs` takes a number for each of `sizes`, in their order, and a seed. `dims` has for each input the name of each
    of its sizes, or None where the model fixes it.
    """

    name: str
    make: Callable[[], rl.nn.Module]
    inputs: Callable[..., tuple[rl.Tensor, ...]]
    dims: tuple[tuple[str | None, ...], ...]
    sizes: Mapping[str, Extent]

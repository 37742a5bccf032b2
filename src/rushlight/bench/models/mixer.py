"""An MLP-mixer (Tolstikhin et al. 2021): MLPs over places and over channels in turns."""

from __future__ import annotations

import numpy as np

import rushlight as rl
from rushlight import nn
from rushlight.bench.models.record import Extent, SmallModel

F = nn.functional
CLASSES = 10
PATCH = 4


class Mlp(nn.Module):
    """Two layers on the last dim."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.widen = nn.Linear(width, hidden)
        self.narrow = nn.Linear(hidden, width)

    def forward(self, x: rl.Tensor) -> rl.Tensor:
        """Of the same shape."""
        return self.narrow(F.gelu(self.widen(x)))


class Mixing(nn.Module):
    """Places are mixed for each channel, then channels for each place."""

    def __init__(self, places: int, width: int) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(width)
        self.over_places = Mlp(places, 2 * places)
        self.norm2 = nn.LayerNorm(width)
        self.over_channels = Mlp(width, 2 * width)

    def forward(self, x: rl.Tensor) -> rl.Tensor:
        """[batch, places, width] in and out."""
        x = x + self.over_places(self.norm1(x).transpose(1, 2)).transpose(1, 2)
        return x + self.over_channels(self.norm2(x))


class Mixer(nn.Module):
    """Patches of an image, averaged to a fixed grid, to logits."""

    def __init__(self, grid: int = 8, width: int = 128, layers: int = 4) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, PATCH, PATCH)
        self.grid = nn.AdaptiveAvgPool2d((grid, grid))
        self.layers = nn.Sequential(*[Mixing(grid * grid, width) for _ in range(layers)])
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, CLASSES)

    def forward(self, image: rl.Tensor) -> rl.Tensor:
        """[batch, 3, height, width] to [batch, 10]."""
        x = self.grid(self.patches(image)).flatten(2).transpose(1, 2)
        return self.head(self.norm(self.layers(x)).mean(1))


def inputs(batch: int, height: int, width: int, seed: int = 0) -> tuple[rl.Tensor, ...]:
    """Images."""
    rng = np.random.default_rng(seed)
    return (rl.from_numpy(rng.standard_normal((batch, 3, height, width), dtype=np.float32)),)


MODEL = SmallModel(
    "mixer",
    Mixer,
    inputs,
    (("batch", None, "height", "width"),),
    {"batch": Extent(1), "height": Extent(PATCH), "width": Extent(PATCH)},
)

"""A U-Net (Ronneberger et al. 2015) for images of any size."""

from __future__ import annotations

import numpy as np

import rushlight as rl
from rushlight import nn
from rushlight.bench.models.record import Extent, SmallModel

F = nn.functional
CLASSES = 2


class Twice(nn.Sequential):
    """Two convolutions, each normalized."""

    def __init__(self, inner: int, outer: int) -> None:
        layers = [nn.Conv2d(inner, outer, 3, padding=1, bias=False), nn.GroupNorm(4, outer), nn.ReLU()]
        more = [nn.Conv2d(outer, outer, 3, padding=1, bias=False), nn.GroupNorm(4, outer), nn.ReLU()]
        super().__init__(*layers, *more)


class UNet(nn.Module):
    """Images are halved twice and enlarged twice, with skip connections.

    One enlargement is learned, the other interpolates.
    """

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.first = Twice(3, width)
        self.second = Twice(width, 2 * width)
        self.bottom = Twice(2 * width, 4 * width)
        self.up = nn.ConvTranspose2d(4 * width, 2 * width, 2, stride=2)
        self.third = Twice(4 * width, 2 * width)
        self.narrow = nn.Conv2d(2 * width, width, 1)
        self.fourth = Twice(2 * width, width)
        self.head = nn.Conv2d(width, CLASSES, 1)

    def forward(self, image: rl.Tensor) -> rl.Tensor:
        """[batch, 3, height, width] to [batch, 2, height, width]."""
        first = self.first(image)
        second = self.second(F.max_pool2d(first, 2))
        x = self.up(self.bottom(F.max_pool2d(second, 2)))
        # Halving drops the last of an odd number of rows or columns.
        missing = second.shape[2] - x.shape[2], second.shape[3] - x.shape[3]
        x = F.pad(x, (0, missing[1], 0, missing[0]))
        x = self.third(rl.cat([second, x], 1))
        x = F.interpolate(self.narrow(x), first.shape[2:], mode="bilinear")
        return self.head(self.fourth(rl.cat([first, x], 1)))


def inputs(batch: int, height: int, width: int, seed: int = 0) -> tuple[rl.Tensor, ...]:
    """Images."""
    rng = np.random.default_rng(seed)
    return (rl.from_numpy(rng.standard_normal((batch, 3, height, width), dtype=np.float32)),)


MODEL = SmallModel(
    "unet",
    UNet,
    inputs,
    (("batch", None, "height", "width"),),
    {"batch": Extent(1), "height": Extent(4), "width": Extent(4)},
)

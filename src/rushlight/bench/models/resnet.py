"""A residual network (He et al. 2015) of three stages."""

from __future__ import annotations

import numpy as np

import rushlight as rl
from rushlight import nn
from rushlight.bench.models.record import Extent, SmallModel
from rushlight.bench.programs.pytorch_models import Residual

F = nn.functional
CLASSES = 10


class ResNet(nn.Module):
    """Two blocks in each stage; each but the first stage halves the image and doubles the channels."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, width, 3, 1, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.layer1 = nn.Sequential(Residual(width, width, 1), Residual(width, width, 1))
        self.layer2 = nn.Sequential(Residual(width, 2 * width, 2), Residual(2 * width, 2 * width, 1))
        self.layer3 = nn.Sequential(Residual(2 * width, 4 * width, 2), Residual(4 * width, 4 * width, 1))
        self.fc = nn.Linear(4 * width, CLASSES)

    def forward(self, image: rl.Tensor) -> rl.Tensor:
        """[batch, 3, height, width] to [batch, 10]."""
        x = F.relu(self.bn1(self.conv1(image)))
        x = self.layer3(self.layer2(self.layer1(x)))
        return self.fc(x.mean((2, 3)))


def inputs(batch: int, height: int, width: int, seed: int = 0) -> tuple[rl.Tensor, ...]:
    """Images."""
    rng = np.random.default_rng(seed)
    return (rl.from_numpy(rng.standard_normal((batch, 3, height, width), dtype=np.float32)),)


MODEL = SmallModel(
    "resnet",
    ResNet,
    inputs,
    (("batch", None, "height", "width"),),
    # In training mode the last stage needs more than one value in each channel.
    {"batch": Extent(1), "height": Extent(5), "width": Extent(5)},
)

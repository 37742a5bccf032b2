"""The learning rate schedules, under PyTorch's module name."""

from rushlight.optim.combined import ChainedScheduler, SequentialLR
from rushlight.optim.cyclic import CosineAnnealingWarmRestarts, CyclicLR
from rushlight.optim.one_cycle import OneCycleLR
from rushlight.optim.plateau import ReduceLROnPlateau
from rushlight.optim.schedule import (
    ConstantLR,
    CosineAnnealingLR,
    ExponentialLR,
    LambdaLR,
    LinearLR,
    LRScheduler,
    MultiplicativeLR,
    MultiStepLR,
    PolynomialLR,
    StepLR,
)
from rushlight.support.peer_names import absent_name

__all__ = [
    "ChainedScheduler",
    "ConstantLR",
    "CosineAnnealingLR",
    "CosineAnnealingWarmRestarts",
    "CyclicLR",
    "ExponentialLR",
    "LRScheduler",
    "LambdaLR",
    "LinearLR",
    "MultiStepLR",
    "MultiplicativeLR",
    "OneCycleLR",
    "PolynomialLR",
    "ReduceLROnPlateau",
    "SequentialLR",
    "StepLR",
]


def __getattr__(name: str) -> object:
    raise absent_name(__name__, name, __all__)

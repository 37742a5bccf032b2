"""Small models for any sizes of their inputs, each a file of ordinary PyTorch code."""

from rushlight.bench.models import bert, dlrm, gpt, mixer, resnet, t5
from rushlight.bench.models.record import Extent, SmallModel

__all__ = ["MODELS", "Extent", "SmallModel"]

MODELS: dict[str, SmallModel] = {module.MODEL.name: module.MODEL for module in (gpt, bert, t5, resnet, mixer, dlrm)}

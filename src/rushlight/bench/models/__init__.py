"""Small models for any sizes of their inputs, each a file of ordinary PyTorch code."""

from rushlight.bench.models import bert, dlrm, gpt, lstm, mixer, resnet, t5, unet
from rushlight.bench.models.record import Extent, SmallModel

__all__ = ["MODELS", "Extent", "SmallModel"]

_FILES = (gpt, bert, t5, resnet, mixer, unet, lstm, dlrm)
MODELS: dict[str, SmallModel] = {file.MODEL.name: file.MODEL for file in _FILES}

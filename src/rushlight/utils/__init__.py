"""The names that PyTorch keeps under `torch.utils`."""

from rushlight.utils import data

__all__ = ["data"]

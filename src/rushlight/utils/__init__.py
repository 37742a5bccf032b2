"""The names that PyTorch keeps under `torch.utils`."""

from rushlight.utils import data, dlpack

__all__ = ["data", "dlpack"]

"""`torch.torch_version`."""

from rushlight.torch.modules import __version__

__all__ = ["TorchVersion", "__version__"]

TorchVersion = str

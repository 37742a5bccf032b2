"""`torch.version`."""

from rushlight.torch.modules import __version__

__all__ = ["__version__", "cuda", "debug", "git_version", "hip", "xpu"]

cuda = None
debug = False
git_version = "unknown"
hip = None
xpu = None

"""Signals, as `torch.signal`: windows of spectra.

>>> import rushlight as rl
>>> rl.signal.windows.bartlett(5)
tensor([0.0000, 0.5000, 1.0000, 0.5000, 0.0000])
"""

from rushlight.signal import windows
from rushlight.support.peer_names import absent_name

__all__ = ["windows"]


def __getattr__(name: str) -> object:
    raise absent_name(__name__, name, __all__)

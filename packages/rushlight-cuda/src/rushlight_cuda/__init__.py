"""NVIDIA's GPUs for Rushlight: `pip install` this package, and `rl.ones(3, device="cuda")` is on one.

Nothing is looked for before a program allocates memory there. Programs are PTX that Rushlight writes; the driver makes
code of it. Work goes to one queue in order; a `Recording` keeps the launches of a function, to run them as one.
"""

from rushlight_cuda.backend import Cuda
from rushlight_cuda.driver import Driver
from rushlight_cuda.recording import Recording

__all__ = ["Cuda", "Driver", "Recording"]

"""simt: an emulated GPU. `pip install` this package, and `rl.ones(3, device="simt")` is on it.

Its kernels have the blocks, threads, barriers and shared memory that a GPU's have. A processor runs them: blocks as
loops, the threads of a block one after the other between two barriers. Each access is checked, so that a race for
shared memory, or an address outside of its buffer, is an error.
"""

from simt.backend import Simt

__all__ = ["Simt"]

"""mica: an emulated accelerator. `pip install` this package, and `rl.ones(3, device="mica")` is on it.

Its memory is an arena that only the device maps: addresses are numbers from 1 << 60 on, which no pointer of the host's
can be. Its programs are those that Rushlight's code generator makes for the host's processor; the device translates
the addresses in their descriptors, as a memory management unit does, and runs them in its arena.
"""

from mica.backend import Mica

__all__ = ["Mica"]

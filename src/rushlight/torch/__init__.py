"""The alias: in a process that installs it, `import torch` and its submodules are Rushlight.

`rushlight run script.py` and `python -m rushlight.torch script.py` install it and run a program. A program may install
it by itself, before anything imports torch:

    import rushlight.torch

    rushlight.torch.install()
    import torch

Nothing on disk changes, and other processes do not see it.
"""

from rushlight.torch.finder import install, uninstall
from rushlight.torch.modules import __version__

VERSION = __version__  # of PyTorch, whose API is followed

__all__ = ["VERSION", "install", "uninstall"]

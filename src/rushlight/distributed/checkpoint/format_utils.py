"""Checkpoints of many files as one file, and back.

`python -m torch.distributed.checkpoint.format_utils dcp_to_torch FROM TO` does it from a command line.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from rushlight.distributed.checkpoint.consolidating import dcp_to_torch_save, torch_save_to_dcp

__all__ = ["dcp_to_torch_save", "torch_save_to_dcp"]

_MODES = {"dcp_to_torch": dcp_to_torch_save, "torch_to_dcp": torch_save_to_dcp}


def main(arguments: Sequence[str]) -> int:
    """Convert as the command line says; return the exit status."""
    if len(arguments) != 3 or arguments[0] not in _MODES:
        sys.stderr.write(f"usage: format_utils {{{','.join(_MODES)}}} FROM TO\n")
        return 2
    mode, source, target = arguments
    _MODES[mode](source, target)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

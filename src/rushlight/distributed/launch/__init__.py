"""Starting one program on many ranks, and what a rank does before the program begins."""

from rushlight.distributed.launch.launcher import launch
from rushlight.distributed.launch.program import prepare

__all__ = ["launch", "prepare"]

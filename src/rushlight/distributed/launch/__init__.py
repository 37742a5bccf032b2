"""Starting one program on many ranks, and what a rank does before the program begins."""

from rushlight.distributed.launch.launcher import launch
from rushlight.distributed.launch.program import note_exit, prepare, torchruns_variables

__all__ = ["launch", "note_exit", "prepare", "torchruns_variables"]

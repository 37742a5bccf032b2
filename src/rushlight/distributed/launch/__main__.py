"""`python -m rushlight.distributed.launch FOLDER`: a rank of a job that `spawn` has started."""

import sys
from pathlib import Path

from rushlight.distributed.launch.worker import main

main(Path(sys.argv[1]))

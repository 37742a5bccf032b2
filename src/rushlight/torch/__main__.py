"""`python -m rushlight.torch script.py`: runs a program in which `import torch` is Rushlight."""

import sys

from rushlight.torch.program import main

if __name__ == "__main__":
    main(sys.argv[1:])

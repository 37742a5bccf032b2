"""Write the frozen values of PyTorch of `cases.py`: `python -m tests.nn.systems.freeze`."""

from pathlib import Path

import numpy as np
import torch
from tests.nn.systems import cases


def main():
    arrays = {f"{name}/{key}": array for name in cases.CASES for key, array in cases.run(torch, name).items()}
    np.savez_compressed(Path(__file__).with_name("torch_systems.npz"), **arrays)


if __name__ == "__main__":
    main()

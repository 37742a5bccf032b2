"""Writes `torch_complex.npz`: `PYTHONPATH=tests/harness python tests/ops/freeze_torch_complex.py`, where torch is."""

from pathlib import Path

import numpy as np
import torch

from complex_cases import CASES, outcome

if __name__ == "__main__":
    arrays = {
        f"{name}/{place}": array
        for name in CASES
        for place, array in enumerate(outcome(torch, torch.from_numpy, lambda item: item.resolve_conj().numpy(), name))
    }
    np.savez_compressed(Path(__file__).with_name("torch_complex.npz"), **arrays)

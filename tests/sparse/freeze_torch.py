"""Write what PyTorch gives, `torch_gradients.json`: `python tests/sparse/freeze_torch.py`, with torch 2.13."""

import json
import warnings
from pathlib import Path

import gradient_cases as cases
import torch


def main():
    warnings.simplefilter("ignore")
    table = {
        "torch": torch.__version__.split("+")[0],
        "gradients": {name: case(torch) for name, case in cases.GRADIENTS.items()},
        "optimizers": {name: cases.run_optimizer(torch, name) for name in cases.OPTIMIZERS},
    }
    Path(__file__).with_name("torch_gradients.json").write_text(json.dumps(table) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

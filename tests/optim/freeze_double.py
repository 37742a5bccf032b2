"""Write what PyTorch's optimizers give in float64: `python tests/optim/freeze_double.py`."""

import json
from pathlib import Path

import double_cases as cases
import torch


def main():
    torch.set_default_dtype(torch.float64)
    table = {"torch": torch.__version__}
    table |= {name: cases.run_optimizer(torch, name) for name in cases.OPTIMIZERS}
    table |= {name: cases.run_search(torch, name) for name in cases.SEARCHES}
    (Path(__file__).parent / "torch_double.json").write_text(json.dumps(table) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

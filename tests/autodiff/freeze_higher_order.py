"""Write the losses that PyTorch gives, `torch_higher_order.json`: `python tests/autodiff/freeze_higher_order.py`."""

import json
import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[2]))
from tests.autodiff.higher_order import PROGRAMS


def main() -> None:
    found = {name: program(torch) for name, program in PROGRAMS.items()}
    table = {"torch": torch.__version__.split("+")[0], "losses": found}
    path = Path(__file__).with_name("torch_higher_order.json")
    path.write_text(json.dumps(table, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

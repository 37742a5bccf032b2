"""Writes torch's rounding errors, `torch_rms.json`: `PYTHONPATH=tests/harness python tests/ops/freeze_torch_rms.py`."""

import json
from pathlib import Path

import torch

from rms_cases import CASES, error_of

if __name__ == "__main__":
    errors = {name: error_of(name, torch.nn.functional, torch.from_numpy) for name in CASES}
    text = json.dumps({"torch": torch.__version__.split("+")[0], "errors": errors}, indent=2)
    Path(__file__).with_name("torch_rms.json").write_text(text + "\n", encoding="utf-8")

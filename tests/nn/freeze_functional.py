"""Write what PyTorch gives for the functions of layers: `python tests/nn/freeze_functional.py`."""

import json
from pathlib import Path

import functional_cases
import torch
from torch import nn

HERE = Path(__file__).parent


def main():
    values = {text: functional_cases.run(torch, text) for text in functional_cases.CASES}
    printed = {text: repr(eval(f"nn.{text}", {"nn": nn})) for text in functional_cases.MODULES}
    lines = [f"  {json.dumps(text)}: {json.dumps(item)}" for text, item in {**values, **printed}.items()]
    body = ",\n".join(lines)
    (HERE / "torch_functional.json").write_text(f"{{\n{body}\n}}\n", encoding="utf-8")


if __name__ == "__main__":
    main()

"""Write the frozen values of PyTorch that the tests of layers compare with: `python tests/nn/freeze_torch.py`."""

import json
from pathlib import Path

import layer_cases
import module_texts
import numpy as np
import reparametrized_cases
import torch
import torch.nn.utils.prune
from torch import nn

HERE = Path(__file__).parent


def main():
    arrays = {
        f"{name}/{key}": array for name in layer_cases.CASES for key, array in layer_cases.run(torch, name).items()
    }
    np.savez_compressed(HERE / "torch_layers.npz", **arrays)
    arrays = {
        f"{name}/{key}": array
        for name in reparametrized_cases.CASES
        for key, array in reparametrized_cases.run(torch, name).items()
    }
    np.savez_compressed(HERE / "torch_reparametrized.npz", **arrays)
    texts = {text: repr(eval(text, {"nn": nn})) for text in module_texts.MODULES}
    keys = {text: list(eval(text, {"nn": nn}).state_dict()) for text in module_texts.MODULES}
    table = {"torch": torch.__version__, "repr": texts, "state_dict": keys}
    (HERE / "torch_modules.json").write_text(json.dumps(table, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

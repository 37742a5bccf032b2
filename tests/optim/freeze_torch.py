"""Write the frozen values that optimizers and schedules are compared with: `python tests/optim/freeze_torch.py`."""

import json
import warnings
from pathlib import Path

import numpy as np
import optimizer_cases as cases
import torch

HERE = Path(__file__).parent


def main():
    arrays = {
        f"{name}/{key}": value for name in cases.OPTIMIZERS for key, value in cases.run_optimizer(torch, name).items()
    }
    np.savez_compressed(HERE / "torch_optimizers.npz", **arrays)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        rates = {
            name: cases.run_schedule(torch, name) for name in (*cases.SCHEDULES, *cases.AVERAGING, *cases.PLATEAUS)
        }
    params = [torch.zeros(1, requires_grad=True)]
    texts = {name: repr(make(torch.optim, params * 1)) for name, make in cases.OPTIMIZERS.items() if name != "groups"}
    groups = {
        name: make(torch.optim, params).state_dict()["param_groups"][0]
        for name, make in cases.OPTIMIZERS.items()
        if name != "groups"
    }
    table = {"torch": torch.__version__, "rates": rates, "repr": texts, "groups": groups}
    (HERE / "torch_optim.json").write_text(json.dumps(table) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

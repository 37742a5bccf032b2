"""Records what PyTorch says of the distributions of `torch_cases`: run by hand, where torch is installed.

python tests/distributions/record_torch.py
"""

import json
import math
from pathlib import Path

import torch
import torch_cases as cases


def float64(values, gradient=False):
    """A float64 tensor."""
    return torch.tensor(values, dtype=torch.float64, requires_grad=gradient)


def numbers(tensor):
    """The elements as a list, with infinities and NaN as texts."""
    flat = tensor.detach().to(torch.float64).reshape(-1).tolist()
    return [item if math.isfinite(item) else str(item) for item in flat]


def gradients(result, parameters):
    """The gradients of the sum of a result, where it has any."""
    if not result.requires_grad:
        return {}
    try:
        found = torch.autograd.grad(result.sum(), list(parameters.values()), retain_graph=True, allow_unused=True)
    except NotImplementedError:  # of the incomplete gamma function
        return {}
    return {name: numbers(item) for name, item in zip(parameters, found, strict=True) if item is not None}


def recorded(name, parameters, others, value):
    """What PyTorch says of one distribution."""
    leaves = {key: float64(item, True) for key, item in parameters.items()}
    made = getattr(torch.distributions, name)(**leaves, **others)
    asked = {key: lambda key=key: getattr(made, key) for key in cases.PROPERTIES}
    asked |= {key: getattr(made, key) for key in cases.METHODS}
    asked |= {key: lambda key=key: getattr(made, key)(float64(value)) for key in cases.OF_VALUES}
    result = {}
    for key, ask in asked.items():
        try:
            found = ask()
        except (NotImplementedError, AttributeError):
            continue
        result[key] = {"shape": list(found.shape), "value": numbers(found), "gradients": gradients(found, leaves)}
    shapes = {key: getattr(made, key) for key in cases.SHAPES}
    shapes = {key: list(item) if isinstance(item, tuple) else bool(item) for key, item in shapes.items()}
    return {"answers": result, "shapes": shapes}


def divergences():
    """The divergences of all pairs of families that PyTorch has, of the first of p from the second of q."""
    result = {}
    for p, (first, _) in cases.FAMILIES.items():
        for q, (_, second) in cases.FAMILIES.items():
            left, right = [{key: float64(item) for key, item in given.items()} for given in (first, second)]
            ours, other = getattr(torch.distributions, p)(**left), getattr(torch.distributions, q)(**right)
            try:
                found = torch.distributions.kl_divergence(ours, other)
            except NotImplementedError:
                continue
            result[f"{p} {q}"] = numbers(found)
    return result


def main():
    """Write the record."""
    answers = [recorded(*case) for case in cases.CASES]
    text = json.dumps({"cases": answers, "divergences": divergences()}, indent=0)
    Path(__file__).with_name("recorded_torch.json").write_text(f"{text}\n")


if __name__ == "__main__":
    main()

"""Calls of `autograd.functional`, as PyTorch code: the same text runs on torch, for recorded numbers, and on Rushlight.

`python tests/func/derivative_cases.py` with torch installed records them.
"""

from pathlib import Path

import numpy as np

RECORDED = Path(__file__).parent / "torch_derivatives.npz"


def flat(value):
    """Arrays of a result, in order."""
    if isinstance(value, tuple | list):
        return [array for item in value for array in flat(item)]
    return [value.detach().numpy()]


def results(lib, functional, wrap=lambda function: function):
    """Results by name, as lists of arrays; `wrap` compiles each function of x and y, or leaves it."""
    x = lib.tensor(np.array([0.3, 0.5, -1.2]), requires_grad=True)
    y = lib.tensor(np.array([1.0, 2.0]), requires_grad=True)
    into_x, into_y = lib.tensor(np.array([1.0, -2.0, 0.5])), lib.tensor(np.array([0.3, 0.1]))

    def two(x, y):
        return (x.unsqueeze(-1) * y).sin().sum(0), x.exp() * y.sum()

    def scalar(x, y):
        return (x.unsqueeze(-1) * y).sin().sum() * x.prod() + y.sum()

    found = {}

    def keep(name, function):
        found[name] = flat(wrap(function)(x, y))

    reverse, forward = {"vectorize": True}, {"vectorize": True, "strategy": "forward-mode"}
    for name, options in (("rows", {}), ("reverse", reverse), ("forward", forward)):
        keep(f"jacobian.{name}.both", lambda x, y, o=options: functional.jacobian(two, (x, y), **o))
        keep(f"jacobian.{name}.one", lambda x, y, o=options: functional.jacobian(lib.sin, x, **o))
        keep(f"jacobian.{name}.scalar", lambda x, y, o=options: functional.jacobian(lib.sum, x, **o))
        keep(f"jacobian.{name}.unused", lambda x, y, o=options: functional.jacobian(lambda x, y: x * 2, (x, y), **o))
        if "strategy" in options:
            options = {"vectorize": True, "outer_jacobian_strategy": "forward-mode"}
        keep(f"hessian.{name}.both", lambda x, y, o=options: functional.hessian(scalar, (x, y), **o))
        keep(f"hessian.{name}.one", lambda x, y, o=options: functional.hessian(lambda x: (x**3).sum(), x, **o))
    keep("vjp", lambda x, y: functional.vjp(two, (x, y), (into_y, into_x)))
    keep("vjp.scalar", lambda x, y: functional.vjp(lib.sum, x))
    keep("jvp", lambda x, y: functional.jvp(two, (x, y), (into_x, into_y)))
    keep("vhp", lambda x, y: functional.vhp(scalar, (x, y), (into_x, into_y)))
    keep("hvp", lambda x, y: functional.hvp(scalar, (x, y), (into_x, into_y)))
    for name in ("jacobian", "vjp", "jvp", "vhp", "hvp"):
        x.grad = None
        extra = () if name == "jacobian" else (into_x,)
        function = (lambda x: x**3) if name in ("jacobian", "vjp", "jvp") else lambda x: (x**4).sum()
        result = getattr(functional, name)(function, x, *extra, create_graph=True)
        (result if name == "jacobian" else result[1]).sum().backward()
        found[f"{name}.create_graph"] = flat(x.grad)
    return found


if __name__ == "__main__":
    import torch

    lists = results(torch, torch.autograd.functional)
    np.savez_compressed(
        RECORDED, **{f"{name}:{at}": array for name, one in lists.items() for at, array in enumerate(one)}
    )

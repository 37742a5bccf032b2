"""A program of a package: a model with weights that numpy draws, and the numbers that are compared."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
import torch

STEPS = 3
LR = 0.02
OUTPUTS = 32  # elements that are recorded of an output, with its length
GRADIENTS = 5  # elements that are recorded of a gradient or parameter, with its length


@dataclass
class Case:
    """`outputs` are compared as they are; `loss`, where there is one, is trained on for three steps of SGD."""

    model: torch.nn.Module | None
    outputs: Callable[[], dict[str, object]]
    loss: Callable[[], torch.Tensor] | None = None
    tokens: Callable[[], torch.Tensor] | None = None
    compiled: Callable[[Callable], object] | None = None
    notes: dict[str, str] = field(default_factory=dict)


def draw_weights(model: torch.nn.Module, seed: int = 0) -> torch.nn.Module:
    """Fill the float tensors of the state dict, in its order."""
    rng = np.random.default_rng(seed)
    state = {}
    for name, value in model.state_dict().items():
        if not value.dtype.is_floating_point:
            state[name] = value
            continue
        shape = tuple(value.shape)
        drawn = rng.standard_normal(shape)
        if len(shape) > 1:
            drawn = drawn / math.sqrt(max(1, math.prod(shape[1:])))
        elif name.endswith(("weight", "var", "gamma", "scale")):
            drawn = 1 + 0.1 * np.abs(drawn)
        else:
            drawn = 0.1 * drawn
        state[name] = torch.from_numpy(np.asarray(drawn, np.float32)).to(value.dtype)
    model.load_state_dict(state)
    return model


def drawn(*shape: int, seed: int = 1) -> torch.Tensor:
    """Numbers of a normal distribution."""
    return torch.from_numpy(np.random.default_rng(seed).standard_normal(shape).astype(np.float32))


def drawn_ints(high: int, *shape: int, seed: int = 2, low: int = 0) -> torch.Tensor:
    """Whole numbers from `low` to below `high`."""
    return torch.from_numpy(np.random.default_rng(seed).integers(low, high, shape))


def numbers(value: object, count: int = OUTPUTS) -> object:
    """What is recorded of a tensor: its shape, its length and some elements."""
    if not isinstance(value, torch.Tensor):
        return value
    array = value.detach().numpy()
    if array.dtype.kind in "iub":
        return {"shape": list(array.shape), "exact": array.reshape(-1)[:256].astype(int).tolist()}
    flat = array.astype(np.float64).reshape(-1)
    picked = flat if flat.size <= count else flat[np.linspace(0, flat.size - 1, count).astype(int)]
    return {
        "shape": list(array.shape),
        "length": float(f"{np.linalg.norm(flat):.7g}"),
        "elements": [float(f"{element:.7g}") for element in picked],
    }


def measure(case: Case) -> Iterator[tuple[str, object]]:
    """Yield the numbers of a program by their names, one part after the other."""
    if case.model is not None:
        case.model.eval()
    with torch.no_grad():
        for name, value in case.outputs().items():
            yield f"output {name}", numbers(value)
        if case.tokens is not None:
            yield "tokens", numbers(case.tokens())
    if case.loss is None or case.model is None:
        return
    case.model.train()
    optimizer = torch.optim.SGD(case.model.parameters(), lr=LR)
    for step in range(STEPS + 1):
        optimizer.zero_grad()
        loss = case.loss()
        yield f"loss {step}", numbers(loss)
        if step == STEPS:
            break
        loss.backward()
        if step == 0:
            for name, parameter in case.model.named_parameters():
                if parameter.grad is not None:
                    yield f"gradient {name}", numbers(parameter.grad, GRADIENTS)
        optimizer.step()
    for name, parameter in case.model.named_parameters():
        yield f"parameter {name}", numbers(parameter, GRADIENTS)

"""Times everyday eager calls on four elements beside PyTorch: `python -m tools.everyday [PART OF A CALL...]`.

Processor time in one process where PyTorch is installed too, in turns, medians. `| grad` is the same call on tensors
that require gradients, `| backward` the backward pass of it alone.
"""

from __future__ import annotations

import gc
import importlib
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import rushlight

ROUNDS, REPEAT, PASSES = 9, 150, 80
CALLS: tuple[str, ...] = (
    *("x + y", "x * 2.0", "x / y", "1 - x", "x ** 2", "-x", "x.exp()", "x.clamp(0, 1)", "x > 0", "x == y"),
    *("torch.where(mask, x, y)", "x[1:]", "x[0]", "w[:, 0]", "w[None]", "w[..., 0]", "w.t()", "w.T", "w.mT"),
    *("w.transpose(0, 1)", "w.permute(1, 0)", "x.view(2, 2)", "x.reshape(2, 2)", "w.flatten()", "x.unsqueeze(0)"),
    *("image.squeeze()", "x.expand(2, 4)", "w.chunk(2)", "w.split(1)", "w.unbind()", "x.detach()", "x.sum()"),
    *("w.sum(1)", "w.sum(-1, keepdim=True)", "w.mean(0)", "x.max()", "w.max(1)", "w.argmax(1)", "w.var(1)"),
    *("x.norm()", "w.cumsum(0)", "F.softmax(w, -1)", "F.log_softmax(w, -1)", "F.relu(x)", "F.gelu(x)", "F.silu(x)"),
    *("F.leaky_relu(x, 0.1)", "F.linear(w, v, b)", "linear(w)", "F.layer_norm(w, (2,), b, b)"),
    *("F.cross_entropy(w, index)", "F.mse_loss(x, y)", "F.embedding(index, w)", "F.conv2d(image, filters)"),
    *("F.max_pool2d(image, 2)", "F.dropout(x, 0.5, False)", "F.pad(x, (1, 1))", "F.one_hot(index, 2)", "w @ v"),
    *("w @ b", "torch.einsum('ij,jk->ik', w, v)", "torch.addmm(b, w, v)", "torch.cat([x, y])", "torch.stack([x, y])"),
    *("w[index]", "w.gather(1, index[None])", "x.masked_fill(mask, 0.0)", "w.index_select(0, index)", "w.sort()"),
    *("w.topk(1)", "w.tril()", "x.to(torch.float64)", "x.float()", "x.double()", "x.contiguous()", "x.clone()"),
    *("one.item()", "p.tolist()", "bool(one > 1)", "float(one)", "p.add_(1)", "p.mul_(q)", "p.zero_()", "p.copy_(q)"),
    *("p.clamp_(0, 1)", "p.add_(q, alpha=0.5)", "p.__setitem__(0, 1.0)", "torch.add(p, one, out=q)", "x.shape"),
    *("w.size(0)", "len(x)", "[row for row in w]", "x.dtype", "x.requires_grad", "x.dim()", "x.numel()"),
    *("torch.zeros(4)", "torch.ones_like(x)", "torch.arange(4)", "torch.tensor([1.0, 2.0])", "torch.full((4,), 1.0)"),
    *("torch.rand(4)", "torch.empty(4)", "network(w)", "sgd.step()", "adam.step()", "train()"),
)
BACKWARD: tuple[str, ...] = (
    *("x * 2.0", "x[1:]", "w[:, 0]", "w.t()", "x.reshape(2, 2)", "w.sum(1)", "w.mean(0)", "F.softmax(w, -1)"),
    *("F.linear(w, v, b)", "F.layer_norm(w, (2,), b, b)", "F.mse_loss(x, y)", "F.cross_entropy(w, index)", "w @ v"),
    *("torch.cat([x, y])", "torch.stack([x, y])", "x.unsqueeze(0)", "x.double()", "F.embedding(index, w)"),
)


def scope(module: Any, grad: bool) -> dict[str, Any]:
    """What calls name: tensors of four elements, of a module that is `torch` or like it."""

    def leaf(values: Sequence[object]) -> Any:
        return module.tensor(values, requires_grad=grad)

    names = {
        "x": leaf([1.0, 2.0, 3.0, 4.0]),
        "y": leaf([0.5, -1.0, 2.0, 3.0]),
        "w": leaf([[1.0, 2.0], [3.0, 4.0]]),
        "v": leaf([[0.5, -2.0], [1.0, 2.0]]),
        "b": leaf([0.5, 0.25]),
        "image": leaf([[[[1.0, 2.0], [3.0, 4.0]]]]),
        "filters": leaf([[[[1.0]]]]),
        "p": module.tensor([1.0, 2.0, 3.0, 4.0]),
        "q": module.tensor([1.0, 2.0, 3.0, 4.0]),
        "one": module.tensor(2.0),
        "index": module.tensor([0, 1]),
        "mask": module.tensor([True, False, True, False]),
        "linear": module.nn.Linear(2, 2),
    }
    return {"torch": module, "F": module.nn.functional, **names, **_trained(module, names["w"].detach())}


def _trained(module: Any, batch: Any) -> dict[str, Any]:
    """A small network with its optimisers, and a step of its training."""
    network = module.nn.Sequential(module.nn.Linear(2, 2), module.nn.ReLU(), module.nn.Linear(2, 2))
    sgd, adam = module.optim.SGD(network.parameters(), 0.01), module.optim.Adam(network.parameters(), 0.01)

    def train() -> None:
        sgd.zero_grad()
        network(batch).sum().backward()
        sgd.step()

    train()
    return {"network": network, "sgd": sgd, "adam": adam, "train": train}


def call_time(text: str, space: Mapping[str, Any]) -> Callable[[], float]:
    """What times a call: microseconds of each of some."""
    call = eval(f"lambda: {text}", dict(space))  # noqa: S307 - our own text
    for _ in range(4):
        call()

    def measure() -> float:
        begun = time.process_time()
        for _ in range(REPEAT):
            call()
        return (time.process_time() - begun) / REPEAT * 1e6

    return measure


def backward_time(text: str, space: Mapping[str, Any]) -> Callable[[], float]:
    """What times the backward pass of a call."""
    call = eval(f"lambda: {text}", dict(space))  # noqa: S307 - our own text
    seed = space["torch"].ones_like(call()).detach()
    leaves = [space[name] for name in ("x", "y", "w", "v", "b")]

    def measure() -> float:
        results = [call() for _ in range(PASSES)]
        begun = time.process_time()
        for result in results:
            result.backward(seed)
            for leaf in leaves:
                leaf.grad = None
        return (time.process_time() - begun) / PASSES * 1e6

    return measure


def row(measures: Sequence[Callable[[], float]]) -> list[float]:
    """The medians of what is measured in turns."""
    samples: list[list[float]] = [[] for _ in measures]
    for _ in range(ROUNDS):
        for found, measure in zip(samples, measures, strict=True):
            found.append(measure())
    return [statistics.median(found) for found in samples]


def rows(modules: Sequence[Any], parts: Sequence[str]) -> dict[str, list[float]]:
    """The times of all calls whose text has one of these parts, by that text."""
    plans: list[tuple[str, str, bool, Callable[..., Callable[[], float]]]] = []
    for text in CALLS:
        plans += [(text, text, False, call_time), (f"{text} | grad", text, True, call_time)]
    plans += [(f"{text} | backward", text, True, backward_time) for text in BACKWARD]
    chosen = [plan for plan in plans if not parts or any(part in plan[0] for part in parts)]
    return {title: row([timed(text, scope(module, grad)) for module in modules]) for title, text, grad, timed in chosen}


def main(arguments: Sequence[str]) -> None:
    """Prints a table, the greatest ratio first."""
    modules = [rushlight]
    try:
        peer = importlib.import_module("torch")
        peer.set_num_threads(1)
        modules.append(peer)
    except ImportError:
        print("PyTorch is not installed: its column is left out.")
    gc.disable()
    found = rows(modules, arguments)
    for title, times in sorted(found.items(), key=lambda one: -one[1][0] / one[1][-1]):
        ratio = f" {times[0] / times[1]:6.2f}" if len(times) > 1 else ""
        print(f"{title:44}" + "".join([f"{one:9.2f}" for one in times]) + ratio)


if __name__ == "__main__":
    main(sys.argv[1:])

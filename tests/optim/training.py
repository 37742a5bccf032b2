"""A training step that writes to all that a step may write to, compiled, beside its twin that is not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from tests.optim import optimizer_cases as cases

import rushlight as rl
from rushlight import nn, optim

OPTIMIZERS = sorted(cases.OPTIMIZERS)
SIZES = {"short": (3, 4), "long": (64, 128)}  # calls that hold the interpreter lock, and such as hand it over


class Net(nn.Module):
    """A model with buffers that change, random numbers, and an attribute and a dict that a step writes to."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first = nn.Linear(width, width)
        self.norm = nn.BatchNorm1d(width)
        self.last = nn.Linear(width, 3)
        self.shown = rl.zeros(3)
        self.pair: Any = (0.0, None)
        self.log: dict[str, Any] = {"loss": 0.0}

    def forward(self, x: Any) -> Any:
        y = self.last(nn.functional.dropout(self.norm(self.first(x)).relu(), 0.25))
        self.shown = y.detach().sum(0)
        return y


class Training:
    """A model and an optimizer, and one step of them. `moment` is called between the parts of a step."""

    def __init__(self, name: str, size: str, *, chosen: bool = False) -> None:
        rl.manual_seed(5)
        batch, width = SIZES[size]
        self.net = Net(width)
        self.optimizer = cases.OPTIMIZERS[name](optim, list(self.net.parameters()))
        self.chosen = chosen
        self.moment: Callable[[str], None] = lambda name: None
        self.x = rl.randn(batch, width)

    def step(self, x: Any) -> Any:
        """One step; where the training is of `chosen` rows there is one at least, or the step fails."""
        self.moment("begin")
        self.optimizer.zero_grad()
        self.moment("forward")
        loss = self.net(x).square().mean()
        if self.chosen:
            kept = x[x[:, 0] > 0]
            rl.check(kept.shape[0] >= 1, "a row is kept")
            loss = loss + self.net.first(kept).square().mean()
        self.moment("backward")
        loss.backward()
        self.moment("step")
        self.optimizer.step()
        self.moment("log")
        self.net.log["loss"] = loss.item()
        self.net.pair = (loss.item(), loss.detach())
        self.moment("end")
        return loss.detach()

    def state(self) -> dict[str, Any]:
        """All that a step changes."""
        found = {f"value {name}": value for name, value in self.net.state_dict().items()}
        found |= {f"gradient {name}": value.grad for name, value in self.net.named_parameters()}
        for at, entry in self.optimizer.state_dict()["state"].items():
            found |= {f"state {at} {name}": value for name, value in entry.items()}
        found |= {"shown": self.net.shown, "loss": self.net.log["loss"], "pair": self.net.pair[0]}
        found |= {"pair 1": self.net.pair[1], "random": rl.get_rng_state()}
        return {
            name: value.detach().numpy().copy() if isinstance(value, rl.Tensor) else value
            for name, value in found.items()
        }


def difference(one: dict[str, Any], other: dict[str, Any]) -> list[str]:
    """The names of what differs."""
    names = [*one, *[name for name in other if name not in one]]
    return [name for name in names if not same(one.get(name), other.get(name))]


def same(one: Any, other: Any) -> bool:
    """Whether two values are the same; steps that go upwards end with NaN."""
    if one is None or other is None:
        return one is other
    return np.array_equal(np.asarray(one), np.asarray(other), equal_nan=True)


class Pair:
    """A training that is compiled, and its twin that is not, which goes where the first one has gone."""

    def __init__(self, name: str, size: str, *, chosen: bool = False) -> None:
        self.one, self.twin = Training(name, size, chosen=chosen), Training(name, size, chosen=chosen)
        self.compiled = rl.compile(self.one.step, fullgraph=True)
        self.finished = 0
        for _ in range(4):  # the loss in the log is taken for a constant at first
            self.happened(self.run)

    def run(self, x: Any = None) -> None:
        """One compiled step."""
        self.compiled(self.one.x if x is None else x)

    def happened(self, run: Callable[[], None]) -> bool:
        """Whether a step that may have been cut off has happened; it must not have happened in part."""
        random_state = rl.get_rng_state()
        before = self.twin.state()
        run()
        now = self.one.state()
        if not difference(now, before):
            return False
        after_random = rl.get_rng_state()
        rl.set_rng_state(random_state)
        self.twin.step(self.one.x)
        wrong = difference(now, self.twin.state())
        assert not wrong, wrong
        assert rl.equal(rl.get_rng_state(), after_random)
        self.finished += 1
        return True

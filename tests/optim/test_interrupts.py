"""A compiled training step that is interrupted has happened or has not.

Parameters, moments, step counts, gradients, buffers, random numbers, attributes and entries of dicts are all from
before it, or all from after it. `python -m tests.optim.test_interrupts 500` interrupts so many steps.
"""

from __future__ import annotations

import random
import signal
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
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
    """A model and an optimizer, and one step of them."""

    def __init__(self, name: str, size: str, *, chosen: bool = False) -> None:
        rl.manual_seed(5)
        batch, width = SIZES[size]
        self.net = Net(width)
        self.optimizer = cases.OPTIMIZERS[name](optim, list(self.net.parameters()))
        self.chosen = chosen
        self.x = rl.randn(batch, width)

    def step(self, x: Any) -> Any:
        """One step; where the training is of `chosen` rows there is one at least, or the step fails."""
        self.optimizer.zero_grad()
        loss = self.net(x).square().mean()
        if self.chosen:
            kept = x[x[:, 0] > 0]
            rl.check(kept.shape[0] >= 1, "a row is kept")
            loss = loss + self.net.first(kept).square().mean()
        loss.backward()
        self.optimizer.step()
        self.net.log["loss"] = loss.item()
        self.net.pair = (loss.item(), loss.detach())
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
        self.compiled = rl.compile(self.one.step)
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


@contextmanager
def interrupts_at(instruction: int) -> Generator[list[int]]:
    """KeyboardInterrupt at an instruction, by number, of what a compiled call runs in Python; counts them."""
    count = [0]

    def local(frame: Any, event: str, argument: Any) -> Any:
        if event == "opcode":
            count[0] += 1
            if count[0] == instruction:
                raise KeyboardInterrupt
        return local

    def each(frame: Any, event: str, argument: Any) -> Any:
        name = frame.f_code.co_filename
        # Not the allocator and the generator: no signal is handled between taking a lock and what the lock is for.
        if name == "<rushlight step>" or name.endswith(("build/executable.py", "runtime/context.py")):
            frame.f_trace_opcodes = True
            frame.f_trace_lines = False
            return local
        return None

    before = sys.gettrace()
    sys.settrace(each)
    try:
        yield count
    finally:
        sys.settrace(before)


def at_each_instruction(pair: Pair, every: int) -> None:
    count = [0]

    def counted() -> None:
        with interrupts_at(0) as instructions:
            pair.run()
        count[:] = instructions

    assert pair.happened(counted)
    assert 50 < count[0] < 3000  # nothing was traced
    seen = set()
    for instruction in range(1, count[0] + 1, every):

        def run(instruction: int = instruction) -> None:
            with pytest.raises(KeyboardInterrupt), interrupts_at(instruction):
                pair.run()

        seen.add(pair.happened(run))
    assert seen == ({False, True} if every < 10 else seen)


@pytest.mark.parametrize("chosen", [False, True])
def test_interrupts_at_each_instruction_come_before_or_after(chosen: bool) -> None:
    at_each_instruction(Pair("adam_amsgrad", "short", chosen=chosen), 7 if chosen else 2)


def at_random_moments(pair: Pair, count: int) -> tuple[int, int]:
    """How many of so many interrupted steps have not happened, and how many have."""
    rng = random.Random(7)
    times: list[float] = []

    def timed() -> None:
        start = time.perf_counter()
        pair.run()
        times.append(time.perf_counter() - start)

    for _ in range(5):
        pair.happened(timed)
    longest = min(times)
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    found = {False: 0, True: 0}
    try:
        for _ in range(count):

            def run() -> None:
                try:
                    signal.setitimer(signal.ITIMER_REAL, rng.uniform(1e-6, longest))
                    pair.run()
                    signal.setitimer(signal.ITIMER_REAL, 0)
                except KeyboardInterrupt:
                    pass

            found[pair.happened(run)] += 1
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    return found[False], found[True]


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_interrupts_come_before_or_after(name: str) -> None:
    pair = Pair(name, "short")
    at_each_instruction(pair, 41)
    assert sum(at_random_moments(pair, 10)) == 10


@pytest.mark.parametrize("name", ["adamw", "sgd_momentum"])
def test_interrupts_of_long_calls_come_before_or_after(name: str) -> None:
    assert sum(at_random_moments(Pair(name, "long"), 20)) == 20


@pytest.mark.parametrize("name", ["adam", "rmsprop_centered"])
def test_a_failed_assert_changes_nothing(name: str) -> None:
    pair = Pair(name, "short", chosen=True)
    refused = -pair.one.x.abs()

    def run() -> None:
        with pytest.raises(rl.RushlightError) as caught:
            pair.run(refused)
        assert caught.value.code == "R002"

    assert not pair.happened(run)
    assert pair.happened(pair.run)


if __name__ == "__main__":  # python -m tests.optim.test_interrupts 500
    wanted = int(sys.argv[1]) if len(sys.argv) > 1 else 500
    each = -(-wanted // (len(OPTIMIZERS) * len(SIZES)))
    totals = [at_random_moments(Pair(name, size), each) for name in OPTIMIZERS for size in SIZES]
    print(
        f"{sum(map(sum, totals))} steps: {sum(t[0] for t in totals)} had not happened, {sum(t[1] for t in totals)} had"
    )

"""A compiled training step that fails has not happened: hooks and asserts that raise, wherever they do.

`python -m tests.optim.test_failed_steps 500` lets so many steps fail, and interrupts so many. It showed 510 failures in
hooks and asserts, 180 traces interrupted repeatedly, 180 failures outside of the graph, 510 interrupts: none between.
"""

from __future__ import annotations

import gc
import random
import signal
import sys
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

import pytest
from tests.optim.test_interrupts import at_random_moments
from tests.optim.training import OPTIMIZERS, SIZES, Pair, Training, difference

import rushlight as rl
from rushlight.capture.function import WholeFunction
from rushlight.capture.state import reads
from rushlight.eager.dispatch import STATE


class Stop(BaseException):
    """What is raised that is no error."""


ERRORS = (ValueError, AssertionError, Stop, KeyboardInterrupt)
Fuse = Iterator[None]


def fuse(moment: int, error: type[BaseException]) -> Fuse:
    """Raises when it is asked for the so manieth time."""
    for _ in range(moment):
        yield None
    raise error("stop")


def hang_hooks(training: Training, burn: Callable[..., None]) -> None:
    """Hooks of every kind on all that takes them, which `burn`."""
    for module in training.net.modules():
        module.register_forward_pre_hook(lambda module, args: burn())
        module.register_forward_hook(lambda module, args, output: burn())
        module.register_full_backward_pre_hook(lambda module, output: burn())
        module.register_full_backward_hook(lambda module, inputs, output: burn())
    hang_leaf_hooks(training, burn)


def hang_leaf_hooks(training: Training, burn: Callable[..., None]) -> None:
    """Hooks on parameters and on the optimizer, which `burn`."""
    for parameter in training.net.parameters():
        parameter.register_hook(lambda gradient: burn())
        parameter.register_post_accumulate_grad_hook(lambda parameter: burn())
    training.optimizer.register_step_pre_hook(lambda optimizer, args, kwargs: burn())
    training.optimizer.register_step_post_hook(lambda optimizer, args, kwargs: burn())


class Failing:
    """A pair of trainings with hooks that raise at a moment, while the step is traced."""

    def __init__(self, name: str) -> None:
        self.fuses: list[Fuse] = [iter(())]
        self.pair = Pair(name, "short")

        @rl.compiler.allow_in_graph  # which runs it while the step is traced
        def burn(name: str = "") -> None:
            next(self.fuses[0], None)

        hang_hooks(self.pair.one, burn)
        self.pair.one.moment = burn
        self.moments = self._count()

    def _count(self) -> int:
        """How often something is called in a step that might raise."""
        found: list[None] = []
        self.fuses[0] = (found.append(None) for _ in range(10**6))
        assert self.pair.happened(self.step)
        self.fuses[0] = iter(())
        return len(found)

    def step(self) -> None:
        """A step that is traced again."""
        rl.compile(self.pair.one.step, fullgraph=True)(self.pair.one.x)

    def fail(self, moment: int, error: type[BaseException]) -> None:
        """A step that fails at a moment, after which all is as before it."""
        self.fuses[0] = fuse(moment, error)

        def run() -> None:
            with pytest.raises(error, match="stop"):
                self.step()

        assert not self.pair.happened(run), (moment, error)
        self.fuses[0] = iter(())

    def fail_at_random(self, count: int) -> int:
        """How many steps have failed."""
        rng = random.Random(3)
        for number in range(count):
            self.fail(rng.randrange(self.moments), ERRORS[number % len(ERRORS)])
        assert self.pair.happened(self.step)
        return count


@pytest.mark.generated
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_step_whose_hooks_raise_has_not_happened(name: str) -> None:
    failing = Failing(name)
    assert failing.moments > 30
    assert failing.fail_at_random(4) == 4


@pytest.mark.parametrize("name", ["adam_amsgrad", "sgd_momentum"])
def test_a_first_step_that_fails_leaves_no_state(name: str) -> None:
    for moment in (0, 15, 30):
        training = Training(name, "short")
        before = training.state()
        versions = [parameter._version for parameter in training.net.parameters()]
        fuses = [fuse(moment, ValueError)]

        @rl.compiler.allow_in_graph
        def burn(name: str = "", fuses: list[Fuse] = fuses) -> None:
            next(fuses[0], None)

        hang_hooks(training, burn)
        training.moment = burn
        compiled = rl.compile(training.step, fullgraph=True)
        with pytest.raises(ValueError, match="stop"):
            compiled(training.x)
        assert not difference(training.state(), before)
        assert not training.optimizer.state
        assert versions == [parameter._version for parameter in training.net.parameters()]


def test_an_assert_that_fails_in_the_first_call_leaves_no_state() -> None:
    training = Training("adam", "short", chosen=True)
    before = training.state()
    compiled = rl.compile(training.step, fullgraph=True)
    with pytest.raises(rl.RushlightError, match="a row is kept"):
        compiled(-training.x.abs())
    assert not difference(training.state(), before)
    assert not training.optimizer.state
    compiled(training.x)
    after = training.state()
    twin = Training("adam", "short", chosen=True)
    twin.step(twin.x)
    assert not difference(after, twin.state())


MOST_INTERRUPTS = 5  # of one trace


@contextmanager
def interrupts(first: float, interval: float) -> Generator[None]:
    """KeyboardInterrupt in compiled calls, again and again, after so many seconds."""
    left = [MOST_INTERRUPTS]
    inside = WholeFunction.__call__.__code__

    def handle(signal_number: int, frame: FrameType | None) -> None:
        while frame is not None and frame.f_code is not inside:
            frame = frame.f_back
        if frame is not None and left[0]:
            left[0] -= 1
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, handle)
    signal.setitimer(signal.ITIMER_REAL, first, interval)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def interrupt_traces(name: str, count: int) -> int:
    """How many traces were interrupted, each several times: also while everything is put back."""
    pair = Pair(name, "short")
    rng = random.Random(11)
    times: list[float] = []

    def step() -> None:
        start = time.perf_counter()
        rl.compile(pair.one.step, fullgraph=True)(pair.one.x)
        times.append(time.perf_counter() - start)

    assert pair.happened(step)
    for _ in range(count):

        def run() -> None:
            with suppress(KeyboardInterrupt), interrupts(rng.uniform(0, 0.8) * times[0], rng.uniform(1e-4, 2e-3)):
                step()

        pair.happened(run)
        assert STATE.tracer is None and not STATE.included and STATE.grad and gc.isenabled()
        assert not any(reads._watchers.values()) and not reads._active
    assert pair.happened(step)
    return count


@pytest.mark.parametrize("name", ["adamw", "sgd_dampening"])
def test_traces_that_are_interrupted_again_and_again_leave_nothing(name: str) -> None:
    assert interrupt_traces(name, 6) == 6


def apart(training: Training, wrap: Callable[[Any], Any]) -> Callable[[], None]:
    """A step of which the forward pass is compiled alone, so that hooks run at each call."""
    net = training.net  # a function that reaches the optimizer would make its state
    forward = wrap(lambda x: net(x).square().mean())

    def step() -> None:
        training.optimizer.zero_grad()
        forward(training.x).backward()
        training.optimizer.step()

    return step


def fail_apart(name: str, count: int) -> int:
    """How many steps have failed in a hook as eager steps do."""
    fuses: list[Fuse] = [iter(())]
    steps: list[Callable[[], None]] = []
    trainings = [Training(name, "short") for _ in range(2)]
    for training, wrap in zip(trainings, (rl.compile, lambda function: function), strict=True):
        hang_leaf_hooks(training, lambda: next(fuses[0], None))
        steps.append(apart(training, wrap))
    random_state = rl.get_rng_state()
    rng = random.Random(3)
    for number in range(count):
        moment, error = rng.randrange(14), ERRORS[number % len(ERRORS)]
        random_state = rl.get_rng_state()
        for step in steps:
            rl.set_rng_state(random_state)
            fuses[0] = fuse(moment, error)
            with pytest.raises(error, match="stop"):
                step()
        wrong = difference(trainings[0].state(), trainings[1].state())
        assert not wrong, (wrong, moment)
    return count


@pytest.mark.parametrize("name", ["adagrad", "sgd_nesterov"])
def test_hooks_outside_of_the_graph_fail_as_in_eager_code(name: str) -> None:
    assert fail_apart(name, 14) == 14


if __name__ == "__main__":
    wanted = int(sys.argv[1]) if len(sys.argv) > 1 else 500
    each = -(-wanted // len(OPTIMIZERS))
    print(sum([Failing(name).fail_at_random(each) for name in OPTIMIZERS]), "steps failed in a hook or assert")
    print(sum([interrupt_traces(name, -(-each // 3)) for name in OPTIMIZERS]), "traces were interrupted several times")
    print(sum([fail_apart(name, -(-each // 3)) for name in OPTIMIZERS]), "steps failed as in eager code")
    totals = [at_random_moments(Pair(name, size), -(-each // 2)) for name in OPTIMIZERS for size in SIZES]
    before, after = (sum([total[place] for total in totals]) for place in (0, 1))
    print(f"{before + after} steps were interrupted: {before} had not happened, {after} had")

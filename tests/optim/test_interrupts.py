"""A compiled training step that is interrupted has happened or has not.

Parameters, moments, step counts, gradients, buffers, random numbers, attributes and entries of dicts are all from
before it, or all from after it. `python -m tests.optim.test_failed_steps 500` interrupts so many steps.
"""

from __future__ import annotations

import dis
import random
import signal
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import pytest
from tests.optim.training import OPTIMIZERS, Pair

import rushlight as rl
from rushlight.capture.state.places import CellBox

NOP = dis.opmap["NOP"]


@contextmanager
def interrupts_at(instruction: int) -> Generator[list[int]]:
    """KeyboardInterrupt at an instruction, by number, of what a compiled call runs in Python; counts them."""
    count = [0]

    def local(frame: Any, event: str, argument: Any) -> Any:
        # No signal is handled at a NOP, such as that of a `try` within another, which has no handler in Python 3.11.
        if event == "opcode" and frame.f_code.co_code[frame.f_lasti] != NOP:
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


def test_interrupts_in_the_middle_of_a_commit_come_after_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A closure's variable is written by Python code, where an interrupt may come several times."""
    rounds = 0

    def step(x: Any) -> None:
        nonlocal rounds
        rounds += 1
        x.add_(1)

    compiled = rl.compile(step, fullgraph=True)
    x = rl.ones(3)
    for _ in range(3):  # the number of rounds is taken for a constant at first
        compiled(x)
    left = [0]
    write = CellBox.__setitem__

    def interrupted(self: Any, key: int, value: Any) -> None:
        left[0] -= 1
        if left[0] >= 0:
            raise KeyboardInterrupt
        write(self, key, value)

    monkeypatch.setattr(CellBox, "__setitem__", interrupted)
    for number in (1, 2, 3):
        left[0] = number
        with pytest.raises(KeyboardInterrupt):
            compiled(x)
        assert left[0] < 0
        assert rounds == number + 3 and x.tolist() == [number + 4.0] * 3


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


@pytest.mark.generated
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

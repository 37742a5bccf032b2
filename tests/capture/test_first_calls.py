"""Threads that first call one compiled function at the same time: one of them traces, and the others wait for it."""

import threading
from collections.abc import Callable
from typing import Any

import pytest

import rushlight as rl
from rushlight.capture import function as compiled_function
from rushlight.capture.launching import Launching
from rushlight.eager.execution import artifact

THREADS = 24


def at_once(function: Callable[[int], Any], threads: int = THREADS) -> list[Any]:
    """What all threads got, or raised."""
    start = threading.Barrier(threads)
    found: list[Any] = [None] * threads

    def run(number: int) -> None:
        start.wait()
        try:
            found[number] = function(number)
        except Exception as error:
            found[number] = error

    running = [threading.Thread(target=run, args=(number,), daemon=True) for number in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join(120)
    assert not any(thread.is_alive() for thread in running)
    return found


def counted(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str) -> list[int]:
    """A list that has an entry for each call of a function."""
    calls: list[int] = []
    function = getattr(owner, name)

    def counting(*args: Any) -> Any:
        calls.append(1)
        return function(*args)

    monkeypatch.setattr(owner, name, counting)
    return calls


def test_one_thread_traces(monkeypatch: pytest.MonkeyPatch):
    calls = counted(monkeypatch, compiled_function.WholeFunction, "_record")
    inner = rl.compile(lambda x: x.sin() + 2)
    step = rl.compile(lambda x: inner(x) * 3)
    results = at_once(lambda number: step(rl.ones(3 + number % 5)).sum().item())
    assert len(calls) == 1
    assert results == [step(rl.ones(3 + number % 5)).sum().item() for number in range(THREADS)]


def test_a_trace_that_fails_fails_in_every_thread_and_keeps_no_other_waiting():
    step = rl.compile(lambda x: x.view(7, 7))
    assert all(isinstance(found, rl.ShapeError) for found in at_once(lambda _: step(rl.ones(3)), 6))
    assert step(rl.ones(49)).shape == (7, 7)


def test_one_thread_compiles_a_backward_pass(monkeypatch: pytest.MonkeyPatch):
    step = rl.compile(lambda x: (x * 1.25).exp().sum())
    leaves = [rl.ones(4, requires_grad=True) for _ in range(THREADS)]
    losses = [step(leaf) for leaf in leaves]
    made: list[int] = []
    property_ = Launching.executable.fget
    assert property_ is not None

    def executable(self: Launching) -> Any:
        before = self._executable
        found = property_(self)
        made.append(0 if found is before else id(found))
        return found

    monkeypatch.setattr(Launching, "executable", property(executable))
    assert at_once(lambda number: losses[number].backward()) == [None] * THREADS
    assert len({identity for identity in made if identity}) == 1
    assert all(leaf.grad.tolist() == leaves[0].grad.tolist() for leaf in leaves)


def test_one_thread_compiles_an_eager_plan(monkeypatch: pytest.MonkeyPatch):
    operands = [rl.ones(2, 3, 2, 3, 2, 3, dtype=rl.int16).permute(5, 3, 1, 0, 2, 4) for _ in range(THREADS)]
    calls = counted(monkeypatch, artifact, "_compile")
    shapes = [found.shape for found in at_once(lambda number: operands[number].argmax(2))]
    assert shapes == [(3, 3, 2, 2, 2)] * THREADS
    assert len(calls) == 1

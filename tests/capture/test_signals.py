"""Handlers of signals that come while a function is traced: they find the state as it is, and what they do stays."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from typing import Any

import pytest

import rushlight as rl

stop = False
FLAGS = {"stop": False}
AVERAGE = rl.ones(3)
pytestmark = pytest.mark.skipif(not hasattr(signal, "SIGUSR1"), reason="no signals for users on this system")


@rl.compiler.allow_in_graph
def signalled(x: Any, number: int = getattr(signal, "SIGUSR1", 0)) -> Any:
    """A signal comes while this is traced, and at no other time."""
    if rl.compiler.is_compiling():
        signal.raise_signal(number)
    return x * 2


@pytest.fixture
def handle() -> Iterator[Any]:
    """`handle(handler)` handles both signals for users."""
    numbers = (signal.SIGUSR1, signal.SIGUSR2)
    before = [signal.getsignal(number) for number in numbers]
    yield lambda handler: [signal.signal(number, handler) for number in numbers]
    for number, handler in zip(numbers, before, strict=True):
        signal.signal(number, handler)


@pytest.mark.parametrize("fullgraph", [True, False])
def test_what_a_handler_does_stays(handle: Any, fullgraph: bool) -> None:
    global stop
    stop, FLAGS["stop"] = False, False
    AVERAGE.fill_(1.0)
    seen: list[float] = []

    def handler(*_: object) -> None:
        global stop
        stop, FLAGS["stop"] = True, True
        seen.append(AVERAGE.sum().item())
        AVERAGE.mul_(0.5)

    def step(x: Any) -> Any:
        if stop and FLAGS["stop"]:
            return x - AVERAGE
        return signalled(x) + AVERAGE

    handle(handler)
    result = rl.compile(step, fullgraph=fullgraph, backend="eager")(rl.ones(3))
    assert (stop, FLAGS, seen, AVERAGE.tolist()) == (True, {"stop": True}, [3.0], [0.5] * 3)
    assert result.tolist() == [0.5] * 3  # as if the signal had come before the call
    assert signal.getsignal(signal.SIGUSR1) is handler


def test_what_a_handler_raises_goes_to_the_handlers_of_the_program(handle: Any) -> None:
    calls = []

    def handler(number: int, *_: object) -> None:
        calls.append(number)
        raise KeyError(number) if number == signal.SIGUSR1 else SystemExit(number)

    def step(x: Any, number: int) -> Any:
        try:
            print(end="")
            x = signalled(x, number)
            print(end="")
        except (KeyError, SystemExit) as error:
            return type(error), error.args
        return x

    handle(handler)
    compiled = rl.compile(step, fullgraph=False, backend="eager")
    assert compiled(rl.ones(3), signal.SIGUSR1) == (KeyError, (signal.SIGUSR1,))
    assert compiled(rl.ones(2, 3), signal.SIGUSR2) == (SystemExit, (signal.SIGUSR2,))
    assert calls == [signal.SIGUSR1, signal.SIGUSR2]


def test_what_a_handler_raises_leaves_a_function_of_one_graph(handle: Any) -> None:
    def handler(number: int, *_: object) -> None:
        raise KeyError(number)

    handle(handler)
    compiled = rl.compile(signalled, fullgraph=True, backend="eager")
    with pytest.raises(KeyError) as caught:
        compiled(rl.ones(3))
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None or "rushlight" not in type(caught.value.__context__).__module__
    signal.signal(signal.SIGUSR1, lambda *_: None)
    assert compiled(rl.ones(3)).tolist() == [2.0] * 3


def test_each_handler_runs_though_others_raise(handle: Any) -> None:
    seen = []

    def handler(number: int, *_: object) -> None:
        seen.append(number)
        raise KeyError(number)

    def both(x: Any) -> Any:
        return signalled(signalled(x), signal.SIGUSR2)

    handle(handler)
    with pytest.raises(KeyError):
        rl.compile(both, fullgraph=True, backend="eager")(rl.ones(3))
    assert seen == [signal.SIGUSR1, signal.SIGUSR2]


def test_state_that_handlers_change_at_each_trace_is_python_s(handle: Any) -> None:
    seen: list[int] = []

    def step(x: Any) -> Any:
        print(end="")
        return signalled(x) + len(seen)

    handle(lambda *_: seen.append(len(seen)))
    result = rl.compile(step, fullgraph=False, backend="eager")(rl.ones(3))
    assert result.tolist() == [2.0 + len(seen)] * 3 or result.tolist()[0] <= 2.0 + len(seen)
    assert seen == [*range(len(seen))]


def test_a_backward_pass_that_is_traced_late_holds_signals_too(handle: Any) -> None:
    seen: list[float] = []
    weight = rl.ones(3, requires_grad=True)

    class Double(rl.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

        @staticmethod
        def backward(ctx: Any, *grad_outputs: Any) -> Any:
            return signalled(grad_outputs[0])

    handle(lambda *_: seen.append(AVERAGE.sum().item()))
    AVERAGE.fill_(1.0)
    rl.compile(lambda: Double.apply(weight).sum(), fullgraph=True, backend="eager")().backward()
    assert weight.grad.tolist() == [2.0] * 3
    assert seen and set(seen) == {3.0}


def test_interrupts_by_the_default_handler_come_at_once() -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # which a process in the background may lack

    @rl.compiler.allow_in_graph
    def interrupted(x: Any) -> Any:
        signal.raise_signal(signal.SIGINT)
        return x

    try:
        with pytest.raises(KeyboardInterrupt) as caught:
            rl.compile(interrupted, fullgraph=True, backend="eager")(rl.ones(3))
    finally:
        signal.signal(signal.SIGINT, before)
    assert "interrupted" in {frame.name for frame in caught.traceback}
    assert sys.exc_info()[0] is None

"""Interrupts that come while a part is traced, and those that the program raises itself."""

import re
import signal
import types

import pytest

import rushlight as rl
from rushlight.capture.resume.interpreters.tracing import TracingInterpreter


@pytest.fixture
def interrupts():
    """Python's own handler of SIGINT, which a process in the background may lack."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_an_interrupt_while_tracing_reaches_the_programs_handlers(monkeypatch, interrupts):
    def guarded(x):
        try:
            y = x * 2
            reached.append(True)  # ends a graph: what follows is traced from inside of the `try`
            return y + 1
        finally:
            left.append(True)

    reached, left = [], []

    def interrupted(self, *operands, asked=None):
        if reached:
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(TracingInterpreter, "runs", interrupted)
    with pytest.raises(KeyboardInterrupt):
        rl.compile(guarded, fullgraph=False)(rl.ones(2))
    assert left == [True]


def test_an_interrupt_that_the_program_raises_is_its_own():
    def raises(x):
        y = x + 1
        try:
            raise KeyboardInterrupt
        except KeyboardInterrupt:
            y = y * 2
        return y

    compiled = rl.compile(raises, fullgraph=False)
    assert compiled(rl.ones(2)).tolist() == compiled(rl.ones(2)).tolist() == [4.0, 4.0]


@pytest.mark.parametrize("way", ["module", "pattern"])
def test_an_interrupt_that_a_function_raises_which_c_calls_is_the_programs(way):
    def raising(_):
        raise KeyboardInterrupt

    module = types.ModuleType("of_interrupts")
    module.__getattr__ = raising
    calls = {"module": lambda: module.value, "pattern": lambda: re.sub("a", raising, "a")}

    def reads(x):
        y = begins(x)
        try:
            calls[way]()
        except KeyboardInterrupt:
            return y * 2

    def begins(x):
        log.append("begun")
        return x + 1

    log = []
    compiled = rl.compile(reads, fullgraph=False)
    for _ in range(3):
        assert compiled(rl.ones(2)).tolist() == [4.0, 4.0]
    assert log == ["begun"] * 3

"""What a call costs in Python calls, and that calls at once, within each other, or broken off do not mix."""

import gc
import signal
import sys
import threading

import numpy as np
import pytest

import rushlight as rl
from rushlight.eager.pytree import NODES, register_node
from rushlight.runtime.allocator import CPU

A, B, M = rl.ones(4), rl.full((4,), 2.0), rl.ones(4, 4)
WEIGHT = rl.ones(4, requires_grad=True)
add = rl.compile(lambda x, y: x + y)
scale = rl.compile(lambda x: (x * 2 + 1).relu())
whole = rl.compile(lambda x, y: x + y, fullgraph=True)

# One Python call is about 0.1 us, and this is what a call of four elements consists of.
CEILINGS = {
    "a + b": (lambda: A + B, 8),
    "a * 2.0": (lambda: A * 2.0, 8),
    "rl.add": (lambda: rl.add(A, B), 12),
    "add_": (lambda: B.add_(0), 14),  # natively three, of which two convert operands
    "sum": (lambda: A.sum(), 11),
    "matmul": (lambda: M @ M, 8),
    "relu": (lambda: A.relu(), 8),
    "x.T": (lambda: M.T, 13),
    "x[0]": (lambda: M[0], 10),
    "view": (lambda: M.view(16), 10),
    "recorded": (lambda: WEIGHT + A, 30),  # in Python; natively there is the method alone
    "compiled": (lambda: add(A, B), 7),  # the start of a function in parts is two of them
    "compiled chain": (lambda: scale(A), 7),
    "compiled as one graph": (lambda: whole(A, B), 5),
}


def python_calls_of(work):
    """The names of the Python functions that a later call runs."""
    for _ in range(3):
        work()
    calls = []
    gc.disable()  # what it finds may call Python
    sys.setprofile(lambda frame, event, _arg: calls.append(frame.f_code.co_name) if event == "call" else None)
    try:
        work()
    finally:
        sys.setprofile(None)
        gc.enable()
    return calls[1:]


@pytest.mark.unpoisoned
@pytest.mark.parametrize("name", CEILINGS)
def test_a_later_call_makes_few_python_calls(name):
    work, most = CEILINGS[name]
    calls = python_calls_of(work)
    assert len(calls) <= most, calls


class Pair:
    """A class that a program registers as a tree."""

    def __init__(self, one, other):
        self.parts = [one, other]


@pytest.mark.unpoisoned
def test_registered_trees_make_no_calls_for_each_tensor():
    before = python_calls_of(lambda: add(A, B))
    register_node(Pair, lambda pair: (pair.parts, None), lambda parts, context: Pair(*parts))
    try:
        after = python_calls_of(lambda: add(A, B))
    finally:
        del NODES[Pair]
    assert sorted(after) == sorted(before)


@pytest.fixture
def eager_switches():
    """Threads that take turns as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("eager_switches")
@pytest.mark.parametrize("function", [lambda x, y: x + y, add], ids=["eager", "compiled"])
def test_eight_threads_share_a_plan(function):
    function(A, A)
    wrong = []

    def work(seed):
        x, y = rl.full((4,), float(seed)), rl.full((4,), 100.0)
        for _ in range(300):
            result = function(x, y) * 2.0
            if result.tolist() != [2.0 * (seed + 100)] * 4:
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.fixture
def alarms():
    """`alarms(handler)` has the handler called every few microseconds of this process's work."""
    before = signal.getsignal(signal.SIGVTALRM)

    def start(handler):
        signal.signal(signal.SIGVTALRM, handler)
        signal.setitimer(signal.ITIMER_VIRTUAL, 1e-5, 1e-5)

    yield start
    signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    signal.signal(signal.SIGVTALRM, before)


@pytest.mark.skipif(not hasattr(signal, "SIGVTALRM"), reason="no interval timers on this system")
@pytest.mark.parametrize("function", [lambda x, y: x + y, add], ids=["eager", "compiled"])
def test_a_handler_may_call_what_it_interrupts(function, alarms):
    function(A, A)
    inner, outer = rl.full((4,), 7.0), rl.full((4,), 3.0)
    seen = []
    alarms(lambda *_: seen.append(function(inner, inner).tolist()))
    rounds = 0
    while len(seen) < 20:
        assert function(outer, outer).tolist() == [6.0] * 4
        rounds += 1
    assert all(found == [14.0] * 4 for found in seen)


class Stop(Exception):
    """What the handler raises."""


@pytest.mark.skipif(not hasattr(signal, "SIGVTALRM"), reason="no interval timers on this system")
@pytest.mark.parametrize("call", [whole, add], ids=["one graph", "parts"])
def test_a_handler_may_raise_anywhere(alarms, call):
    x, armed, stops = rl.full((4,), 3.0), [False], 0

    def handler(*_):
        if armed[0]:
            armed[0] = False
            raise Stop

    call(x, x)  # an import that is interrupted leaves half a module behind
    used = CPU.statistics().used_bytes
    alarms(handler)
    for _ in range(200):
        try:
            armed[0] = True
            while armed[0]:
                x + x
                call(x, x)
        except Stop:
            stops += 1
    signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    assert stops >= 198  # Python drops what is raised in a finalizer
    assert (x + x).tolist() == call(x, x).tolist() == [6.0] * 4
    # The lock is free for others. A block that was just changing hands may be lost; most are not.
    other = threading.Thread(target=lambda: rl.ones(4) + 1)
    other.start()
    other.join(10)
    assert not other.is_alive()
    assert CPU.statistics().used_bytes - used <= 64 * stops // 2


def test_a_number_that_does_not_fit_leaves_the_plan_usable():
    with pytest.raises(rl.RushlightError, match="mul: the number does not fit int64"):
        A * (1 << 70)
    assert (A * 3).tolist() == [3.0] * 4


@pytest.mark.parametrize("value", [True, 3, -2.5, 1 + 2j, np.float64(0.5), np.int64(-7)])
def test_numbers_of_every_class_arrive(value):
    np.testing.assert_array_equal((B * value).numpy(), B.numpy() * value)
    np.testing.assert_array_equal((value * B).numpy(), value * B.numpy())

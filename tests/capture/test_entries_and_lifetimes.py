"""Entries of a compiled function: what makes no new one, and what captures leave behind."""

import sys
import threading
import weakref
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

import rushlight as rl
from rushlight.compiler import graph_count
from rushlight.eager import python_calls
from rushlight.eager.native.learning import native_calls
from rushlight.support import settings
from rushlight.term.term import forget_dead
from tools.soak import collector_off, compile_and_reset, fail_to_capture, left_behind, resident_kb, tracked

WAYS = pytest.mark.parametrize("fullgraph", [None, False], ids=["whole", "parts"])
THREADS = 8


@pytest.fixture(autouse=True)
def _forget() -> None:
    rl.compiler.reset()


class Scaled(rl.nn.Module):
    def __init__(self, weight: rl.nn.Parameter) -> None:
        super().__init__()
        self.weight = weight
        self.label = "first"
        self.calls = 0

    def forward(self, x: Any) -> Any:
        self.calls += 1
        return x @ self.weight


def test_a_shape_that_is_unpacked_stays_in_the_graph():
    def rows(x: Any) -> Any:
        batch, _ = x.shape
        first, second = x.unbind(1)
        return (first + second).reshape(batch, 1) * 2

    x = rl.arange(6.0).reshape(3, 2)
    assert rl.compile(rows, fullgraph=False)(x).tolist() == rows(x).tolist()
    assert graph_count() == 1


def test_writing_an_attribute_that_was_not_read_makes_no_graph():
    module = Scaled(rl.nn.Parameter(rl.ones(2, 2)))
    compiled, x = rl.compile(lambda x: x @ module.weight), rl.ones(2, 2)
    for label in ("second", "third", "fourth"):
        module.label = label
        assert compiled(x).tolist() == [[2.0, 2.0], [2.0, 2.0]]
    assert graph_count() == 1


def test_a_counter_makes_one_graph_more_at_most():
    module = Scaled(rl.nn.Parameter(rl.ones(2, 2)))
    compiled = rl.compile(module)
    for _ in range(6):
        compiled(rl.ones(2, 2))
    assert module.calls == 6
    assert graph_count() <= 2


@WAYS
@pytest.mark.row("11.3")
def test_a_hundred_failed_captures_leave_nothing(fullgraph: bool | None):
    """With the collector off: no graph, node, fake tensor or traceback."""
    failed: list[int] = []

    def run(number: int) -> None:
        with suppress(rl.RushlightError):
            rl.compile(lambda x: (x * 2).view(7, 7), fullgraph=fullgraph)(rl.ones(4, 4))
        failed.append(number)

    assert left_behind(run, 97) == {}
    assert len(failed) == 100


@pytest.mark.row("11.3")
@pytest.mark.parametrize("run", [fail_to_capture, compile_and_reset])
def test_a_hundred_compiles_leave_neither_memory_nor_weak_references(run: Callable[[int], None]):
    """With the collector off. Events are counted: of each compile some stay in their ring, which is bounded."""
    for number in range(100):
        run(number)
    with collector_off():
        before, resident = tracked(), resident_kb()
        for number in range(100, 200):
            run(number)
        forget_dead()
        grown, added = resident_kb() - resident, tracked() - before
    assert grown < 1024
    assert added["_InternedRef"] + added["ReferenceType"] < 10, added
    assert added["Event"] + added["Frame"] + 20 > added.total(), added


@WAYS
@pytest.mark.row("11.4")
def test_captured_parameters_have_as_many_weak_references_as_before(fullgraph: bool | None):
    module = rl.nn.Linear(3, 3)
    before = [weakref.getweakrefcount(parameter) for parameter in module.parameters()]
    compiled = rl.compile(module, fullgraph=fullgraph)
    compiled(rl.ones(2, 3)).sum().backward()
    assert [weakref.getweakrefcount(parameter) for parameter in module.parameters()] == before


@WAYS
def test_functions_that_share_parameters_are_captured_by_threads_at_once(fullgraph: bool | None):
    weight = rl.nn.Parameter(rl.eye(4) * 3)
    functions = [
        rl.compile(lambda x: x @ weight + 1, fullgraph=fullgraph),
        rl.compile(lambda x: (x @ weight).relu() - 1, fullgraph=fullgraph),
    ]
    barrier = threading.Barrier(THREADS)
    results: list[tuple[int, float]] = []

    def run(number: int) -> None:
        barrier.wait()
        results.append((number % 2, float(functions[number % 2](rl.ones(2, 4)).sum())))

    threads = [threading.Thread(target=run, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(results) == [(0, 32.0)] * 4 + [(1, 16.0)] * 4
    assert graph_count() == 2


def python_functions(call: Any) -> set[str]:
    names: set[str] = set()
    sys.setprofile(lambda frame, event, argument: names.add(frame.f_code.co_name) if event == "call" else None)
    try:
        call()
    finally:
        sys.setprofile(None)
    return names


def leaves(value: Any) -> list[Any]:
    return [value] if isinstance(value, rl.Tensor) else list(value)


CALLS = {
    "one-result": lambda x, y: x * y + 1.0,
    "two-results": lambda x, y: (x.mT + y.mT, x.sum(1)),
    "result-twice": lambda x, y: [x * y] * 2,
}


@pytest.mark.skipif(settings.get().eager_calls != "native", reason="calls go through Python")
@pytest.mark.unpoisoned
@pytest.mark.parametrize("name", CALLS)
def test_short_calls_allocate_and_launch_natively(name: str):
    x, y = rl.arange(12.0).reshape(3, 4)[1:, 1:], rl.ones(3, 2).mT  # with an offset, and transposed
    compiled = rl.compile(CALLS[name])
    expected = [one.numpy().tobytes() for one in leaves(CALLS[name](x, y))]
    for _ in range(3):
        compiled(x, y)
    assert not {"allocate_many", "launch_short"} & python_functions(lambda: compiled(x, y))
    with python_calls():
        assert {"allocate_many", "launch_short"} <= python_functions(lambda: compiled(x, y))
        by_python = compiled(x, y)
    natively = compiled(x, y)
    for results in (by_python, natively):
        assert [one.numpy().tobytes() for one in leaves(results)] == expected
    pairs = zip(leaves(by_python), leaves(natively), strict=True)
    for one, other in pairs:
        assert (one.stride(), one.keys, one._version) == (other.stride(), other.keys, other._version)


@pytest.mark.unpoisoned
def test_compiled_gradients_are_those_of_entries_in_python():
    def step(x: Any, w: Any) -> Any:
        return (x @ w).relu().sum()

    gradients: list[Any] = []
    for scope in (python_calls, native_calls):
        with scope():
            w = rl.arange(6.0).reshape(3, 2).requires_grad_()
            compiled = rl.compile(step)
            for _ in range(3):
                compiled(rl.ones(4, 3), w).backward()
            gradients.append(w.grad.tolist())
    assert gradients[0] == gradients[1]

"""Threads that change state while a function that reaches it is traced: what they do stays, and is no effect of it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

import pytest

import rushlight as rl


class Counts:
    """State that a thread and a function share."""

    def __init__(self) -> None:
        self.number = 0
        self.log: list[int] = []
        self.table: dict[int, int] = {}
        self.last = 0


shared = Counts()
number = 0


def counter() -> tuple[Callable[[], None], Callable[[], int]]:
    """A closure that two functions share."""
    count = 0

    def add() -> None:
        nonlocal count
        count += 1

    return add, lambda: count


add_one, current_count = counter()


def change() -> None:
    """What the thread does at each turn."""
    global number
    shared.number += 1
    number += 1
    shared.log.append(1)
    shared.table[len(shared.log)] = 1
    add_one()


@contextmanager
def changing(turns: list[int]) -> Generator[None]:
    """A thread that changes the state all the time, and counts how often."""
    global shared, number, add_one, current_count
    shared, number = Counts(), 0
    add_one, current_count = counter()
    ended, pause = threading.Event(), threading.Event()
    errors: list[BaseException] = []

    def work() -> None:
        try:
            while not ended.is_set():
                change()
                turns[0] += 1
                pause.wait(0.0001)
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
    assert not errors


def long(x: Any) -> Any:
    """Something that takes long to trace."""
    for _ in range(150):
        x = x * 1.5 - 0.5
    return x


def reaches(x: Any) -> Any:
    if x is None:  # never
        return shared.number + number + len(shared.log) + len(shared.table) + current_count()
    return long(x)


def writes_beside(x: Any) -> Any:
    y = reaches(x)
    shared.last += 1
    return y


def reads(x: Any) -> Any:
    y = long(x)
    if shared.number < 0 or number < 0 or current_count() < 0 or len(shared.log) < 0:
        y = y + 1
    return y


@pytest.mark.parametrize(("function", "fullgraph"), [(reaches, True), (reaches, False), (writes_beside, True)])
def test_what_threads_change_stays(function: Callable[..., Any], fullgraph: bool) -> None:
    turns = [0]
    with changing(turns):
        for count in range(1, 7):
            compiled = rl.compile(function, fullgraph=fullgraph, backend="eager")
            for _ in range(3):
                assert compiled(rl.ones(count)).tolist() == [1.0] * count
    assert turns[0] > 6
    found = (shared.number, number, len(shared.log), len(shared.table), current_count())
    assert all(turns[0] - 1 <= count <= turns[0] for count in found)  # one may come while a stand-in is taken away
    assert {type(each) for each in found} == {int}
    assert shared.last == (18 if function is writes_beside else 0)


def test_what_threads_change_is_python_s_where_it_is_read() -> None:
    turns = [0]
    with changing(turns):
        for count in range(1, 4):
            compiled = rl.compile(reads, fullgraph=False, backend="eager")
            assert compiled(rl.ones(count)).tolist() == [1.0] * count
    found = (shared.number, number, len(shared.log), len(shared.table), current_count())
    assert all(turns[0] - 1 <= count <= turns[0] for count in found)


def test_threads_start_in_a_compiled_function() -> None:
    seen: list[int] = []

    def work(at: int) -> None:
        seen.append(at)

    def starts(x: Any, count: int) -> Any:
        threads = [threading.Thread(target=work, args=(at,)) for at in range(count)]
        for thread in threads:
            thread.start()
            x = x * 2
        for thread in threads:
            thread.join(20)
            x = x + 1
        return x

    compiled = rl.compile(starts, fullgraph=False, backend="eager")
    for _ in range(5):
        assert compiled(rl.ones(2), 3).tolist() == [11.0, 11.0]
    assert sorted(seen) == sorted([*range(3)] * 5)


def test_another_thread_computes_with_the_number_that_stands_in_its_place() -> None:
    seen: list[Any] = []
    shared.last = 5

    @rl.compiler.allow_in_graph
    def asked(x: Any) -> Any:
        def ask() -> None:
            value: Any = shared.last
            seen.append(
                (value + 1, 1 - value, -value, +value, abs(value), value > 4, bool(value), int(value), f"{value}")
            )

        thread = threading.Thread(target=ask)
        thread.start()
        thread.join()
        return x

    def step(x: Any) -> Any:
        shared.last += 1
        return asked(x) * shared.last

    compiled = rl.compile(step, fullgraph=True, backend="eager")
    assert [compiled(rl.ones(1)).tolist() for _ in range(3)] == [[6.0], [7.0], [8.0]]
    assert shared.last == 8
    for found in seen:
        last = found[3]
        assert found == (last + 1, 1 - last, -last, last, last, True, True, last, str(last))
        assert {type(each) for each in found} == {int, bool, str}
    assert len(seen) > 0

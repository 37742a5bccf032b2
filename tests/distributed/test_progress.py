"""Calls under way: in which order they begin, whoever moves them on."""

import threading
import time

import rushlight as rl
from rushlight.distributed.engine.progress import Progress


class Stages:
    """A call of some stages, each over after so many steps; `log` has what began."""

    def __init__(self, name: str, log: list[str], line: object, stages: int = 1, steps: int = 1):
        self.name, self.log, self.line = name, log, line
        self.left, self.stages, self.at = [steps] * stages, stages, -1
        self.has_begun_all = self.is_over = False

    def step(self):
        if self.at < 0:
            self.begin()
        self.left[self.at] -= 1
        if self.left[self.at] <= 0:
            if self.at + 1 == self.stages:
                self.is_over = True
            else:
                self.begin()

    def begin(self):
        self.at += 1
        self.log.append(f"{self.name}{self.at}")
        self.has_begun_all = self.at + 1 == self.stages


def begun(polls: int) -> list[str]:
    """The order in which calls begin where a rank has looked so often at the first one before it makes the others."""
    log: list[str] = []
    progress = Progress()
    first = Stages("first", log, "group", stages=3, steps=4)
    progress.add(first)
    for _ in range(polls):
        progress.push()
    others = [Stages("second", log, "group", stages=2), Stages("third", log, "group", steps=9)]
    for one in others:
        progress.add(one)
    while not all(one.is_over for one in (first, *others)):
        progress.push()
    return log


def test_collectives_of_a_group_begin_in_one_order_however_often_a_rank_looks():
    wanted = ["first0", "first1", "first2", "second0", "second1", "third0"]
    assert [begun(polls) for polls in range(14)] == [wanted] * 14


def test_messages_and_other_groups_do_not_stand_in_line():
    log: list[str] = []
    progress = Progress()
    calls = [
        Stages("first", log, "group", stages=2, steps=5),
        Stages("message", log, None),
        Stages("other", log, "row"),
    ]
    for call in calls:
        progress.add(call)
    assert log == ["first0", "message0", "other0"]


def test_a_call_that_fails_holds_nobody():
    class Failing(Stages):
        def step(self):
            self.is_over = True

    log: list[str] = []
    progress = Progress()
    progress.add(Failing("first", log, "group"))
    progress.add(Stages("second", log, "group"))
    assert log == ["second0"]


def test_a_thread_moves_calls_on_while_nobody_waits_and_none_once_it_is_closed():
    progress = Progress()
    call = Stages("first", [], "group", stages=3, steps=3)
    progress.add(call)
    progress.in_background()
    until = time.monotonic() + 20
    while not call.is_over and time.monotonic() < until:
        time.sleep(0.01)
    assert call.is_over
    progress.close()
    later = Stages("later", [], "group", stages=9, steps=9)
    progress.add(later)
    at = later.at, list(later.left)
    progress.in_background()
    time.sleep(0.05)
    assert (later.at, list(later.left)) == at


def test_a_compiled_function_moves_calls_on_once_and_a_trace_none():
    def function() -> tuple[int, list[str]]:
        known = set(threading.enumerate())
        log: list[str] = []
        progress = Progress()
        progress.add(Stages("first", log, "group", stages=2))
        progress.push()
        progress.in_background()
        started = len([thread for thread in threading.enumerate() if thread not in known])
        progress.close()  # the thread may end at once
        return started, log

    compiled = rl.compile(function, backend="eager")
    before = threading.active_count()
    assert [compiled(), compiled()] == [(1, ["first0", "first1"])] * 2
    assert threading.active_count() <= before + 2

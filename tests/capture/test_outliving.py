"""Generators and coroutines that outlive a compiled call are CPython's own, and go on where they were."""

import inspect
import sys
import threading
import traceback
import types

import pytest

import rushlight as rl
from rushlight.support import settings


def yields(x):
    def g(n, *rest, k=1, **more):
        while True:
            n = n + (yield n) * k

    it = g(x, 5, k=2, z=3)
    next(it)
    it.send(1)
    return it


def shares_cells(x):
    total = [0]

    def g():
        nonlocal x
        for i in range(5):
            x = x + i
            total[0] += i
            yield lambda: (x, i)  # noqa: B023 - the cell that all share

    it = g()
    next(it)
    next(it)
    return it, total, lambda: x


def delegates(x):
    log = []

    def inner(n):
        got = yield n
        try:
            yield n * 2, got
        finally:
            log.append("closed")

    def outer():
        return (yield from inner(x))

    it = outer()
    next(it)
    it.send("sent")
    return it, log


def waits_in_a_call(x):
    def g():
        yield [(yield 1), {"a": (yield 2), "b": max((yield x), 1)}]
        return 9

    it = g()
    next(it)
    it.send(x)
    return it


class Logged:
    def __init__(self, log):
        self.log = log

    def __enter__(self):
        self.log.append("in")

    def __exit__(self, *error):
        self.log.append(("out", error[0]))


def waits_in_a_block(x):
    log = []

    def g(values):
        for i, value in enumerate(values):
            with Logged(log):
                yield value * i

    it = g([x, x + 1, x + 2])
    next(it)
    next(it)
    return it, log


class Wanted:
    def __init__(self, value):
        self.value = value

    def __await__(self):
        return (yield self.value)


async def added(x):
    return await Wanted(x) + await Wanted(x)


def awaits(x):
    async def outer():
        return [1, await added(x), len([await Wanted(3)])]

    made = outer()
    made.send(None)
    return made


def lacks_variables(x):
    def g(a, b, c=3):
        del b
        once = 1
        del once
        yield a
        try:
            yield b  # noqa: F821 - it is deleted
        except UnboundLocalError as error:
            yield str(error)

    it = g(x, 2)
    next(it)
    return it


def holds_itself(x):
    box = []

    def g():
        yield x
        yield box[0]

    it = g()
    next(it)
    box.append(it)
    return it, box


def has_not_begun(x):
    def g(a, /, *rest, b=2):
        yield a, rest, b

    return {"made": g(x, 3, b=4)}, [x + 1]


def has_ended(x):
    def g():
        yield x

    it = g()
    return it, list(it)


PROGRAMS = [
    *[yields, shares_cells, delegates, waits_in_a_call, waits_in_a_block, awaits, lacks_variables],
    *[holds_itself, has_not_begun, has_ended],
]


def plain(value):
    """A value with numbers in place of tensors, to be compared."""
    if isinstance(value, rl.Tensor):
        return value.tolist()
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    if isinstance(value, types.FunctionType):
        return plain(value())
    return {key: plain(part) for key, part in value.items()} if isinstance(value, dict) else value


def split(result):
    """The generator in a result, and the rest of it."""
    first, *rest = result if isinstance(result, tuple) else (result,)
    return (first["made"] if isinstance(first, dict) else first), rest


def state(it):
    if isinstance(it, types.CoroutineType):
        return inspect.getcoroutinestate(it), it.cr_frame.f_lineno, it.__qualname__, sorted(it.cr_frame.f_locals)
    frame = it.gi_frame
    return inspect.getgeneratorstate(it), frame and frame.f_lineno, frame and sorted(frame.f_locals), it.__qualname__


def drained(it, sent):
    found = []
    try:
        for value in sent:
            found.append("itself" if (given := it.send(value)) is it else plain(given))
    except StopIteration as stop:
        found.append(("returned", plain(stop.value)))
    except TypeError as error:
        found.append(str(error))
    return found


def ended_by_an_error(it):
    try:
        it.throw(KeyError("thrown"))
    except KeyError as error:
        return [(entry.name, entry.lineno) for entry in traceback.extract_tb(error.__traceback__)][1:]
    return "goes on"


@pytest.mark.parametrize("fullgraph", [True, False])
@pytest.mark.parametrize("program", PROGRAMS)
def test_one_that_outlives_the_call_goes_on_as_pythons_does(program, fullgraph):
    compiled = rl.compile(program, fullgraph=fullgraph)
    for value in (1.0, 2.0, 3.0):
        x = rl.full((2,), value)
        (it, rest), (expected, others) = split(compiled(x)), split(program(x))
        if not (program is holds_itself and not fullgraph):  # which two may have, where no graph builds them
            assert type(it) in (types.GeneratorType, types.CoroutineType)
        assert state(it) == state(expected)
        begun = "CREATED" not in state(it)[0]
        sent = [x if begun else None, 3.5, 4, None]
        assert drained(it, sent) == drained(expected, sent)
        if program is not holds_itself:
            assert plain(rest) == plain(others)


@pytest.mark.parametrize("program", [program for program in PROGRAMS if program is not holds_itself])
def test_one_that_outlives_the_call_is_closed_and_thrown_into(program):
    compiled = rl.compile(program, fullgraph=True)
    x = rl.ones(2)
    (it, rest), (expected, others) = split(compiled(x)), split(program(x))
    it.close()
    expected.close()
    assert plain(rest) == plain(others)
    assert ended_by_an_error(split(compiled(x))[0]) == ended_by_an_error(split(program(x))[0])


def test_threads_take_over_generators_that_a_call_has_left():
    def leaves(x, log):
        def numbers(factor):
            for i in range(3000):
                yield i * factor

        both = numbers(1), numbers(2)
        print(end="")  # a graph ends
        log += both
        print(end="")
        return both

    log, sums = [], {}

    def run(at):
        sums[at] = sum(log[at])

    rl.compile(leaves)(rl.ones(2), log)
    threads = [threading.Thread(target=run, args=(at,)) for at in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sums == {at: sum(range(3000)) * (at + 1) for at in range(2)}


def test_one_that_others_have_stays_the_same_object():
    def keeps(x, kept):
        def g():
            yield x
            yield x * 2

        it = g()
        print(end="")  # a graph ends
        kept.append(it)
        print(end="")
        next(it)
        return it

    kept = []
    it = rl.compile(keeps)(rl.ones(2), kept)
    assert it is kept[0] and isinstance(it, types.GeneratorType)
    assert [value.tolist() for value in it] == [[2.0, 2.0]]


def shows_its_own_frame(x):
    frame = inspect.currentframe()
    y = x * 2
    rl.compiler.graph_break()
    z = y + 1  # noqa: F841 - it is looked at by its name
    rl.compiler.graph_break()
    return [frame.f_locals[name] for name in "xyz"], frame.f_lineno - frame.f_code.co_firstlineno


def shows_the_callers_frame(x):
    def caller_of():
        return sys._getframe(1)

    frame = caller_of()
    y = x + 1  # noqa: F841 - it is looked at by its name
    rl.compiler.graph_break()
    return [frame.f_locals[name] for name in "xy"], frame.f_lineno - frame.f_code.co_firstlineno


def shows_the_frame_of_a_call_that_has_ended(x):
    def ended(y):
        return inspect.currentframe()

    frame = ended(x * 2)
    rl.compiler.graph_break()
    return [x + 1, frame.f_locals["y"]], frame.f_code.co_name


FRAMES = [shows_its_own_frame, shows_the_callers_frame, shows_the_frame_of_a_call_that_has_ended]


@pytest.mark.parametrize("limit", [0, 1])
@pytest.mark.parametrize("program", FRAMES)
def test_a_frame_shows_what_its_function_has_behind_a_graph(program, limit):
    with settings.override(part_limit=limit):
        compiled = rl.compile(program)
        for value in (1.0, 2.0):
            x = rl.full((2,), value)
            assert plain(compiled(x)) == plain(program(x))

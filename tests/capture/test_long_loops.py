"""Loops that run long without an operator are run by CPython, from the middle of a function to behind the loop."""

import copy
import functools
import itertools
import sys

import pytest
from tests.capture.programs.collection import topics
from tests.capture.programs_in_parts import differing

import rushlight as rl
from rushlight.capture.interpreter.frame import Frame
from rushlight.capture.interpreter.invocation import begin
from rushlight.capture.interpreter.leaving import LeavingInterpreter
from rushlight.capture.interpreter.native_loops import loop_at
from rushlight.support import events, settings

pytestmark = pytest.mark.core


@pytest.fixture(autouse=True)
def fresh():
    rl.compiler.reset()
    events.reset()


@functools.cache
def heads(body):
    """The instructions to which jumps lead back."""
    jumps = [(at, each.operand) for at, each in enumerate(body.code.instructions) if "JUMP" in each.name]
    return {target for at, target in jumps if target <= at}


def switching(function, args, after):
    """What a call gives of which CPython runs each loop from so many instructions on, and the loops' count."""
    interpreter = LeavingInterpreter(lambda called: called.__module__ != __name__)
    begun = begin(interpreter, function, args, {})
    assert type(begun) is Frame
    interpreter.frames.append(begun)
    loops = 0

    def run():
        nonlocal loops
        for _ in range(after):
            interpreter.step()
            if not interpreter.frames:
                return interpreter.result
        while interpreter.frames:
            frame = interpreter.frames[-1]
            begins = frame.position in heads(frame.body)
            loop = loop_at(frame.body, frame.position, len(frame.stack)) if begins else None
            can = loop is not None and interpreter.handled.error is None
            if can and not (loop.returns and frame.generator):
                loops += 1
                interpreter.run_loop(loop)
            else:
                interpreter.step()
        return interpreter.result

    return interpreter.in_loop(run), loops


def left_by_break_and_else(n):
    t = 0
    for i in range(n):
        if i == 7:
            continue
        t += i
        if t > 100:
            break
    else:
        t = -1
    return t, n


def with_handlers(n):
    d = {}
    while n:
        n -= 1
        try:
            d[n] = 1 / (n % 3)
        except ZeroDivisionError as e:
            d[n] = str(e)
            if n == 3:
                return d
        finally:
            d["x"] = n
    return d


def left_by_an_error(n):
    out = []
    try:
        for i in range(n):
            for j in range(i):
                if i * j == 6:
                    raise ValueError(i, j)
                out.append(i + j)
    except ValueError as e:
        out.append((e.args, e.__traceback__.tb_lineno, e.__traceback__.tb_next))
    for k in out[:3]:
        out.append(k)
    return out


def with_cells(n):
    def g():
        nonlocal n
        n += 1
        return n

    s = [g() for _ in range(5)]
    fs = []
    for i in range(3):
        fs.append(lambda: (i, n))  # noqa: B023 - the cell is the test
    del s[0]
    return [f() for f in fs], s, len([x * 2 for x in range(3)])


class Logging:
    def __init__(self, log):
        self.log = log

    def __enter__(self):
        self.log.append("in")
        return self

    def __exit__(self, *error):
        self.log.append(("out", error[0]))
        return error[0] is KeyError


def with_managers(n):
    log = []
    with Logging(log):
        for i in range(n):
            with Logging(log):
                if i == 2:
                    raise KeyError(i)
                if i == 3:
                    continue
                if i == 5:
                    break
            log.append(i)
        for i in range(2):
            if i:
                return log
    return log


def with_generators(n):
    def gen(k):
        t = 0
        for _ in range(k):
            for j in range(3):
                t += j
            yield t
        while t > 3:
            t -= 1
        return t

    def outer(k):
        r = yield from gen(k)
        yield r

    return list(outer(n)), sum(gen(n)), [-x for x in gen(2)]


class Base:
    def f(self, x):
        return x + 1


class Derived(Base):
    def f(self, x):
        for _ in range(3):
            x += super().f(x)
        self = None
        while x > 3:
            x -= 2
        return x, self


def with_super(n):
    return Derived().f(n)


def with_a_traceback(n):
    def bad():
        for i in range(n):
            [][i]

    lines = []
    try:
        bad()
    except IndexError as e:
        trace = e.__traceback__
        while trace:
            lines.append((trace.tb_lineno, trace.tb_frame.f_code.co_name))
            trace = trace.tb_next
    return lines


def with_errors_raised_again(n):
    x = 0
    for i in range(n):
        try:
            try:
                if i == 3:
                    raise ValueError
            finally:
                x += 1
        except ValueError:
            try:
                raise
            except ValueError:
                x += 10
            continue
        x += 100
    while True:
        x += 1
        if x % 7 == 0:
            return x


def with_matches(n):
    total = i = 0
    while i < n and total < 50:
        i += 1
        if i % 2:
            continue
        for j in (1, 2, 3):
            total += j * i
            if total > 40:
                break
        else:
            total += 1
            continue
        break
    match total:
        case int() if total > 5:
            for _ in range(2):
                total += 1
    return total, dict(zip(range(n), [i + 1 for i in range(3)], strict=False)), {a for a in [1, 2] if a}


def with_finally_around(n):
    try:
        try:
            for i in range(n):
                if i == 4:
                    raise KeyError(i)
        finally:
            n += 5
    except KeyError as e:
        return n, e.__traceback__.tb_lineno, e.__context__
    return n


def with_unbound_variables(n):
    x = None
    for i in range(n):
        x = i
        if i == n - 1:
            del x
    try:
        return x
    except UnboundLocalError:
        return "unbound"


PROGRAMS = [
    left_by_break_and_else,
    with_handlers,
    left_by_an_error,
    with_cells,
    with_managers,
    with_generators,
    with_super,
    with_a_traceback,
    with_errors_raised_again,
    with_matches,
    with_finally_around,
    with_unbound_variables,
]


@pytest.mark.parametrize("program", PROGRAMS, ids=[program.__name__ for program in PROGRAMS])
def test_cpython_goes_on_with_a_loop_from_everywhere(program):
    count = 0
    for n in (0, 1, 2, 5, 9):
        expected = repr(program(n))
        for after in range(90):
            found, loops = switching(program, (n,), after)
            assert repr(found) == expected, (n, after)
            count += loops
    assert count >= 50


def test_loops_of_long_code_are_left_by_long_jumps():
    lines = ["def long(n):", "    t = 0", "    for i in range(n):", "        if i == 5: break"]
    lines += [f"        t += i * {number}" for number in range(2000)]
    lines += ["        if i == 7: return t", "    else:", "        t = -t", "    return t, i"]
    space = {"__name__": __name__}
    exec("\n".join(lines), space)
    for n in (1, 4, 9):
        found, loops = switching(space["long"], (n,), 100)
        assert loops == 1
        assert found == space["long"](n)


DIFFERING = {
    "functions/generators:generator_kept_in_the_environment": "a generator that others have is the interpreter's",
    "functions/native_callbacks:generator_attribute_missing": "a generator that others have is the interpreter's",
    "slots/comparison_and_membership:lists_use_identity_before_equality": "a float behind a graph is another object",
    "statements/frames_and_tracebacks:extract_stack": "frames of the driver are among those of the program",
    "statements/frames_and_tracebacks:stack_in_native_callback": "frames of the driver are among those of the program",
    "statements/frames_and_tracebacks:stack_names": "frames of the driver are among those of the program",
}


@pytest.mark.parametrize("topic", topics())
def test_programs_do_what_python_does_where_each_loop_runs_long(topic):
    with settings.override(loop_budget=3):
        for name, found in differing(topic, sum(map(ord, topic)) % 8, 8):
            if name not in DIFFERING:
                assert not found, "\n".join([name, *found])


def vocabulary(words, natively):
    table = {}
    for word in words:
        natively.append(hasattr(sys._getframe(), "f_trace_lines"))
        table.setdefault(word % 7, len(table))
    return table


def inlined(x, n, natively):
    y = x * 2
    table = {}
    for word in range(n):
        natively.append(hasattr(sys._getframe(), "f_trace_lines"))
        table.setdefault(word % 7, len(table))
    return y * len(table) + 1


def called(x, n, natively):
    y = x * 2
    return y * len(vocabulary(range(n), natively)) + 1


def within_a_scope(x, n, natively):
    with rl.no_grad():
        y = x * 2
        table = vocabulary((i for i in range(n)), natively)
        return y * len(table) + 1


@pytest.mark.parametrize("function", [inlined, called, within_a_scope])
def test_a_loop_that_runs_long_is_not_interpreted_again(function):
    n = 3000
    with settings.override(loop_budget=2000):
        compiled = rl.compile(function)
        for turn in range(3):
            natively = []
            assert compiled(rl.ones(3), n, natively).tolist() == function(rl.ones(3), n, []).tolist()
            assert len(natively) == n
            interpreted = n - sum(natively)
            assert interpreted < (500 if turn == 0 else 3)
        assert {event.code for event in events.events("graph_break")} >= {"B027"}
        assert rl.compiler.graph_count() <= 3


def test_an_operator_in_a_loop_keeps_it_in_graphs():
    def steps(x):
        for turn in range(40):
            x = x * 0.5 + turn
        return x

    with settings.override(loop_budget=100):
        compiled = rl.compile(steps)
        assert compiled(rl.ones(2)).tolist() == steps(rl.ones(2)).tolist()
    assert not list(events.events("graph_break"))
    assert rl.compiler.graph_count() == 1


def fibonacci(n):
    return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)


def test_a_function_that_calls_itself_for_long_is_called_as_it_is():
    def computes(x, n):
        return x * fibonacci(n) + 1

    with settings.override(loop_budget=500):
        compiled = rl.compile(computes)
        for _ in range(2):
            assert compiled(rl.ones(2), 12).tolist() == [145.0, 145.0]
    assert rl.compiler.graph_count() == 1
    assert "B027" in {event.code for event in events.events("graph_break")}


def test_what_c_calls_back_for_long_is_called_as_it_is():
    def computes(x, n):
        return x + sum(i * 2 for i in range(n)) + sorted(range(n), key=lambda i: -i)[0]

    with settings.override(loop_budget=500):
        compiled = rl.compile(computes)
        for _ in range(2):
            assert compiled(rl.ones(2), 200).tolist() == [39800.0 + 200] * 2
    assert "B027" in {event.code for event in events.events("graph_break")}


def test_one_graph_holds_a_long_loop():
    def computes(x):
        total = 0
        for i in range(300):
            total += i
        return x + total

    with settings.override(loop_budget=100):
        assert rl.compile(computes, fullgraph=True)(rl.ones(2)).tolist() == [44851.0] * 2


class Node:
    def __init__(self, value, following=None):
        self.value, self.following = value, following


def test_the_state_that_an_object_gives_is_its_own_dict_behind_a_break():
    def states(x):
        a = Node(1)
        a.following = Node(2, a)
        state = a.__reduce_ex__(4)[2]
        rl.compiler.graph_break()
        return state["following"].following is a, state is a.__dict__, x

    assert rl.compile(states)(rl.ones(2))[:2] == (True, True)


def test_copies_of_circles_are_circles_wherever_the_graph_ends():
    def copies(x):
        a = Node(1)
        a.following = Node(2, a)
        made = copy.deepcopy(a)
        return made.following.following is made

    for budget in (3, 10, 50, 150):
        with settings.override(loop_budget=budget):
            assert rl.compile(copies)(rl.ones(2))


def test_a_function_that_an_exception_group_asks_is_called_once():
    def parts(x, log):
        group = ExceptionGroup("g", [ValueError(1), KeyError(2)])
        found = group.subgroup(lambda error: log.append(type(error).__name__) or isinstance(error, KeyError))
        rl.compiler.graph_break()
        return found.exceptions[0].args, x + 1

    log = []
    assert rl.compile(parts)(rl.ones(2), log)[0] == (2,)
    assert log == ["ExceptionGroup", "ValueError", "KeyError"]


def numbers(n, log):
    try:
        for i in range(n):
            got = yield i
            if got:
                log.append(got)
    finally:
        log.append("end")


def test_a_generator_that_c_drives_for_long_is_cpythons_from_there_on():
    def computes(x, n, log):
        total = 0
        for at, i in enumerate(numbers(n, log)):
            total += at * i
        made = numbers(n, log)
        pairs = dict(zip(made, range(n // 2), strict=False))
        rest = [next(made), made.send("sent"), made.gi_frame is None]
        made.close()
        log.append((made.gi_frame, list(made)))
        return x + total + len(pairs), rest, sum(itertools.chain(numbers(n, log), numbers(2, log)))

    expected = []
    result = computes(rl.ones(2), 300, expected)
    with settings.override(loop_budget=500):
        compiled = rl.compile(computes)
        for _ in range(3):
            log = []
            found = compiled(rl.ones(2), 300, log)
            assert (found[0].tolist(), found[1:]) == (result[0].tolist(), result[1:])
            assert log == expected


def test_what_an_iterable_refuses_is_said_when_a_chain_comes_to_it():
    class Refusing:
        def __iter__(self):
            return self

    def chains(x):
        made = itertools.chain([1], Refusing())
        first = next(made)
        try:
            next(made)
        except TypeError as error:
            return first, str(error), x + 1

    assert rl.compile(chains)(rl.ones(1))[:2] == (1, "iter() returned non-iterator of type 'Refusing'")

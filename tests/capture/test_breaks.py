"""Every kind of break is documented, and has a program that makes it, which does what it does uncompiled."""

import itertools
from array import array
from pathlib import Path

import pytest

import rushlight as rl
from rushlight.capture.resume.breaks import KINDS
from rushlight.support import events, settings
from rushlight.support.errors import RushlightError
from rushlight.utils._python_dispatch import TorchDispatchMode

PAGE = Path(__file__).parents[2] / "docs" / "breaks.md"
PROGRAMS = {}


class Point:
    def __init__(self, size):
        self.size = size

    def __lt__(self, other):
        return self.size < other.size


class Leaving:
    def __init__(self):
        self.size = 2

    def __del__(self):
        pass


class Slow:
    def __init__(self, x):
        self.value = float(x.sum())


class Shy:
    size = 2

    @property
    def __dict__(self):
        raise LookupError("not yours")


POINT = Point(3)
SIZES = array("l", [2])
KEYS = {1: 2}
KEPT = [0]
BYTES = bytearray(1)
SHY = Shy()
COUNT = itertools.count(1)


def makes(code):
    """Registers a program, of a tensor of three ones, that makes a break of a kind."""

    def register(program):
        PROGRAMS[code] = program
        return program

    return register


class Equal:
    def __eq__(self, other):
        return True

    __hash__ = None


@makes("B001")
def value(x):
    return x + 1 if x.sum() > 0 else x - 1


@makes("B002")
def call(x):
    y = x + 1
    print(end="")
    return y * 2


@makes("B003")
def outside(x):
    BYTES[0] = x.shape[0]
    return x + 1


@makes("B004")
def argument(x, rows=KEPT):
    y = x + 1
    rows.append([y])
    KEPT.pop()
    return y * 2


@makes("B005")
def passed_by(x):
    sizes = SIZES
    y = x + 1
    print(end="")
    return y * sizes[0]


@makes("B006")
def iterator(x):
    y = x + 1
    return y * (next(COUNT) > 0)


@makes("B007")
def called_back(x):
    points = [Equal(), Equal()]
    return x + points.count(Equal())


@makes("B009")
def makes_a_class(x):
    y = x + 1

    class Local:
        __slots__ = ("place", "size")

    del Local.place  # no class statement makes such a class
    KEPT.append(Local)
    return y * KEPT.pop().__basicsize__


@makes("B010")
def tensor_attribute(x):
    y = x + 1
    y.note = "sum"
    return y * len(y.note)


@makes("B011")
def key(x):
    y = x + 1
    return y * 2 if x in KEYS else y


@makes("B012")
def identity(x):
    y, size = x + 1, x.shape[0] * 1000
    return y * 2 if size is x.shape[0] * 1000 else y


@makes("B013")
def finalizer(x):
    y = x + 1
    Leaving()
    return y * 2


@makes("B014")
def raised(x):
    y = x + 1
    if len(y) == 3:
        raise ValueError("three")
    return y


@makes("B015")
def scope(x):
    y = x + 1
    with rl.no_grad():
        y = y * 2
        print(end="")
    return y + 1


@makes("B016")
def suspended(x):
    return x + Slow(x * 2).value


@makes("B017")
def unbuilt(x):
    y = x + 1
    made = array("l", [2])
    print(end="")
    return y * made[0]


@makes("B018")
def unsupported(x):
    y = x + 1
    x.unsqueeze_(0)
    return x * y


@makes("B019")
def failed(x):
    return x + SHY.size


@makes("B020")
def variables(x):
    point = Point(2)
    y = x + 1
    point.__dict__ = {"size": 3}
    return y * point.size


@makes("B021")
def disabled(x):
    y = x + 1
    rl.compiler.graph_break()
    return y * 2


@makes("B022")
def unkept(x):
    weight = rl.ones(3, requires_grad=True)
    print(end="")
    (weight * x).sum().backward()
    return weight.grad


@makes("B023")
def autograd(x):
    y = x + 1
    return y * (y._base is None)


@makes("B024")
def mode(x):
    y = x + 1
    with TorchDispatchMode():
        z = y * 2
    return z + 1


@pytest.mark.parametrize("code", sorted(PROGRAMS))
def test_a_program_makes_the_break_and_does_what_it_does_uncompiled(code):
    program = PROGRAMS[code]
    outcomes = []
    for run in (program, rl.compile(program, fullgraph=False)):
        events.reset()
        for _ in range(2):
            try:
                with settings.override(strict_parts=False):
                    outcomes.append(run(rl.ones(3)).tolist())
            except ValueError as error:
                outcomes.append(str(error))
    assert outcomes[:2] == outcomes[2:]
    found = [event for event in events.events("graph_break") if event.code == code]
    assert found, [str(event) for event in events.events("graph_break")]
    assert all(event.hint == KINDS[code].hint for event in found)


OF_COMPILE = {"B008"}  # which `compile` itself records; see test_steering.py
OF_LATER_CALLS = {"B025", "B026", "B027", "B028", "B029", "B030"}
"""See test_without_end.py, test_long_loops.py, test_effects.py, test_cost_of_parts.py and test_large_containers.py."""
OF_ONE_GRAPH = {"B001": "C002", "B016": "C002", "B018": "A006", "B021": "C039", "B024": "C036"}  # others are C003
OF_THE_PROGRAM = {"B014": ValueError, "B019": LookupError}


@pytest.mark.parametrize("code", sorted(PROGRAMS.keys() - OF_THE_PROGRAM.keys()))
def test_where_one_graph_is_wanted_a_break_is_an_error_and_nothing_has_happened(code):
    program, before = PROGRAMS[code], list(KEPT)
    with pytest.raises(RushlightError) as raised:
        rl.compile(program, fullgraph=True)(rl.ones(3))
    error = raised.value
    assert error.code == OF_ONE_GRAPH.get(code, "C003")
    assert error.hint
    assert error.frame is not None
    assert error.frame.filename == __file__
    assert before == KEPT


def test_one_graph_takes_the_variables_of_new_objects():
    def inside(x):
        point = Point(2)
        vars(point)["size"] = x + 1
        return point.size * len(vars(point))

    assert rl.compile(inside, fullgraph=True)(rl.ones(3)).tolist() == inside(rl.ones(3)).tolist()

    def both(x):
        point = Point(x + 1)
        return point, vars(point)

    point, variables = rl.compile(both, fullgraph=True)(rl.ones(3))
    assert vars(point) is variables and point.size.tolist() == [2.0, 2.0, 2.0]


def test_every_kind_has_its_program():
    assert PROGRAMS.keys() == KINDS.keys() - OF_COMPILE - OF_LATER_CALLS


@pytest.mark.parametrize("code", OF_THE_PROGRAM)
def test_where_one_graph_is_wanted_the_programs_errors_are_raised(code):
    with pytest.raises(OF_THE_PROGRAM[code]):
        rl.compile(PROGRAMS[code], fullgraph=True)(rl.ones(3))


@pytest.mark.parametrize("kind", KINDS.values(), ids=str)
def test_every_kind_is_documented(kind):
    page = PAGE.read_text()
    assert f"## {kind.code}: {kind.title}\n\n{kind.explanation}\n\nWhat to do: {kind.hint}." in page


def test_a_part_that_is_not_traced_is_an_error_where_a_setting_asks_for_it():
    with settings.override(strict_parts=True), pytest.raises(LookupError, match="not yours"):
        rl.compile(failed, fullgraph=False)(rl.ones(3))

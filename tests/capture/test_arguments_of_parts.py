"""Calls of functions that are compiled in parts: how arguments reach graphs, without a frame between."""

import collections
import typing
import warnings

import numpy as np
import pytest

import rushlight as rl
from rushlight.capture.resume import driver
from rushlight.support import events
from rushlight.support.errors import forget_warnings


@pytest.fixture(autouse=True)
def fresh():
    rl.compiler.reset()
    events.reset()


def no_frame(*_):
    raise AssertionError("a frame is made")


def test_a_call_that_is_one_graph_makes_no_frame(monkeypatch):
    class Net(rl.nn.Module):
        def forward(self, x, scale=2):
            return {"y": x * scale}

    def add(x, y):
        return x + y

    x = rl.tensor([1.0, 2.0])
    compiled, net = rl.compile(add, fullgraph=False), rl.compile(Net(), fullgraph=False)
    for _ in range(2):
        assert compiled(x, x * 2).tolist() == [3.0, 6.0]
        assert net(x)["y"].tolist() == [2.0, 4.0]
        assert net(x, scale=3)["y"].tolist() == [3.0, 6.0]
    monkeypatch.setattr(driver, "begin", no_frame)
    assert compiled(x, x * 2).tolist() == [3.0, 6.0]
    assert net(x)["y"].tolist() == [2.0, 4.0]
    assert net(x, scale=3)["y"].tolist() == [3.0, 6.0]


def of_every_kind(a, /, b, c=2.0, *rest, d, e=None, **named):
    return a + b * c + sum(rest, rl.zeros(2)) * d + (0 if e is None else e), sorted(named), len(rest)


class Bound:
    def method(self, a, *rest, scale=2, **named):
        return a * scale + sum(rest, rl.zeros(2)), sorted(named), len(rest)

    @classmethod
    def of_class(cls, a, b=3, *, c=1):
        return a * b + c, [cls.__name__], 0

    def __call__(self, a, *, b=3):
        return a * b, ["called"], 0


CALLS = [
    (of_every_kind, (1, 2), {"d": 3}),
    (of_every_kind, (1,), {"d": 3, "b": 2}),
    (of_every_kind, (1, 2, 0.5), {"d": 3, "e": 1}),
    (of_every_kind, (1, 2, 0.5, 7, 8), {"d": 3, "z": 1, "a": 2}),
    (Bound().method, (1,), {}),
    (Bound().method, (1, 2, 3), {"scale": 4, "it": 5}),
    (Bound.of_class, (1,), {}),
    (Bound.of_class, (1,), {"c": 2.5, "b": 1}),
    (Bound(), (1,), {}),
    (Bound(), (1,), {"b": 4}),
]


@pytest.mark.parametrize("at", range(len(CALLS)))
def test_no_call_of_one_graph_makes_a_frame_however_it_gives_its_arguments(at, monkeypatch):
    function, args, kwargs = CALLS[at]
    args = tuple([rl.full((2,), float(value)) if type(value) is int else value for value in args])
    (expected, *others), compiled = function(*args, **kwargs), rl.compile(function)
    for turn in range(3):
        if turn == 2:
            monkeypatch.setattr(driver, "begin", no_frame)
        result, *rest = compiled(*args, **kwargs)
        assert (result.tolist(), rest) == (expected.tolist(), others)


def test_arguments_that_do_not_fit_are_refused_as_python_refuses_them():
    compiled = rl.compile(of_every_kind)
    x = rl.ones(2)
    compiled(x, x, d=1)
    for args, kwargs in [((), {}), ((x, x), {}), ((x, x), {"b": x, "d": 1})]:
        with pytest.raises(TypeError) as expected:
            of_every_kind(*args, **kwargs)
        with pytest.raises(TypeError) as found:
            compiled(*args, **kwargs)
        assert str(found.value) == str(expected.value)


def test_defaults_that_are_replaced_count_from_the_next_call_on():
    def scaled(x, by=2.0, *, plus=1.0):
        return x * by + plus

    compiled = rl.compile(scaled)
    x = rl.ones(1)
    assert [compiled(x).item() for _ in range(3)] == [3.0] * 3
    scaled.__defaults__ = (4.0,)
    assert [compiled(x).item() for _ in range(2)] == [5.0] * 2
    scaled.__kwdefaults__["plus"] = 3.0
    assert compiled(x).item() == 7.0
    scaled.__kwdefaults__ = {"plus": 5.0}
    assert compiled(x).item() == 9.0
    scaled.__defaults__ = None
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'by'"):
        compiled(x)


def test_a_list_of_warnings_may_grow_while_a_call_is_traced():
    def warns(x):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            y = x + 1
            with rl.autocast("cuda"):
                return y * 2, [str(each.message) for each in caught]

    forget_warnings()
    y, caught = rl.compile(warns)(rl.ones(2))
    assert y.tolist() == [4.0, 4.0] and len(caught) == 1 and "there is none" in caught[0]


def test_an_object_that_says_it_is_of_another_class_is_not_taken_for_one():
    class Scaling:
        def __init__(self, scale):
            self.scale = scale

        def apply(self, x):
            return x * self.scale

    class Pretending:
        __class__ = Scaling  # as of a mock with a specification

        def __init__(self, scale):
            self.scale = scale

        def apply(self, x):
            return x + 100

    compiled = rl.compile(lambda x, by: by.apply(x))
    for _ in range(2):
        assert compiled(rl.ones(1), Scaling(2.0)).item() == 2.0
        assert compiled(rl.ones(1), Pretending(7.0)).item() == 101.0


def test_a_sequence_is_not_asked_about_its_items_where_one_is_told_by_its_place():
    class Unequal:
        def __eq__(self, other):
            raise AssertionError

        __hash__ = None

    def takes(x, one):
        turned, row = collections.deque([(one, 1), (one, 2)]), [one]
        turned.rotate(1)
        row.insert(0, 5)
        return x + 1, turned.pop()[1], row.pop(0), row.pop() is one

    compiled, one = rl.compile(takes, fullgraph=True), Unequal()
    for _ in range(2):
        y, *rest = compiled(rl.ones(1), one)
        assert y.item() == 2.0 and rest == [1, 5, True]


class Batch(typing.NamedTuple):
    """What a replay buffer gives."""

    seen: typing.Any
    done: typing.Any
    scale: float = 1.0

    @property
    def going(self):
        return 1 - self.done


class Step(collections.namedtuple("Step", "seen done")):
    __slots__ = ()

    def __new__(cls, seen, done=None):
        return super().__new__(cls, seen, seen * 0 if done is None else done)


def of_batch(batch, *more):
    with rl.no_grad():
        seen, *_ = batch
        target = seen.sum() + len(batch) * batch[1]
    for other in more:
        target = target + other.seen.mean() * (isinstance(other, Batch) + 1)
    return batch, batch._replace(done=target), getattr(batch, "going", None), {"more": more}


@pytest.mark.parametrize("whole", [True, False], ids=["whole", "parts"])
def test_one_graph_serves_named_tuples_of_one_class(whole):
    def made(kind, size):
        return kind(rl.rand(size), rl.rand(1))

    compiled = rl.compile(of_batch, fullgraph=whole)
    compiled(made(Batch, 3), made(Step, 4))
    compiled(made(Batch, 5), made(Step, 4))
    before = rl.compiler.graph_count()
    for size in (6, 9, 12):
        args = made(Batch, size), made(Step, 4)
        batch, changed, going, kept = compiled(*args)
        expected = of_batch(*args)
        assert (type(batch), type(changed), type(kept["more"][0])) == (Batch, Batch, Step)
        assert batch.seen is args[0].seen and kept["more"][0].done is args[1].done
        assert batch is args[0]
        assert rl.equal(changed.done, expected[1].done) and changed.scale == 1.0
        assert rl.equal(going, expected[2])
    assert rl.compiler.graph_count() == before
    swapped = made(Step, 3), made(Batch, 4)
    assert rl.equal(compiled(*swapped)[1].done, of_batch(*swapped)[1].done)
    assert rl.compiler.graph_count() == before + 1


def test_a_named_tuple_that_says_what_it_holds_is_asked():
    class Turned(collections.namedtuple("Turned", "one other")):
        __slots__ = ()

        def __getitem__(self, at):
            return super().__getitem__(1 - at)

    compiled = rl.compile(lambda pair: pair[0] - pair.one, fullgraph=False)
    for _ in range(2):
        assert compiled(Turned(rl.tensor(1.0), rl.tensor(3.0))).item() == 2.0


def test_attributes_of_a_named_tuple_are_its_own():
    class Noted(collections.namedtuple("Noted", "one other")):
        pass

    def note(pair):
        pair.sum = pair.one + pair.other
        return pair.sum * 2

    compiled = rl.compile(note, fullgraph=False)
    for _ in range(2):
        pair = Noted(rl.tensor(1.0), rl.tensor(3.0))
        assert compiled(pair).item() == 8.0 and pair.sum.item() == 4.0


class Schedule:
    """Has a tensor and a number that changes, as schedules of rates have."""

    __rushlight_state__ = "runtime"

    def __init__(self, rates: rl.Tensor) -> None:
        self.rates, self.steps = rates, 0

    def step(self) -> None:
        self.steps += 1


@pytest.mark.parametrize("turns", [1, 2, 3, 6])
def test_state_of_an_object_in_a_list_that_a_function_refers_to(turns: int) -> None:
    def function(turns: int) -> int:
        held = [Schedule(rl.ones(3))]

        def between() -> None:
            held[-1].step()

        print(end="")
        for _ in range(turns):
            rl.ones(3).sum().item()
            between()
        return held[-1].steps

    assert rl.compile(function, backend="eager")(turns) == turns


def test_a_schedule_in_a_list_takes_each_step() -> None:
    def function(turns: int) -> tuple[int, float]:
        optimizer = rl.optim.SGD([rl.nn.Parameter(rl.ones(3))], lr=1.0, momentum=0.9)
        held = [rl.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=20)]

        def between() -> None:
            held[-1].step()

        run = rl.compile(lambda x: x.sum(), backend="eager")
        for turn in range(turns):
            run(rl.tensor(np.full(3, turn))).item()
            between()
        return held[-1].last_epoch, optimizer.param_groups[0]["lr"]

    assert rl.compile(function, backend="eager")(8) == function(8)


def test_texts_of_each_turn_that_a_graph_only_carries_make_no_further_graphs() -> None:
    def named(names: list[str], x: typing.Any) -> tuple[list[str], typing.Any]:
        found: list[str] = []
        for name in names:
            x = x + 1
            print(end="")  # ends a graph
            x = x * 2
            print(end="")
            found.append(name)
        return found, x

    names = [f"name {number}" for number in range(20)]
    before = rl.compiler.graph_count()
    found, y = rl.compile(named, backend="eager")(names, rl.ones(2))
    assert found == names
    assert y.tolist() == named(names, rl.ones(2))[1].tolist()
    assert rl.compiler.graph_count() - before < 20


def test_bytes_of_each_turn_make_no_further_graphs() -> None:
    def bits(x: typing.Any) -> bytes:
        return (x * 2).contiguous().numpy().tobytes()

    def equal(pairs: list[typing.Any]) -> list[bool]:
        return [bits(one) == bits(other) for one, other in pairs]

    pairs = [(rl.rand(3), rl.rand(3)) for _ in range(20)] + [(rl.ones(3), rl.ones(3))]
    before = rl.compiler.graph_count()
    assert rl.compile(equal, backend="eager")(pairs) == [False] * 20 + [True]
    assert rl.compiler.graph_count() - before < 20


def test_texts_that_a_graph_looks_at_are_guarded() -> None:
    def scaled(mode: str, x: typing.Any, default: str) -> typing.Any:
        y = x + 1
        print(end="")
        if mode == "twice":
            y = y * 2
        elif mode == default:
            y = y * 10
        return y, mode

    modes = ["twice", "once", "tenfold", "none", "".join(["ten", "fold"]), "twice", "once", "tenfold", "more"]
    compiled = rl.compile(scaled, backend="eager")
    for mode in modes * 2:
        (found, same), (wanted, _) = compiled(mode, rl.ones(2), modes[2]), scaled(mode, rl.ones(2), modes[2])
        assert found.tolist() == wanted.tolist() and same == mode


DEFAULT = "tenfold"


class Moded:
    mode = ""


WHICH_TEXT: dict[str, typing.Callable[[str], tuple[typing.Callable[..., typing.Any], tuple[typing.Any, ...]]]] = {
    "two arguments": lambda mode: (lambda x, one, other: x * 10 if one is other else x, (mode, DEFAULT)),
    "an argument and a global": lambda mode: (lambda x, one: x * 10 if one is DEFAULT else x, (mode,)),
    "in a tuple": lambda mode: (lambda x, pair: x * 10 if pair[0] is not DEFAULT else x, ((mode, 1),)),
    "bytes": lambda mode: (lambda x, one, other: x * 10 if one is other else x, (mode.encode(), mode.encode())),
}


@pytest.mark.parametrize("fullgraph", [False, True])
@pytest.mark.parametrize("name", WHICH_TEXT)
def test_which_object_a_text_is_is_asked_at_each_call(name: str, fullgraph: bool) -> None:
    function, _ = WHICH_TEXT[name]("")
    compiled = rl.compile(function, backend="eager", fullgraph=fullgraph)
    for mode in (DEFAULT, "".join(["ten", "fold"]), DEFAULT, "none", "".join(["tenf", "old"]), DEFAULT):
        arguments = rl.ones(1), *WHICH_TEXT[name](mode)[1]
        assert compiled(*arguments).item() == function(*arguments).item()


@pytest.mark.parametrize("fullgraph", [False, True])
def test_which_object_the_text_of_an_attribute_is_is_asked_at_each_call(fullgraph: bool) -> None:
    def scaled(owner: Moded, x: typing.Any) -> typing.Any:
        return x * 10 if owner.mode is DEFAULT else x

    owner, compiled = Moded(), rl.compile(scaled, backend="eager", fullgraph=fullgraph)
    for mode in (DEFAULT, "".join(["ten", "fold"]), DEFAULT, "none"):
        owner.mode = mode
        assert compiled(owner, rl.ones(1)).item() == scaled(owner, rl.ones(1)).item()


def _logged(turns: int, x: typing.Any, log: list[str]) -> typing.Any:
    for turn in range(turns):
        x = x + turn
        log.append(f"turn {turn} of {turns}, half {turn / 2}")
        print(end="")  # ends a graph
        x = x * 0.5
    return x


def _by_name(turns: int, x: typing.Any, log: list[str]) -> typing.Any:
    found = {}
    for turn in range(turns):
        x = x * 0.5 + turn
        print(end="")
        found[f"turn {turn}"] = x + 1
    log.extend(found)
    return sum(found.values())


def _values(turns: int, x: typing.Any, log: list[str]) -> typing.Any:
    found: dict[int, float] = {}
    for turn in range(turns):
        x = x * 0.5 + turn
        print(end="")
        found[turn] = x.sum().item()
    log.append(str(found))
    return x


@pytest.mark.parametrize("function", [_logged, _by_name, _values])
def test_texts_of_counters_and_dicts_that_grow_make_no_graph_for_each_turn(function: typing.Any) -> None:
    log: list[str] = []
    wanted: list[str] = []
    compiled, before = rl.compile(function, backend="eager"), rl.compiler.graph_count()
    assert compiled(40, rl.ones(2), log).tolist() == function(40, rl.ones(2), wanted).tolist()
    assert log == wanted
    assert rl.compiler.graph_count() - before < 20


def test_texts_of_an_argument_that_counts_make_no_graph_for_each_call() -> None:
    def step(x: typing.Any, number: int) -> tuple[typing.Any, str]:
        y = x * 2 + number
        return y, f"step {number}"

    compiled, before = rl.compile(step, backend="eager"), rl.compiler.graph_count()
    for number in range(20):
        (y, text), (wanted, said) = compiled(rl.ones(2), number), step(rl.ones(2), number)
        assert y.tolist() == wanted.tolist() and text == said
    assert rl.compiler.graph_count() - before < 8

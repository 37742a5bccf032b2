"""Objects of the user's classes in functions that are compiled in parts: what is read, what is set, what is guarded."""

import types
import weakref
from collections import OrderedDict, defaultdict, deque
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

import rushlight as rl
from rushlight.capture.values import Constant, Container, flatten_value
from rushlight.eager.symbols import SymBool


@pytest.fixture(autouse=True)
def fresh():
    rl.compiler.reset()


class Config:
    """Numbers, texts, tensors and containers; a property and a method that writes."""

    kind = "relu"

    def __init__(self, scale: float = 2.0) -> None:
        self.scale = scale
        self.weight = rl.arange(3.0) + 1
        self.items: list[Any] = [rl.ones(3), {"k": 2}]
        self.count = 0

    @property
    def double(self) -> float:
        return self.scale * 2

    def step(self, x):
        self.count += 1
        self.last = x * 2
        return x + self.weight * self.scale + self.items[0] * self.items[1]["k"]


def forward(config, x):
    y = config.step(x).relu() if config.kind == "relu" else -x
    return y * config.double + config.count, config


def test_one_graph_serves_objects_of_one_class():
    compiled = rl.compile(forward, fullgraph=False)
    for scale in (2.0, 3.5, 0.25):
        config, other = Config(scale), Config(scale)
        x = rl.arange(3.0) * scale
        result, same = compiled(config, x)
        assert result.equal(forward(other, x)[0]) and same is config
        assert config.count == 1 and config.last.equal(other.last)
    assert rl.compiler.graph_count() == 1


def test_a_counter_of_an_object_does_not_recompile():
    config, x = Config(), rl.arange(3.0)
    compiled = rl.compile(forward, fullgraph=False)
    for turn in range(5):
        compiled(config, x)
        assert config.count == turn + 1
    assert rl.compiler.graph_count() == 1


def test_another_class_attribute_or_absence_is_another_graph():
    config, x = Config(), rl.arange(3.0)
    compiled = rl.compile(forward, fullgraph=False)
    compiled(config, x)
    config.kind = "none"  # hides the class's
    assert compiled(config, x)[0].equal(forward(config, x)[0])
    del config.kind
    assert compiled(config, x)[0].equal(forward(Config(), x)[0] + 1)


def test_what_is_not_read_is_not_guarded():
    def scaled(config, x):
        return x * config.scale

    config, x = Config(), rl.arange(3.0)
    compiled = rl.compile(scaled, fullgraph=False)
    compiled(config, x)
    config.note, config.items = object(), None
    assert compiled(config, x).equal(x * 2) and rl.compiler.graph_count() == 1


def test_an_attribute_may_be_deleted():
    def taken(config, x):
        weight = config.weight
        del config.weight
        return weight + x, hasattr(config, "weight")

    compiled = rl.compile(taken, fullgraph=False)
    for _ in range(3):
        config = Config()
        result, has = compiled(config, rl.ones(3))
        assert result.equal(rl.arange(3.0) + 2) and has is False and not hasattr(config, "weight")
    with pytest.raises(AttributeError, match="weight"):
        compiled(config, rl.ones(3))


def test_two_objects_and_one_that_is_passed_twice_are_told_apart():
    def moved(a, b, x):
        a.value = x * 2
        b.value = b.value + 1
        return a.value

    compiled = rl.compile(moved, fullgraph=False)
    for _ in range(3):
        a, b = SimpleNamespace(value=rl.ones(2)), SimpleNamespace(value=rl.zeros(2))
        assert compiled(a, b, rl.ones(2)).equal(rl.full((2,), 2.0)) and b.value.equal(rl.ones(2))
        assert compiled(a, a, rl.ones(2)).equal(rl.full((2,), 3.0))


def test_a_list_that_two_objects_share_is_one():
    def appended(a, b, x):
        a.log.append(x + 1)
        return len(b.log)

    compiled = rl.compile(appended, fullgraph=False)
    for _ in range(3):
        log: list[Any] = []
        assert compiled(SimpleNamespace(log=log), SimpleNamespace(log=log), rl.ones(2)) == 1 and len(log) == 1
        apart = SimpleNamespace(log=[]), SimpleNamespace(log=[])
        assert compiled(*apart, rl.ones(2)) == 0 and len(apart[0].log) == 1


def test_an_object_leads_to_a_module_and_its_gradients():
    class Trainer:
        def __init__(self) -> None:
            self.model = rl.nn.Linear(3, 2)
            self.losses: list[Any] = []

        def loss(self, x):
            loss = self.model(x).square().mean()
            self.losses.append(loss.detach())
            return loss

    trainer = Trainer()
    compiled = rl.compile(lambda trainer, x: trainer.loss(x), fullgraph=False)
    for turn in range(3):
        trainer.model.zero_grad()
        compiled(trainer, rl.ones(4, 3)).backward()
        gradient = trainer.model.weight.grad.clone()
        trainer.model.zero_grad()
        trainer.loss(rl.ones(4, 3)).backward()
        assert gradient.equal(trainer.model.weight.grad) and len(trainer.losses) == 2 * turn + 2


def test_an_error_after_a_write_leaves_the_write():
    def failing(config, x):
        config.last = x * 2
        config.count = 7
        raise ValueError(config.count)

    compiled = rl.compile(failing, fullgraph=False)
    for _ in range(3):
        config = Config()
        with pytest.raises(ValueError, match="7"):
            compiled(config, rl.ones(2))
        assert config.count == 7 and config.last.equal(rl.full((2,), 2.0))


@dataclass
class Result:
    value: object
    name: str = "r"
    more: list[object] = field(default_factory=list)


class Pair(NamedTuple):
    left: Any
    right: int


class Slotted:
    __slots__ = ("kept", "unset")

    def __init__(self, kept: object) -> None:
        self.kept = kept


class Output(OrderedDict[str, Any]):
    """A dict with attributes, as models' outputs are."""


class Doubling(list[Any]):
    def append(self, value):
        super().append(value * 2)


def built(x, broken: bool):
    result, slotted, output = Result(x * 2), Slotted(x.cos()), Output(k=x + 1)
    output.note = result
    result.more.append(result)  # a circle
    doubling = Doubling()
    doubling.append(x)
    ring = deque([x, x + 1, x + 2], maxlen=2)
    table = defaultdict(list, {"a": [x * 5]})
    if broken:
        print("between")
    return result, Pair(x - 1, 3), slotted, output, doubling, ring, table


@pytest.mark.parametrize("broken", [False, True])
def test_new_objects_are_built_at_each_call(broken: bool, capsys: pytest.CaptureFixture[str]):
    compiled = rl.compile(built, fullgraph=False)
    made: list[Any] = []
    for start in (0.0, 4.0, 9.0):
        x = rl.arange(3.0) + start
        result, pair, slotted, output, doubling, ring, table = compiled(x, broken)
        assert type(result) is Result and result.value.equal(x * 2) and result.more[0] is result and result.name == "r"
        assert type(pair) is Pair and pair.left.equal(x - 1) and pair.right == 3
        assert slotted.kept.equal(x.cos()) and not hasattr(slotted, "unset")
        assert type(output) is Output and output["k"].equal(x + 1) and output.note is result
        assert type(doubling) is Doubling and doubling[0].equal(x * 2) and len(doubling) == 1
        assert ring.maxlen == 2 and ring[0].equal(x + 1) and ring[1].equal(x + 2)
        assert table.default_factory is list and table["a"][0].equal(x * 5)
        assert not any(result is other for other in made)
        made.append(result)
    assert capsys.readouterr().out == "between\n" * 3 * broken


def test_a_view_of_an_objects_variables_is_left_to_python():
    def varied(config, x):
        vars(config)["scale"] = 3.0
        return x * config.scale

    compiled = rl.compile(varied, fullgraph=False)
    for _ in range(3):
        assert compiled(Config(), rl.ones(2)).equal(rl.full((2,), 3.0))


RATE = 0
SEEN: dict[str, Any] = {}


class Shared:
    """An object that functions reach through a global."""

    count = 0


SHARED = Shared()
SHARED.count, SHARED.last = 0, None


def with_state(module):
    """A function that writes to a cell, a global, a module, a dict and an object, and what it has written."""
    calls = 0

    def step(x):
        nonlocal calls
        global RATE
        calls += 1
        RATE = RATE + 2
        module.steps += 1
        module.last = module(x)
        SHARED.count += 3
        SHARED.last = x * 2
        SEEN["x"] = x + 1
        return module.last * calls + RATE + SHARED.count

    def written():
        return calls, RATE, module.steps, module.last, SHARED.count, SHARED.last, SEEN["x"]

    return step, written


def test_state_that_a_function_reaches_by_itself_is_written_by_each_call():
    global RATE
    module = rl.nn.Linear(3, 3)
    outcomes: list[Any] = []
    for compiled in (False, True):
        RATE, SHARED.count, SHARED.last, module.steps, module.last = 0, 0, None, 0, None
        SEEN.clear()
        step, written = with_state(module)
        run = rl.compile(step, fullgraph=False) if compiled else step
        outcomes.append([(run(rl.ones(3) * turn), *written()) for turn in range(4)])
    for expected, found in zip(*outcomes, strict=True):
        for left, right in zip(expected, found, strict=True):
            assert left.equal(right) if isinstance(left, rl.Tensor) else (left, type(left)) == (right, type(right))
    assert rl.compiler.graph_count() <= 4


def test_a_new_global_and_an_object_in_state_are_left_to_python(monkeypatch: pytest.MonkeyPatch):
    module = rl.nn.Linear(2, 2)

    def step(x):
        global APPEARED
        APPEARED = x * 2
        module.made = Config()
        module.made.scale = 7.0
        return x + APPEARED

    compiled = rl.compile(step, fullgraph=False)
    for turn in range(3):
        monkeypatch.delitem(step.__globals__, "APPEARED", raising=False)
        x = rl.ones(2) * turn
        assert compiled(x).equal(x * 3) and step.__globals__["APPEARED"].equal(x * 2)
        assert module.made.scale == 7.0


def test_a_tuple_is_handed_out_as_it_is_only_if_all_that_stands_in_it_is():
    def classify(tensor: object) -> int:
        raise AssertionError(tensor)

    plain = (1, ("a", None))
    assert flatten_value(plain, classify) == Constant(plain)
    assert flatten_value((1, SymBool(True)), classify) == Container(tuple, (Constant(1), Constant(True)))


def test_an_object_of_a_graph_dies_with_its_last_reference():
    class Holder:
        pass

    def doubled(holder):
        return holder.x * 2

    compiled = rl.compile(doubled, fullgraph=False)
    for _ in range(2):
        holder = Holder()
        holder.x = rl.ones(2)
        compiled(holder)
        told = weakref.ref(holder)
        del holder
        assert told() is None


def test_a_module_is_made_at_each_call():
    def makes(x):
        y = x * 2
        made = types.ModuleType("made")
        print(end="")
        return y, made

    compiled = rl.compile(makes, fullgraph=False)
    first, second = compiled(rl.ones(2))[1], compiled(rl.ones(2))[1]
    assert first is not second


def test_cells_are_read_and_written_after_a_graph_has_ended():
    def counts(x, start):
        total, factor = start, 2.0

        def add(y):
            nonlocal total
            total = total + y * factor
            return total

        add(x)
        if x.sum() > 0:  # a graph ends here: `add` and its cells were there before the next one
            factor = factor + 1
        add(x)
        return total, add(x), factor

    compiled = rl.compile(counts, fullgraph=False)
    for value in (1.0, 2.0, -1.0, 3.0):
        x, start = rl.full((3,), value), rl.arange(3.0)
        total, result, factor = compiled(x, start)
        expected = counts(x, start)
        assert total.equal(expected[0]) and result.equal(expected[1]) and factor == expected[2]
    assert rl.compiler.graph_count() == 3  # up to the branch, and each arm with all that follows


def test_one_graph_serves_functions_of_one_code():
    def made(weight, bias=1.0, *, scale=2.0):
        held = {"bias": bias}

        def apply(x, bias=bias, *, scale=scale):
            held["calls"] = held.get("calls", 0) + 1
            return x * weight * scale + bias + held["bias"]

        return apply, held

    def call(x, function):
        return function(x) + function(x, bias=3.0)

    compiled = rl.compile(call, fullgraph=False)
    x = rl.arange(3.0)
    for weight, bias, scale in ((rl.ones(3), 1.0, 2.0), (rl.full((3,), 5.0), 0.5, 3.0), (rl.arange(3.0), 7.0, 1.0)):
        function, held = made(weight, bias, scale=scale)
        twin, twins = made(weight, bias, scale=scale)
        assert compiled(x, function).equal(call(x, twin)) and held == twins
    assert rl.compiler.graph_count() == 1
    assert compiled(x, lambda x, bias=0.0: x - bias).tolist() == [-3.0, -1.0, 1.0]  # another code is another graph
    assert rl.compiler.graph_count() == 2


def test_a_counter_in_a_cell_does_not_recompile():
    def counter():
        count = 0

        def step(x):
            nonlocal count
            count += 1
            return x * count

        return step

    def call(x, function):
        return function(x) + 1

    compiled, step, twin = rl.compile(call, fullgraph=False), counter(), counter()
    x = rl.arange(3.0)
    for _ in range(4):
        assert compiled(x, step).equal(call(x, twin))
    assert rl.compiler.graph_count() == 1


def test_an_empty_cell_is_another_graph():
    def late():
        def read(x):
            try:
                return x * factor
            except NameError:
                return x - 1

        def fill(value):
            nonlocal factor
            factor = value

        factor = 0.0
        del factor
        return read, fill

    def call(x, function):
        return function(x)

    compiled, (read, fill) = rl.compile(call, fullgraph=False), late()
    x = rl.arange(3.0)
    assert compiled(x, read).tolist() == [-1.0, 0.0, 1.0]
    fill(3.0)
    assert compiled(x, read).tolist() == [0.0, 3.0, 6.0]
    assert compiled(x, late()[0]).tolist() == [-1.0, 0.0, 1.0]


def test_objects_die_at_their_instruction_between_graphs():
    class Noted:
        def __init__(self, log):
            self.log = log

        def __del__(self):
            self.log.append("dies")

    def drops(x, log):
        noted = Noted(log)
        y = x + 1
        log.append("before")
        del noted
        log.append("after")
        return y * 2

    compiled = rl.compile(drops, fullgraph=False)
    for _ in range(3):
        log: list[str] = []
        assert compiled(rl.ones(2), log).tolist() == [4.0, 4.0]
        assert log == ["before", "dies", "after"]


def test_what_a_tuple_holds_stays_the_object_that_the_function_made():
    def keeps(x, log):
        made = [x + 1]
        log.append((made, 1))
        return made

    compiled, log = rl.compile(keeps, fullgraph=False), []
    for turn in range(3):
        assert compiled(rl.ones(2), log) is log[turn][0]


SCALE = 2
WEIGHT = rl.ones(3)
TABLE = {"a": 1.0}


class Settings:
    def __init__(self) -> None:
        self.rate = 1.0


SETTINGS = Settings()


def reads_globals(x):
    return x * SCALE + WEIGHT * TABLE["a"] + SETTINGS.rate


def test_globals_of_functions_that_are_arguments_are_part_of_the_graph(monkeypatch):
    def call(x, holder):
        return holder.function(x) + 1

    def check():
        x = rl.arange(3.0)
        assert compiled(x, SimpleNamespace(function=reads_globals)).equal(reads_globals(x) + 1)

    compiled = rl.compile(call, fullgraph=False)
    check()
    monkeypatch.setitem(globals(), "SCALE", 3)
    check()
    monkeypatch.setitem(globals(), "WEIGHT", rl.full((3,), 5.0))
    check()
    monkeypatch.setitem(TABLE, "a", 7.0)
    check()
    monkeypatch.setattr(SETTINGS, "rate", 11.0)
    check()


def test_closures_of_functions_in_globals_are_part_of_the_graph():
    def made():
        factors, weight = [1.0], rl.ones(3)

        def scaled(x):
            return x * factors[0] + weight

        def replace(value):
            nonlocal weight
            weight = value

        return scaled, factors, replace

    scaled, factors, replace = made()
    table = {"call": scaled}

    def call(x):
        return table["call"](x)

    compiled, x = rl.compile(call, fullgraph=False), rl.arange(3.0)
    assert compiled(x).equal(scaled(x))
    factors[0] = 4.0
    assert compiled(x).equal(scaled(x))
    replace(rl.full((3,), 9.0))
    assert compiled(x).equal(scaled(x))


def test_a_cell_of_the_function_itself_is_one_with_that_of_its_inner_functions():
    total = 0.0

    def adds(y):
        nonlocal total
        total = total + y
        return total

    def call(x, function):
        nonlocal total
        total = total + 1
        z = function(2.0)
        total = total + z
        return x * total

    compiled, x = rl.compile(call, fullgraph=False), rl.ones(2)
    for _ in range(3):
        total = 1.0
        expected = call(x, adds)
        total = 1.0
        assert compiled(x, adds).equal(expected) and total == 8.0


class Counted:
    count = 1
    table = {"a": 1.0}


def test_attributes_of_classes_are_guarded():
    def call(x):
        return x * Counted.count + Counted().table["a"]

    def counts(x):
        Counted.count += 1
        return x * Counted.count

    compiled, counting, x = rl.compile(call, fullgraph=False), rl.compile(counts, fullgraph=False), rl.ones(2)
    try:
        for count in (1, 5, 6):
            Counted.count = count
            Counted.table["a"] = count + 1.0
            assert compiled(x).tolist() == [2 * count + 1.0] * 2
        assert [counting(x).tolist()[0] for _ in range(3)] == [7.0, 8.0, 9.0] and Counted.count == 9
    finally:
        Counted.count, Counted.table = 1, {"a": 1.0}


@pytest.mark.parametrize("fullgraph", [True, False])
def test_an_attribute_that_was_deleted_is_asked_for(fullgraph: bool):
    def call(x, config):
        del config.scale
        config.new = x + 1
        del config.new
        absent = hasattr(config, "scale"), hasattr(config, "new"), getattr(config, "scale", 3.0)
        config.scale = x * 3
        return config.scale + absent[2], absent

    compiled, x = rl.compile(call, fullgraph=fullgraph), rl.ones(3)
    for scale in (2.0, 4.0):
        ours, theirs = Config(scale), Config(scale)
        assert str(compiled(x, ours)) == str(call(x, theirs))
        assert str(vars(ours)) == str(vars(theirs))

"""Programs that hold other state at each call, or call what computes nothing, make no graphs without end, nor none."""

import itertools
import warnings
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pytest

import rushlight as rl
from rushlight import nn
from rushlight.support import events

NUMBERS = [1.0 + number / 64 for number in range(64)]
CALLS = 40
SETTLED = 30


class Simulator:
    """What a program asks for its next state: it breaks more often than a function has places."""

    def __init__(self) -> None:
        self.state = [0.5, 0.0]
        self.seen = deque[float](maxlen=4)
        self.draws = itertools.cycle([0.25, 0.5, 0.125])

    def step(self, action: int) -> tuple[list[float], float]:
        for _ in range(4):
            self._check(action)
        position, speed = self.state
        speed += 0.125 * action - next(self.draws) / 4
        self.state = [position + speed / 4, speed]
        return self.state, -abs(position)

    def _check(self, action: int) -> None:
        self.seen.append(next(self.draws))
        self.seen.append(next(self.draws))
        self.seen.append(next(self.draws))
        self.seen.append(next(self.draws))
        self.seen.append(next(self.draws))
        self.seen.append(next(self.draws))
        self.seen.append(next(self.draws))
        self.seen.append(next(self.draws))
        self.seen.append(next(self.draws))
        self.seen.append(next(self.draws))
        self.seen.append(next(self.draws))
        self.seen.append(next(self.draws))
        self.seen.append(next(self.draws))
        self.seen.append(next(self.draws))
        self.seen.append(next(self.draws))
        self.seen.append(next(self.draws))
        self.seen.append(next(self.draws))
        self.seen.append(next(self.draws))
        self.seen.append(next(self.draws))
        self.seen.append(next(self.draws))
        self.seen.append(next(self.draws))
        self.seen.append(next(self.draws))
        self.seen.append(next(self.draws))
        self.seen.append(next(self.draws))


def episode() -> Callable[[], Any]:
    rl.manual_seed(0)
    net, simulator = rl.nn.Linear(2, 2), Simulator()
    optimizer = rl.optim.SGD(net.parameters(), lr=0.1)

    def program() -> float:
        state, total = simulator.state, 0.0
        for _ in range(5):
            out = net(rl.tensor(state)).softmax(-1)
            state, reward = simulator.step(int(out[1].item() > 0.5))
            loss = out[0] * -reward
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
        return total

    return program


class Policy(rl.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = rl.nn.Parameter(rl.ones(3))
        self.rewards: list[float] = []
        self.kept: list[rl.Tensor] = []


def returns_of_an_episode() -> Callable[[], Any]:
    policy, lengths = Policy(), itertools.count(2)

    def program() -> tuple[float, int]:
        total, found = 0.0, []
        for reward in policy.rewards[::-1]:
            total = reward + 0.5 * total
            found.append(total)
        losses = [-kept * value for kept, value in zip(policy.kept, rl.tensor(found), strict=True)]
        loss = rl.stack(losses).sum() * policy.weight.sum()
        del policy.rewards[:]
        del policy.kept[:]
        return loss.item(), len(found)

    def call(program: Callable[[], Any] = program) -> Any:
        for turn in range(next(lengths)):
            policy.rewards.append(turn / 2)
            policy.kept.append(rl.tensor(1.0 + turn))
        return program()

    call.program = program
    return call


def another_in_an_attribute(make: Callable[[int], Any], use: Callable[[Any], Any]) -> Callable[[], Any]:
    class Holder:
        pass

    holder, count, weight = Holder(), itertools.count(1), rl.ones(3)

    def program() -> rl.Tensor:
        y = weight * 2
        return y.sum() + use(holder.held)

    def call(program: Callable[[], Any] = program) -> Any:
        holder.held = make(next(count))
        return program().tolist()

    call.program = program
    return call


HELD = {
    "list": (lambda n: [1.0 * n, 2.0], lambda held: held[0]),
    "longer list": (lambda n: [0.5] * n, lambda held: held[-1] * len(held)),
    "dict": (lambda n: {"a": n}, lambda held: held["a"]),
    "text": (lambda n: "x" * n, len),
    "tuple": (lambda n: (n, [n]), lambda held: held[1][0]),
}


@pytest.mark.parametrize("kind", HELD)
def test_another_object_in_an_attribute_at_each_call_makes_no_graphs_without_end(kind: str) -> None:
    _settles(lambda: another_in_an_attribute(*HELD[kind]))


class Batch(NamedTuple):
    """What a buffer of steps gives."""

    seen: rl.Tensor
    rewards: rl.Tensor


class Record:
    """An object of tensors, as each call makes one."""

    def __init__(self, seen: rl.Tensor, rewards: rl.Tensor) -> None:
        self.seen, self.rewards = seen, rewards


batch: Any = None
OF_TENSORS = {
    "named tuple": (Batch, lambda held: (held.seen, held.rewards)),
    "tuple": (lambda *parts: parts, lambda held: (held[0], held[1])),
    "list": (lambda *parts: [*parts], lambda held: (held[0], held[1])),
    "dict": (lambda *parts: dict(zip("ab", parts, strict=True)), lambda held: (held["a"], held["b"])),
    "object": (Record, lambda held: (held.seen, held.rewards)),
}


@pytest.mark.parametrize("makes", ["the caller", "the function"])
@pytest.mark.parametrize("kind", OF_TENSORS)
def test_tensors_that_each_call_finds_in_another_global_make_no_graphs_without_end(kind: str, makes: str) -> None:
    make, parts = OF_TENSORS[kind]
    log: list[None] = []

    def new(turn: int) -> None:
        global batch
        batch = make(rl.ones(3) * turn, rl.ones(3))

    def program(turn: int) -> rl.Tensor:
        if makes == "the function":
            new(turn)
            log.append(None)
        seen, rewards = parts(batch)
        kept = seen * 2
        log.append(None)
        return (kept * rewards).sum() + batch[0].sum() if isinstance(batch, tuple) else (kept * rewards).sum()

    rl.compiler.reset()
    compiled = rl.compile(program)
    counts: list[int] = []
    for turn in range(50):
        if makes == "the caller":
            new(turn)
        found = compiled(turn).item()
        assert found == program(turn).item()
        counts.append(rl.compiler.graph_count())
    assert counts[SETTLED] == counts[-1]


def test_lists_of_another_length_at_each_call_make_no_graphs_without_end() -> None:
    _settles(returns_of_an_episode)


def _settles(make: Callable[[], Callable[..., Any]]) -> None:
    rl.compiler.reset()
    eager, call = make(), make()
    compiled = rl.compile(call.program)
    counts: list[int] = []
    events.reset()
    for _ in range(CALLS):
        assert call(compiled) == eager()
        counts.append(rl.compiler.graph_count())
    assert counts[SETTLED] == counts[-1]
    assert any(event.code == "B026" for event in events.events("graph_break"))


def test_what_computes_nothing_takes_no_places() -> None:
    rl.compiler.reset()
    eager, compiled = episode(), rl.compile(episode())
    counts: list[int] = []
    events.reset()
    for _ in range(12):
        assert compiled() == eager()
        counts.append(rl.compiler.graph_count())
    assert 1 < counts[-1] == counts[8]
    assert any(event.code == "B025" for event in events.events("graph_break"))


def test_what_computes_behind_many_breaks_stays_in_graphs() -> None:
    draws = itertools.count()

    def helper(x: rl.Tensor) -> rl.Tensor:
        next(draws)
        next(draws)
        next(draws)
        next(draws)
        next(draws)
        next(draws)
        next(draws)
        next(draws)
        next(draws)
        next(draws)
        next(draws)
        next(draws)
        return x * 2

    def program(x: rl.Tensor) -> rl.Tensor:
        return helper(x) + 1

    compiled = rl.compile(program)
    events.reset()
    for call in range(5):
        assert compiled(rl.ones(2) * call).tolist() == [2.0 * call + 1] * 2
    assert next(draws) == 60
    assert rl.compiler.graph_count() == 1
    assert not any(event.code == "B025" for event in events.events("graph_break"))


class Scaled(nn.Module):
    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = factor

    def forward(self, x: rl.Tensor) -> rl.Tensor:
        return x * self.factor if self.training else x


MODULES: dict[str, list[Callable[[], nn.Module]]] = {
    "loss": [lambda: nn.MSELoss(), lambda: nn.MSELoss(reduction="sum"), lambda: nn.SmoothL1Loss(beta=0.5)],
    "beta": [lambda: nn.SmoothL1Loss(beta=0.5), lambda: nn.SmoothL1Loss(beta=0.25), lambda: nn.HuberLoss()],
    "activation": [lambda: nn.Softplus(2), lambda: nn.LeakyReLU(0.5), lambda: nn.Dropout(0.5).eval()],
    "program": [lambda: Scaled(2.0), lambda: Scaled(3.0).eval(), lambda: Scaled(4.0)],
}


@pytest.mark.parametrize("kind", MODULES)
def test_modules_without_tensors_that_each_call_makes_are_compared_by_what_they_hold(kind: str) -> None:
    def function(make: Callable[[], nn.Module], x: rl.Tensor) -> tuple[rl.Tensor, nn.Module]:
        module = make()
        print(end="")
        given = (x, x / 2) if "Loss" in type(module).__name__ else (x,)
        y = module(*given)
        print(end="")
        return y + module(*given), module

    compiled = rl.compile(function, backend="eager")
    seen: list[nn.Module] = []
    before = -1
    for step in range(12):
        make, x = MODULES[kind][step % 3], rl.arange(step % 2 + 2) - 0.5
        (got, module), (expected, like) = compiled(make, x), function(make, x)
        assert got.tolist() == expected.tolist()
        assert vars(module) == vars(like)
        assert type(module) is type(like)
        assert not any(module is other for other in seen)
        seen.append(module)
        if step == 5:
            before = rl.compiler.graph_count()
    assert rl.compiler.graph_count() == before


def test_zeros_that_a_module_holds_have_signs_and_nan_is_one_number() -> None:
    def function(slope: float, x: rl.Tensor) -> rl.Tensor:
        module = nn.LeakyReLU(slope)
        print(end="")
        return 1 / module(x)

    compiled, made = rl.compile(function, backend="eager"), list[int]()
    for slope in (0.0, -0.0, float("nan")):
        for _ in range(3):
            x, before = rl.full((1,), -1.0), rl.compiler.graph_count()
            assert str(compiled(slope, x)) == str(function(slope, x))
            made.append(rl.compiler.graph_count() - before)
    assert not any(made[2::3])


def test_methods_of_c_that_wait_for_their_arguments_make_no_graphs_without_end() -> None:
    def function(x: rl.Tensor) -> str:
        return "{} {}".format(len(str(print(end=""))), x.sum().item())

    compiled = rl.compile(function, backend="eager")
    made: list[int] = []
    for _ in range(6):
        before = rl.compiler.graph_count()
        assert compiled(rl.ones(2)) == "4 2.0"
        made.append(rl.compiler.graph_count() - before)
    assert made[0] and not any(made[2:])


def test_modules_with_tensors_behind_a_break_are_part_of_a_graph() -> None:
    class Holding(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("table", rl.arange(3.0))
            self.scales = {"first": rl.full((3,), 2.0)}

        def forward(self, x: rl.Tensor) -> rl.Tensor:
            return x * self.table + self.scales["first"]

    def function(module: nn.Module, x: rl.Tensor) -> rl.Tensor:
        print(end="")
        return module(x)

    compiled, before, module = rl.compile(function, backend="eager"), rl.compiler.graph_count(), Holding()
    for _ in range(3):
        assert compiled(module, rl.ones(3)).tolist() == [2, 3, 4]
    assert rl.compiler.graph_count() == before + 1


def test_a_loop_over_named_tensors_that_ends_a_graph_at_each_turn_settles():
    @rl.compile(backend="eager")
    def norms(held):
        found = {}
        for name, value in held.items():
            found[name] = (value * 2).sum().item()
        return found

    held = {f"p{number}": rl.full((2,), float(number)) for number in range(24)}
    for _ in range(3):
        assert norms(held) == {f"p{number}": 4.0 * number for number in range(24)}
    before = rl.compiler.graph_count()
    assert norms({name: value + 1 for name, value in held.items()})["p3"] == 16.0
    norms(held)
    assert rl.compiler.graph_count() == before


SCHEDULES: list[Callable[[Any], Any]] = [
    lambda optimizer: rl.optim.lr_scheduler.StepLR(optimizer, 3),
    lambda optimizer: rl.optim.lr_scheduler.MultiStepLR(optimizer, [3, 5, 5]),
    lambda optimizer: rl.optim.lr_scheduler.ExponentialLR(optimizer, 0.5),
    lambda optimizer: rl.optim.lr_scheduler.LinearLR(optimizer),
    lambda optimizer: rl.optim.lr_scheduler.ConstantLR(optimizer),
    lambda optimizer: rl.optim.lr_scheduler.PolynomialLR(optimizer, 20),
    lambda optimizer: rl.optim.lr_scheduler.LambdaLR(optimizer, lambda epoch: 1 / (1 + epoch)),
]


@pytest.mark.parametrize("make", SCHEDULES)
@pytest.mark.parametrize("fullgraph", [True, False])
def test_a_schedule_that_steps_in_a_graph_makes_no_graphs_without_end(
    make: Callable[[Any], Any], fullgraph: bool
) -> None:
    def steps(compiled: bool) -> list[tuple[float, float, int]]:
        rl.compiler.reset()
        weight = rl.ones(2, requires_grad=True)
        optimizer = rl.optim.SGD([weight], 0.5)
        schedule = make(optimizer)

        def step(x: rl.Tensor) -> rl.Tensor:
            optimizer.zero_grad()
            loss = (weight * x).square().sum()
            loss.backward()
            optimizer.step()
            schedule.step()
            return loss

        call = rl.compile(step, fullgraph=fullgraph) if compiled else step
        return [(call(rl.ones(2)).item(), schedule.get_last_lr()[0], rl.compiler.graph_count()) for _ in range(12)]

    eager, compiled = steps(False), steps(True)
    assert [each[:2] for each in eager] == [each[:2] for each in compiled]
    assert compiled[6][2] == compiled[-1][2] <= 6


class Rated(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.rates = [1.0]
        self.other = [0]

    def forward(self, x: rl.Tensor) -> rl.Tensor:
        return x * self.rates[0]


def test_one_graph_looks_at_a_list_that_is_another_at_each_call() -> None:
    module = Rated()
    compiled = rl.compile(module, fullgraph=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for call in range(12):
            module.rates, module.other = [float(call)], [call]
            assert compiled(rl.ones(2)).tolist() == [float(call)] * 2


class Counter:
    """What counts turns, in an attribute or a slot."""

    shared = 0

    def __init__(self) -> None:
        self.turn: Any = 0


class SlottedCounter:
    """What counts turns in a slot."""

    __slots__ = ("turn",)


counted: Any = 0
Taken = Callable[[Any, Any], Any]


def in_a_variable(taken: Taken, x: Any, turns: int) -> Any:
    for turn in range(turns):
        print(end="")
        x = taken(x, turn) * 0.5
    return x


def in_a_cell(taken: Taken, x: Any, turns: int) -> Any:
    for turn in range(turns):
        print(end="")
        (x,) = [taken(x, turn) * 0.5 for _ in range(1)]
    return x


def in_an_attribute(taken: Taken, x: Any, turns: int, kind: type = Counter) -> Any:
    counter = kind()
    for turn in range(turns):
        counter.turn = turn
        print(end="")
        x = taken(x, counter.turn) * 0.5
    return x


def in_a_slot(taken: Taken, x: Any, turns: int) -> Any:
    return in_an_attribute(taken, x, turns, SlottedCounter)


def in_an_item(taken: Taken, x: Any, turns: int) -> Any:
    held: list[Any] = [0, 1]
    for turn in range(turns):
        held[0] = turn
        print(end="")
        x = taken(x, held[0]) * 0.5
    return x


def in_a_class(taken: Taken, x: Any, turns: int) -> Any:
    for turn in range(turns):
        Counter.shared = turn
        print(end="")
        x = taken(x, Counter.shared) * 0.5
    return x


def in_a_global(taken: Taken, x: Any, turns: int) -> Any:
    global counted
    for turn in range(turns):
        counted = turn
        print(end="")
        x = taken(x, counted) * 0.5
    return x


def of_numpy(taken: Taken, x: Any, turns: int) -> Any:
    for turn in np.arange(turns):
        print(end="")
        x = taken(x, turn) * 0.5
    return x


TAKEN: dict[str, Taken] = {
    "index": lambda x, at: x * NUMBERS[at],
    "range": lambda x, at: x + len([0 for _ in range(at)]),
    "text": lambda x, at: x * len(f"{at}"),
    "half": lambda x, at: x * 2 if at / 2 < 3.25 else x,
}
COUNTING = [in_a_variable, in_a_cell, in_an_attribute, in_a_slot, in_an_item, in_a_class, in_a_global, of_numpy]


@pytest.mark.parametrize("taken", TAKEN)
@pytest.mark.parametrize("counting", COUNTING)
def test_a_counter_that_graphs_rely_on_makes_few_graphs(counting: Callable[..., Any], taken: str) -> None:
    _makes_few(partial(counting, TAKEN[taken]))


def _makes_few(program: Callable[[Any, int], Any]) -> None:
    rl.compiler.reset()
    compiled = rl.compile(lambda x, turns: program(x, turns), backend="eager")
    assert compiled(rl.ones(2), 20).tolist() == program(rl.ones(2), 20).tolist()
    made = rl.compiler.graph_count()
    assert compiled(rl.ones(2), 40).tolist() == program(rl.ones(2), 40).tolist()
    assert rl.compiler.graph_count() <= made + 3 <= 30


OF_SIZES: dict[str, Callable[[Any], Any]] = {
    "index": lambda x: x * NUMBERS[x.shape[0]],
    "range": lambda x: x + len([0 for _ in range(x.shape[0])]),
    "rows": lambda x: x + sum([row * 2 for row in x]),
    "text": lambda x: x * len(f"{x.shape}"),
    "list": lambda x: x * len(x.tolist()),
    "split": lambda x: rl.cat(x.split(1)),
    "key": lambda x: x * {size: size for size in range(64)}[x.shape[0]],
}


@pytest.mark.parametrize("use", OF_SIZES)
def test_a_size_that_graphs_fix_makes_few_graphs(use: str) -> None:
    def program(x: Any, turns: int) -> Any:
        for _ in range(turns):
            print(end="")
            x = OF_SIZES[use](x) / 2
            print(end="")
            x = rl.cat([x, x[:1]])
        return x

    _makes_few(program)


CHANGING: dict[str, tuple[Callable[[int], Any], Taken]] = {
    "dict": (lambda turn: {f"k{at}": at for at in range(turn + 1)}, lambda x, held: x + len(held)),
    "list": (lambda turn: [1] * (turn + 1), lambda x, held: x * held[-1] + len(held)),
    "tensors": (lambda turn: [rl.ones(2)] * (turn + 1), lambda x, held: x * sum(held)),
    "tuple": (lambda turn: (1,) * (turn + 1), lambda x, held: x * held[-1] + len(held)),
    "text": (lambda turn: "x" * (turn + 1), lambda x, held: x * len(held)),
    "nested": (lambda turn: {"a": [1] * (turn + 1)}, lambda x, held: x * len(held["a"])),
}


@pytest.mark.parametrize("kind", CHANGING)
def test_an_attribute_that_holds_another_container_at_each_turn_makes_few_graphs(kind: str) -> None:
    make, use = CHANGING[kind]

    def program(x: Any, turns: int) -> Any:
        counter = Counter()
        for turn in range(turns):
            counter.turn = make(turn)
            print(end="")
            x = use(x, counter.turn) * 0.5
            print(end="")
        return x

    _makes_few(program)


def test_dicts_in_a_list_that_grow_make_few_graphs() -> None:
    def program(x: Any, turns: int) -> Any:
        held: list[dict[str, list[Any]]] = [{} for _ in range(4)]
        for turn in range(turns):
            x = x * 0.5
            held[turn % 4].setdefault(f"{turn}", []).append(x.sum().item())
        return x

    _makes_few(program)

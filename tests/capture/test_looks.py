"""Lists, dicts and sets that a trace does not look into are guarded to be the same object, whatever they hold."""

import functools
import operator
from collections import defaultdict, deque
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

import rushlight as rl

WEIGHT = rl.ones(4)
CALLS = 20
GLOBAL: list[Any] = []


class Recording(rl.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.history: list[float] = []
        self.weight = rl.nn.Parameter(rl.ones(4))

    def forward(self, x: rl.Tensor) -> rl.Tensor:
        loss = (x * self.weight).sum()
        self.history.append(loss.item())
        return loss * 2


class Own(list):
    pass


class Pair(NamedTuple):
    log: list[int]
    size: int = 1


def closure(log: Any, grow: Callable[[Any, rl.Tensor], object]) -> Callable[[rl.Tensor], rl.Tensor]:
    def program(x: rl.Tensor) -> rl.Tensor:
        loss = (x * WEIGHT).sum()
        grow(log, loss)
        return loss * 2

    return program


def plain() -> tuple[Any, Any]:
    log: list[int] = []

    def program(x):
        loss = (x * WEIGHT).sum()
        log.append(1)
        return loss * 2

    return program, log


def value() -> tuple[Any, Any]:
    log: list[float] = []

    def program(x):
        loss = (x * WEIGHT).sum()
        log.append(loss.item())
        return loss * 2

    return program, log


def text() -> tuple[Any, Any]:
    log: list[str] = []

    def program(x):
        loss = (x * WEIGHT).sum()
        log.append(f"{loss.item():.3f}")
        return loss * 2

    return program, log


def tensors() -> tuple[Any, Any]:
    log: list[rl.Tensor] = []

    def program(x):
        loss = (x * WEIGHT).sum()
        log.append(loss)
        return loss * 2

    return program, log


def number() -> tuple[Any, Any]:
    log: list[float] = []

    def program(x):
        loss = (x * WEIGHT).sum()
        log.append(float(loss))  # which fails at a tensor without data, in front of a list on the stack
        return loss * 2

    return program, log


def of_globals() -> tuple[Any, Any]:
    GLOBAL.clear()

    def program(x):
        loss = (x * WEIGHT).sum()
        GLOBAL.append(1)
        return loss * 2

    return program, GLOBAL


def of_module() -> tuple[Any, Any]:
    model = Recording()
    return model, model.history


def of_object() -> tuple[Any, Any]:
    owner = SimpleNamespace(history=[])

    def program(x):
        loss = (x * WEIGHT).sum()
        owner.history.append(loss.item())
        return loss * 2

    return program, owner.history


class Hiding(Recording):
    def __init__(self) -> None:
        super().__init__()
        self._history: list[float] = []

    def forward(self, x: rl.Tensor) -> rl.Tensor:
        loss = (x * self.weight).sum()
        self._history.append(loss.item())
        return loss * 2


def of_module_by_private_name() -> tuple[Any, Any]:
    model = Hiding()
    return model, model._history


def by_interpreted_function() -> tuple[Any, Any]:
    log: list[int] = []

    def record(where, *, value):
        where.append(value)

    def program(x):
        loss = (x * WEIGHT).sum()
        record(log, value=1)
        return loss * 2

    return program, log


def within_dict() -> tuple[Any, Any]:
    stats: dict[str, list[int]] = defaultdict(list)

    def program(x):
        loss = (x * WEIGHT).sum()
        stats["loss"].append(1)
        return loss * 2

    return program, stats


def in_turns() -> tuple[Any, Any]:
    log: list[int] = []

    def program(x):
        for _ in range(3):
            x = x * WEIGHT
            log.append(1)
        return x

    return program, log


def behind_break() -> tuple[Any, Any]:
    log: list[int] = []

    def program(x):
        loss = (x * WEIGHT).sum()
        print(end="")
        log.append(1)
        print(end="")
        return loss * 2

    return program, log


def by_local_name() -> tuple[Any, Any]:
    log: list[int] = []

    def program(x):
        mine = log
        add = mine.append if mine is not None else None
        loss = (x * WEIGHT).sum()
        add(1)
        return loss * 2

    return program, log


GROWING = [plain, value, text, tensors, number, of_globals, of_module, of_module_by_private_name, of_object]
GROWING += [by_interpreted_function, within_dict, in_turns, behind_break, by_local_name]
GROWING += [
    lambda kind=kind, name=name: (lambda log: (closure(log, lambda log, loss: getattr(log, name)(loss.item())), log))(
        kind()
    )
    for kind, name in [(deque, "append"), (deque, "appendleft"), (set, "add"), (Own, "append")]
]


def inputs() -> list[rl.Tensor]:
    return [rl.arange(4.0) + call for call in range(CALLS)]


@pytest.mark.parametrize("make", GROWING)
def test_a_container_that_only_grows_makes_no_graph(make: Callable[[], tuple[Any, Any]]) -> None:
    program, held = make()
    expected = [program(x).tolist() for x in inputs()], [*held.items()] if isinstance(held, dict) else [*held]
    program, held = make()
    compiled = rl.compile(program)
    results = [compiled(x).tolist() for x in inputs()[:5]]
    graphs = rl.compiler.graph_count()
    results += [compiled(x).tolist() for x in inputs()[5:]]
    assert (results, [*held.items()] if isinstance(held, dict) else [*held]) == expected
    assert rl.compiler.graph_count() == graphs


READERS: dict[str, Callable[[Any], Any]] = {
    "length": len,
    "last": lambda log: log[-1],
    "slice": lambda log: sum(log[1:]),
    "iteration": lambda log: sum([value * 2 for value in log]),
    "comprehension": lambda log: [value + 1 for value in log][-1],
    "truth": lambda log: 1 if log else 2,
    "negation": lambda log: 1 if not log else 2,
    "membership": lambda log: 1 if 3 in log else 2,
    "comparison": lambda log: 1 if log == [1, 2] else 2,
    "sum": sum,
    "sorted": lambda log: sorted(log)[0],
    "unpacking": lambda log: [*log][-1],
    "star": lambda log: max(*log, 0, 1),
    "first": lambda log: (lambda first, *rest: first + len(rest))(*log),
    "tuple": lambda log: tuple(log)[-1],
    "in a tuple": lambda log: len((log, log)[0]),
    "in a list": lambda log: sum([each[-1] for each in [log, log]]),
    "compared in a tuple": lambda log: 1 if (log, 1) == ([1, 2], 1) else 2,
    "text": lambda log: len(str(log)),
    "format": lambda log: len(f"{log}"),
    "method": lambda log: log.count(3),
    "index": lambda log: log.index(3) if 3 in log else -1,
    "copy": lambda log: len(log.copy()),
    "iterator": lambda log: next(iter(log)),
    "reversed": lambda log: next(reversed(log)),
    "zip": lambda log: sum(a * b for a, b in zip(log, log, strict=True)),
    "map": lambda log: sum(map(int, log)),
    "key": lambda log: max([log], key=len)[-1],
    "default": lambda log: (lambda held=log: len(held))(),
    "closure": lambda log: (lambda: log[-1])(),
    "partial": lambda log: functools.partial(len, log)(),
    "getter": lambda log: operator.itemgetter(-1)(log),
    "length hint": operator.length_hint,
    "dunder": lambda log: log.__len__(),
    "class": lambda log: list.__len__(log),
    "keywords": lambda log: len(dict(zip(["held"], [log], strict=True))["held"]),
    "locals": lambda log: len(locals()["log"]),
    "attribute": lambda log: len(vars(SimpleNamespace(log=log))["log"]),
    "object": lambda log: len(SimpleNamespace(log=log).log),
    "text of an object": lambda log: len(repr(SimpleNamespace(log=log))),
    "text of a named tuple": lambda log: len(str(Pair(log))),
    "named tuple": lambda log: 1 if Pair(log) == ([1, 2], 1) else 2,
    "size": lambda log: rl.ones(len(log)).sum(),
    "raised": lambda log: caught(log),
    "matched": lambda log: matched(log),
    "walrus": lambda log: (held := log) and held[0],
    "or": lambda log: (log or [5])[0],
    "generator": lambda log: sum(value for value in log),
    "yielded": lambda log: len(next(yields(log))),
    "after an append": lambda log: (log.append(9), len(log))[1],
}


def caught(log: list[int]) -> int:
    try:
        return log[2]
    except IndexError:
        return -1


def matched(log: list[int]) -> int:
    match log:
        case [first, second]:
            return first * second
        case [first, *_]:
            return first
    return 0


def yields(log: list[int]):
    yield log


def changes(log: list[int], call: int) -> None:
    """What happens to a list between calls."""
    if call in (1, 4):
        log.append(3)
    elif call == 2:
        log[0] = 7
    elif call == 3:
        log.clear()
        log.extend([5, 6])


def reading(read: Callable[[Any], Any], log: list[int]) -> Callable[[rl.Tensor], rl.Tensor]:
    def program(x):
        return x * 2 + read(log)

    return program


def outcomes(read: Callable[[Any], Any], way: Callable[[Any], Any]) -> list[tuple[Any, list[int]]]:
    """What calls give while the list changes between them, and what it holds then."""
    log = [1, 2]
    program = way(reading(read, log))
    found = []
    for call in range(5):
        changes(log, call)
        found.append((program(rl.arange(3.0)).tolist(), [*log]))
    return found


@pytest.mark.parametrize("name", READERS)
def test_a_container_that_is_read_is_guarded(name: str) -> None:
    assert outcomes(READERS[name], rl.compile) == outcomes(READERS[name], lambda program: program)


@pytest.mark.parametrize("name", READERS)
def test_a_container_that_one_graph_reads_is_guarded(name: str) -> None:
    read = READERS[name]
    assert outcomes(read, rl.compile(fullgraph=True)) == outcomes(read, lambda program: program)


class Lists(rl.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scales = [1.0]
        self.blocks = rl.nn.ModuleList([rl.nn.Linear(3, 3)])

    def forward(self, x: rl.Tensor) -> rl.Tensor:
        add = self.scales.append
        if len(self.scales) == 40:
            add(1.0)
        for block in self.blocks:
            x = block(x)
        return x * self.scales[-1]


def test_lists_of_modules_are_guarded_where_they_are_read() -> None:
    model = Lists()
    compiled = rl.compile(model)
    for scale in (1.0, 2.0, 3.0):
        model.scales.append(scale)
        model.blocks.append(rl.nn.Linear(3, 3))
        assert compiled(rl.ones(2, 3)).tolist() == model(rl.ones(2, 3)).tolist()


def test_another_list_in_the_place_of_one_that_grows_is_the_one_that_grows() -> None:
    log: list[int] = []

    def program(x):
        log.append(1)
        return x * 2

    compiled = rl.compile(program)
    compiled(rl.ones(3))
    first = log
    log = []
    compiled(rl.ones(3))
    compiled(rl.ones(3))
    assert (first, log) == ([1], [1, 1])


def test_a_list_that_grows_and_is_an_argument_is_one_list() -> None:
    log: list[int] = []

    def program(x, held):
        log.append(1)
        held.append(2)
        return x * (len(held) + len(log))

    compiled = rl.compile(program)
    assert [compiled(rl.ones(1), log).tolist() for _ in range(4)] == [[4.0], [8.0], [12.0], [16.0]]
    assert log == [1, 2] * 4
    other: list[int] = []
    assert [compiled(rl.ones(1), other).tolist() for _ in range(2)] == [[10.0], [12.0]]
    assert (log, other) == ([1, 2] * 4 + [1, 1], [2, 2])


def test_a_function_of_the_trace_sees_what_its_list_holds() -> None:
    log: list[int] = []

    def hook(gradient):
        return gradient * len(log)

    def program(x):
        y = x * 2
        y.register_hook(hook)
        y.sum().backward()
        log.append(1)
        return y.detach()

    compiled = rl.compile(program)
    found = []
    for _ in range(4):
        x = rl.ones(2, requires_grad=True)
        compiled(x)
        found.append(x.grad.tolist())
    assert found == [[2.0 * count] * 2 for count in range(4)]


@pytest.mark.parametrize("way", [rl.compile, rl.compile(fullgraph=True)])
def test_what_holds_a_list_since_before_the_call_is_looked_through(way: Callable[[Any], Any]) -> None:
    log = [1]
    pair, size, part = Pair(log), log.__len__, functools.partial(len, log)

    def program(x):
        return x + len(str(pair)) + 10 * size() + 100 * part()

    compiled = way(program)
    for call in range(1, 5):
        assert compiled(rl.zeros(1)).tolist() == [len(str(pair)) + 110.0 * call]
        log.append(1)


def last_twice(x: rl.Tensor, log: list[rl.Tensor]) -> Any:
    return x * 2 + log[-1]


def is_last(x: rl.Tensor, log: list[rl.Tensor]) -> Any:
    return x * 2 if log[-1] is x else x * 3


def is_in(x: rl.Tensor, log: list[rl.Tensor]) -> Any:
    return x * 2 if any(held is x for held in log) else x * 3


def writes_last(x: rl.Tensor, log: list[rl.Tensor]) -> Any:
    log[-1].add_(1)
    return x * 2


def writes_itself(x: rl.Tensor, log: list[rl.Tensor]) -> Any:
    x.add_(1)
    return log[-1] * 2


def behind_an_append(x: rl.Tensor, log: list[rl.Tensor]) -> Any:
    y = x * 1
    log.append(y)
    y.add_(1)
    return log[-1] * 2, log[-1] is y


SHARING = [(program, False) for program in (last_twice, is_last, is_in, writes_last, writes_itself, behind_an_append)]
SHARING += [(program, True) for program in (last_twice, writes_last, writes_itself)]  # which one graph can hold


@pytest.mark.parametrize(("program", "fullgraph"), SHARING)
@pytest.mark.parametrize("own", [False, True])
def test_an_argument_that_stands_in_a_list_too_is_one_tensor(program, fullgraph, own) -> None:
    found = []
    for way in (lambda program: program, rl.compile(fullgraph=fullgraph)):
        log: list[rl.Tensor] = []
        call = way(lambda x, log=log: program(x, log))
        for count in range(4):
            x = rl.ones(3) * count
            log.append(x if own else rl.zeros(3))
            result = call(x)
            found.append((str(result), x.tolist(), [held.tolist() for held in log]))
    assert found[:4] == found[4:]

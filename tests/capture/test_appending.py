"""What a graph appends to a list that was there before: tensors, what holds them, and lists of modules."""

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

import rushlight as rl

CALLS = 20


class Held:
    def __init__(self, value: rl.Tensor) -> None:
        self.value = value


KEPT_IN: dict[str, tuple[Callable[[rl.Tensor], Any], Callable[[Any], rl.Tensor]]] = {
    "tuple": (lambda y: (1, y), lambda kept: kept[1]),
    "named tuple": (lambda y: Step(1, y), lambda kept: kept.value),
    "tuple in a list": (lambda y: [1, (y,)], lambda kept: kept[1][0]),
    "dict": (lambda y: {"y": y}, lambda kept: kept["y"]),
    "object": (Held, lambda kept: kept.value),
    "tuple in an object": (lambda y: Held((y,)), lambda kept: kept.value[0]),
}
"""What holds a tensor that a program puts into a list, and how it is taken out again."""


class Step(NamedTuple):
    count: int
    value: rl.Tensor


@pytest.mark.parametrize("kind", KEPT_IN)
def test_what_holds_a_new_tensor_makes_no_graph_where_a_list_gets_it(kind: str) -> None:
    hold, _ = KEPT_IN[kind]
    memory: list[Any] = []

    def program(x):
        y = x * 2
        memory.append(hold(y))
        return y.sum().item()

    compiled = rl.compile(program)
    counts = [(compiled(rl.ones(3) * call), rl.compiler.graph_count())[1] for call in range(CALLS)]
    assert counts[3] == counts[-1]
    assert len(memory) == CALLS


@pytest.mark.parametrize("kind", KEPT_IN)
def test_a_tensor_that_what_a_list_got_holds_is_the_same_one(kind: str) -> None:
    hold, take = KEPT_IN[kind]
    found = []
    for way in (lambda program: program, rl.compile):
        memory: list[Any] = []

        def program(x, memory=memory):
            y = x * 2
            memory.append(hold(y))
            before = y.sum().item()
            take(memory[-1]).add_(1)
            return before, y * 1, take(memory[-1]) is y

        call = way(program)
        found.append([str(call(rl.ones(3) * count)) for count in range(4)])
    assert found[0] == found[1]


class Keeping(rl.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.history: list[rl.Tensor] = []

    def forward(self, x: rl.Tensor) -> rl.Tensor:
        self.history.append(x.sum())
        return x * 2


def appends_in_turns(x, log):
    for factor in range(3):
        log.append(x * factor)
    return x


def appends_and_sets(x, log):
    log.append(x)
    log.append(x)
    log[0] = x * 5
    return len(log)


def appends_what_is_written_to(x, log):
    y = x * 1
    log.append(y)
    y.add_(3)
    return y, log[-1] is y


def appends_views_and_tuples(x, log):
    y = x.view(-1)[1:]
    log.append((y, x.shape[0], "text"))
    return y * 2


def appends_itself_and_what_values_tell(x, log):
    log.append(x)
    log.append(x[x > 1])
    return x * x.sum().item()


def appends_a_part(x, log):
    part = []
    log.append(x * 2)
    part.append(log[-1])
    return part


def appends_by_other_names(x, log):
    append = log.append
    append(x * 2)
    list.append(log, x)
    return x


def appends_in_a_handler(x, log):
    try:
        log.append(x + 1)
        raise ValueError
    except ValueError:
        log.append(x + 2)
    return x


def takes_away(x, log):
    log.append(x * 2)
    log.append(x)
    log.pop()
    return x


def texts(value: Any) -> Any:
    return [texts(part) for part in value] if isinstance(value, (list, tuple)) else str(value)


APPENDING = [appends_in_turns, appends_and_sets, appends_what_is_written_to, appends_views_and_tuples, appends_a_part]
APPENDING += [appends_itself_and_what_values_tell, appends_by_other_names, appends_in_a_handler, takes_away]


@pytest.mark.parametrize(
    ("program", "fullgraph"),
    [(program, fullgraph) for program in APPENDING for fullgraph in (False, True)],
)
def test_what_a_graph_appends_is_what_python_appends(program, fullgraph) -> None:
    found = []
    for way in (lambda program: program, rl.compile(fullgraph=fullgraph)):
        log: list[Any] = []
        call = way(lambda x, log=log: program(x, log))
        for count in range(5):
            result = call(rl.ones(3) * count)
            found.append((texts(result), texts(log), len({id(held) for held in log})))
    assert found[:5] == found[5:]


def test_appending_to_a_list_of_a_module_is_one_graph() -> None:
    module = Keeping()
    rl.compiler.reset()
    compiled = rl.compile(module, fullgraph=True)
    for count in range(12):
        compiled(rl.ones(3) * count)
    assert [held.item() for held in module.history] == [3.0 * count for count in range(12)]
    assert rl.compiler.graph_count() == 1


OF_ITEMS: dict[str, Callable[[Any], object]] = {
    "bool": lambda y: y.item() > 1,
    "float": lambda y: y.item() + 1,
    "complex": lambda y: y.item() * 2j,
    "in a tuple": lambda y: (1, y.item() > 1),
}


@pytest.mark.parametrize("kind", OF_ITEMS)
@pytest.mark.parametrize("fullgraph", [True, False])
def test_numbers_that_a_graph_puts_into_lists_and_attributes_keep_their_class(kind: str, fullgraph: bool) -> None:
    make = OF_ITEMS[kind]

    def program(x, module, log):
        module.kept = make(x.sum())
        log.append(make(x.mean()))
        return x * 2

    found = []
    for run in (program, rl.compile(program, fullgraph=fullgraph)):
        module, log = rl.nn.Identity(), []
        for call in range(2):
            run(rl.ones(3) * call, module, log)
            found.append((type(module.kept), module.kept, [*map(type, log)], [*log]))
    assert repr(found[:2]) == repr(found[2:])

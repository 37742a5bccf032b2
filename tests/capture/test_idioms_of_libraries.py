"""What libraries of models do in their forward passes: compiled, it is one graph, and none more at later calls."""

from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from functools import reduce
from itertools import chain, islice

import numpy as np
import pytest

import rushlight as rl
from rushlight import data, nn

CALLS = 4


def counted(function: Callable[..., object], *args: object) -> int:
    """How many graphs some calls make, whose results are those of the function."""
    compiled = rl.compile(function)
    first = rl.compiler.graph_count()
    for _ in range(CALLS):
        np.testing.assert_array_equal(compiled(*args).detach().numpy(), function(*args).detach().numpy())
    return rl.compiler.graph_count() - first


class View(Sequence[int]):
    """Numbers that are made when they are asked for."""

    def __init__(self, count: int) -> None:
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> int:
        if index >= self.count:
            raise IndexError(index)
        return index * 10


ITERATED: dict[str, Callable[[View], object]] = {
    "all": all,
    "any": any,
    "chain": lambda view: sum(chain(view, view)),
    "enumerate": lambda view: sum(index * value for index, value in enumerate(view)),
    "filter": lambda view: len(list(filter(None, view))),
    "islice": lambda view: sum(islice(view, 1, 3)),
    "list": lambda view: len(list(view)),
    "map": lambda view: sum(map(int, view)),
    "max": max,
    "max_by_key": lambda view: max(view, key=lambda value: -value),
    "max_of_two": lambda view: max(len(view), 2),
    "reduce": lambda view: reduce(lambda one, other: one + other, view),
    "set": lambda view: len(set(view)),
    "sorted": lambda view: sorted(view, reverse=True)[0],
    "sum": sum,
    "sum_from": lambda view: sum(view, 5),
    "tuple": lambda view: tuple(view)[1],
    "zip": lambda view: sum(a * b for a, b in zip([1, 2, 3], view, strict=False)),
    "zip_of_both": lambda view: len(list(zip(view, view, strict=True))),
}


@pytest.mark.parametrize("name", ITERATED)
def test_iterables_of_the_program_are_interpreted_where_c_takes_their_values(name: str):
    take = ITERATED[name]
    assert counted(lambda x: x + take(View(4)), rl.ones(3)) == 1


def test_an_iterable_whose_end_does_something_breaks_the_graph():
    log: list[str] = []

    class Source:
        def __iter__(self) -> Iterator[int]:
            try:
                yield 1
                yield 2
            except (GeneratorExit, ValueError):
                log.append("left")
                raise

    def function(x: rl.Tensor) -> rl.Tensor:
        return x * next(a + b for a, b in zip([1], Source(), strict=False))

    compiled = rl.compile(function)
    for calls in range(1, CALLS):
        assert compiled(rl.ones(2)).tolist() == [2, 2]
        assert log == ["left"] * calls


class Collector:
    def __init__(self) -> None:
        self.held: dict[str, list[rl.Tensor]] | None = None
        self.on = False


_COLLECTOR = Collector()


def _collect(x: rl.Tensor) -> rl.Tensor:
    if _COLLECTOR.on and _COLLECTOR.held is not None:
        _COLLECTOR.held["all"].append(x)
    return x * 2


def test_an_attribute_of_the_state_holds_new_objects_for_a_while():
    def function(x: rl.Tensor) -> rl.Tensor:
        collected: dict[str, list[rl.Tensor]] = {"all": []}
        _COLLECTOR.held, _COLLECTOR.on = collected, True
        y = _collect(_collect(x))
        _COLLECTOR.held, _COLLECTOR.on = None, False
        return y + sum(collected["all"])

    assert counted(function, rl.ones(3)) == 1
    assert rl.compile(function, fullgraph=True)(rl.ones(3)).tolist() == [7] * 3
    assert _COLLECTOR.held is None and not _COLLECTOR.on


def test_what_an_attribute_of_the_state_keeps_is_that_of_each_call():
    def function(x: rl.Tensor) -> rl.Tensor:
        _COLLECTOR.held = {"all": [x * 2]}
        return x + 1

    compiled = rl.compile(function)
    for step in range(CALLS):
        assert compiled(rl.full((2,), float(step))).tolist() == [step + 1] * 2
        assert _COLLECTOR.held is not None
        assert _COLLECTOR.held["all"][0].tolist() == [step * 2] * 2
    _COLLECTOR.held = None
    with pytest.raises(rl.CompileError, match="a Collector changes that was there"):
        rl.compile(function, fullgraph=True)(rl.ones(2))
    assert _COLLECTOR.held is None


@pytest.mark.parametrize("shuffle", [False, True])
def test_iterators_of_loaders_draw_once_where_a_function_makes_them(*, shuffle: bool):
    numbers = data.TensorDataset(rl.arange(100))

    def function() -> tuple[list[int], float]:
        rl.manual_seed(3)
        batches = iter(data.DataLoader(numbers, shuffle=shuffle, batch_size=4))
        first = next(batches)[0] * 2
        return [*first.tolist(), *next(batches)[0].tolist()], rl.rand(1).item()

    compiled = rl.compile(function, backend="eager")
    for _ in range(CALLS):
        assert compiled() == function()


class Cache:
    """Values of layers, of which it tells as a container."""

    def __init__(self) -> None:
        self.layers: list[rl.Tensor] = []

    def __len__(self) -> int:
        return len(self.layers)

    def __iter__(self) -> Iterator[rl.Tensor]:
        yield from self.layers

    def __getitem__(self, index: int) -> rl.Tensor:
        return self.layers[index]


class Output(OrderedDict[str, object]):
    """A dict whose entries are its attributes, but for those that are None."""

    def __setattr__(self, name: str, value: object) -> None:
        if value is not None and name in {field.name for field in fields(self)}:
            super().__setitem__(name, value)
        super().__setattr__(name, value)

    def __setitem__(self, key: str, value: object) -> None:
        super().__setitem__(key, value)
        super().__setattr__(key, value)

    def __getitem__(self, key: str | int) -> object:
        return dict(self.items())[key] if isinstance(key, str) else tuple(self[name] for name in self)[key]


@dataclass
class CachedOutput(Output):
    last: rl.Tensor | None = None
    cache: Cache | None = None
    hidden: tuple[rl.Tensor, ...] | None = None


def test_dicts_with_attributes_are_results_of_a_graph():
    def layer(x: rl.Tensor) -> CachedOutput:
        cache = Cache()
        cache.layers += [x * 2, x + len(cache)]
        return CachedOutput(last=x + len(cache), cache=cache)

    def function(x: rl.Tensor) -> CachedOutput:
        out = layer(x)
        return CachedOutput(last=out[0] * 2 + out.last + out["last"], cache=out.cache)

    compiled = rl.compile(function)
    first = rl.compiler.graph_count()
    for _ in range(CALLS):
        ours, theirs = compiled(rl.ones(3)), function(rl.ones(3))
        assert list(ours) == list(theirs) == ["last", "cache"]
        assert ours.last.tolist() == theirs.last.tolist()
        assert ours["cache"] is ours.cache and ours.hidden is None
        assert [value.tolist() for value in ours.cache] == [value.tolist() for value in theirs.cache]
    assert rl.compiler.graph_count() - first == 1


class Slices(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(3, 3) for _ in range(3)])

    def forward(self, x: rl.Tensor) -> rl.Tensor:
        for layer in self.layers[:2]:
            x = layer(x).relu()
        return x


def test_parts_of_lists_of_modules_are_made_in_a_graph():
    module = Slices()
    assert counted(module, rl.ones(2, 3)) == 1
    compiled = rl.compile(module)
    compiled(rl.ones(2, 3))
    module.layers[1] = nn.Linear(3, 3)
    np.testing.assert_array_equal(compiled(rl.ones(2, 3)).detach().numpy(), module(rl.ones(2, 3)).detach().numpy())


def test_names_that_do_not_exist_are_handled_in_a_graph():
    def function(x: rl.Tensor) -> rl.Tensor:
        try:
            found = isinstance(x, rl.nothing_of_this_name)
        except AttributeError:
            found = False
        return x + found + hasattr(rl, "nothing_of_this_name")

    assert counted(function, rl.ones(3)) == 1


def test_a_compiled_function_is_compiling_between_graphs_too():
    seen: list[bool] = []

    def function(x: rl.Tensor) -> rl.Tensor:
        y = x * 2
        seen.append(rl.compiler.is_compiling())
        print("", end="")
        seen.append(rl.compiler.is_compiling())
        return y + float(y.sum())

    compiled = rl.compile(function)
    for _ in range(CALLS):
        compiled(rl.ones(2))
    assert len(seen) == 2 * CALLS and all(seen)
    function(rl.ones(2))
    assert seen[-2:] == [False, False] and not rl.compiler.is_compiling()


def test_a_tensor_is_written_at_places_that_the_graph_computes():
    def function(x: rl.Tensor) -> rl.Tensor:
        order = x.sort().indices
        inverse = rl.empty_like(order)
        inverse[order] = rl.arange(order.size(0))
        x = x.clone()
        x[order[:2]], x[x > 0.5] = 2.0, -1.0
        return x[inverse]

    assert counted(function, rl.tensor([0.25, 0.75, 0.5, 0.625])) == 1


class Doubling:
    def __init__(self, by: float = 2.0) -> None:
        self.by = by

    def __call__(self, x: rl.Tensor) -> rl.Tensor:
        return x * self.by


class Makers(OrderedDict[str, object]):
    """Gives a new object of the class that it holds."""

    def __getitem__(self, key: str) -> object:
        held = super().__getitem__(key)
        made, kwargs = held if isinstance(held, tuple) else (held, {})
        return made(**kwargs)


class Numbers(list[int]):
    def __getitem__(self, index: int) -> int:
        return super().__getitem__(index) + 100

    def __iter__(self) -> Iterator[int]:
        return iter([value + 100 for value in list.__iter__(self)])


_MAKERS = Makers(double=Doubling, triple=(Doubling, {"by": 3.0}))
_MAKERS.move_to_end("double")
_NUMBERS = Numbers([1, 2])


def test_containers_that_give_other_things_than_they_hold_stay_as_they_are():
    def function(x: rl.Tensor) -> rl.Tensor:
        return _MAKERS["double"](x) + _MAKERS["triple"](x) + _NUMBERS[0] + sum(_NUMBERS)

    def failing(x: rl.Tensor) -> rl.Tensor:
        y = function(x)
        return y if float(y.sum()) > 0 else x

    for program in (function, failing):
        compiled = rl.compile(program)
        for _ in range(CALLS):
            assert compiled(rl.ones(2)).tolist() == program(rl.ones(2)).tolist() == [309.0, 309.0]
        assert list(OrderedDict.items(_MAKERS)) == [("triple", (Doubling, {"by": 3.0})), ("double", Doubling)]
        assert list.__eq__(_NUMBERS, [1, 2])
    first = rl.compiler.graph_count()
    _MAKERS["double"] = (Doubling, {"by": 5.0})
    assert rl.compile(function)(rl.ones(2)).tolist() == [312.0, 312.0]
    _MAKERS["double"] = Doubling
    assert rl.compiler.graph_count() == first + 1


class Layer(ABC):
    @abstractmethod
    def update(self, x: rl.Tensor) -> rl.Tensor: ...


class Growing(Layer):
    def __init__(self) -> None:
        self.values: rl.Tensor | None = None

    def update(self, x: rl.Tensor) -> rl.Tensor:
        self.values = x if self.values is None else rl.cat([self.values, x])
        return self.values


def test_objects_among_the_arguments_are_asked_whether_they_are_of_an_abstract_class():
    def function(x: rl.Tensor, layers: list[object]) -> rl.Tensor:
        for layer in layers:
            if isinstance(layer, Layer):
                x = layer.update(x)
        return x * (1 if issubclass(type(layers[0]), Layer) else 0)

    compiled = rl.compile(function)
    assert not rl.compiler.explain(compiled)(rl.ones(2), [Growing(), 1]).breaks
    first = rl.compiler.graph_count()
    for _ in range(CALLS):
        ours, theirs = [Growing(), 1], [Growing(), 1]
        for step in range(3):
            given = rl.full((2,), float(step))
            assert compiled(given, ours).tolist() == function(given, theirs).tolist()
    assert rl.compiler.graph_count() - first <= 2


def test_classes_are_allowed_in_graphs_as_they_are():
    @rl.compiler.allow_in_graph
    class Scale(nn.Module):
        def forward(self, x: rl.Tensor) -> rl.Tensor:
            return x * 3

    assert isinstance(Scale, type) and (Scale | int)
    assert counted(Scale(), rl.ones(2)) == 1

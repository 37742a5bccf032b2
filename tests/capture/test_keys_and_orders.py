"""Sizes as keys, the order of dicts, and attributes of classes: what of them a graph depends on is guarded."""

from __future__ import annotations

import abc
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest

import rushlight as rl
from rushlight import nn

TABLE = {2: 10.0, (2, 3): 20.0, 3: 30.0, frozenset({2}): 40.0}
BY_SHAPE = {rl.Size([2, 3]): 5.0}


class Pair(NamedTuple):
    """Two sizes, which are equal to a tuple."""

    rows: int
    columns: int


@pytest.fixture(autouse=True)
def _fresh():
    rl.compiler.reset()


def discarded(x: rl.Tensor) -> rl.Tensor:
    sizes = {2, 3}
    sizes.discard(x.shape[0])
    return x * len(sizes)


LOOKED_UP: dict[str, Callable[[rl.Tensor], rl.Tensor]] = {
    "in a dict": lambda x: x + 1 if x.shape[0] in TABLE else x - 1,
    "in a set": lambda x: x + 1 if x.shape[0] in {2, 5} else x - 1,
    "get": lambda x: x * TABLE.get(x.shape[0], 3),
    "get of a tuple": lambda x: x * TABLE.get(tuple(x.shape), 7),
    "get of a named tuple": lambda x: x * TABLE.get(Pair(*x.shape), 7),
    "get of a frozenset": lambda x: x * TABLE.get(frozenset([x.shape[0]]), 7),
    "get of a shape": lambda x: x * BY_SHAPE.get(x.shape, 9),
    "shape in": lambda x: x + 1 if x.shape in BY_SHAPE else x - 1,
    "new dict": lambda x: x * {x.shape[0]: 4, 2: 5}[x.shape[0]],
    "new set": lambda x: x * len({x.shape[0], 2, 3}),
    "set": lambda x: x * len(set(x.shape)),
    "union": lambda x: x * len({2, 3} | set(x.shape)),
    "Counter": lambda x: x * Counter([*x.shape, 2])[2],
    "dict": lambda x: x * dict(zip(x.shape, [3, 4], strict=True)).get(2, 0),
    "fromkeys": lambda x: x * dict.fromkeys(x.shape, 3).get(2, 0),
    "setdefault": lambda x: x * {2: 3}.setdefault(x.shape[0], 8),
    "pop": lambda x: x * {2: 3}.pop(x.shape[0], 8),
    "comprehension": lambda x: x * {size: size + 1 for size in x.shape}.get(2, 0),
    "discard": discarded,
    "numel": lambda x: x + 1 if x.numel() in {6} else x - 1,
    "computed": lambda x: x + 1 if x.shape[0] % 2 in {0: 1} else x - 1,
}


@pytest.mark.parametrize("fullgraph", [True, False])
@pytest.mark.parametrize("name", LOOKED_UP)
def test_sizes_are_found_among_numbers(name: str, fullgraph: bool):
    function = LOOKED_UP[name]
    compiled = rl.compile(function, backend="eager", fullgraph=fullgraph, dynamic=True)
    for shape in ((2, 3), (4, 3), (3, 2), (5, 5), (2, 3)):
        x = rl.ones(*shape)
        assert compiled(x).equal(function(x)), shape


@pytest.mark.parametrize("fullgraph", [True, False])
def test_keys_that_a_function_stores_are_numbers(fullgraph: bool):
    kept: dict[object, object] = {}

    def function(x: rl.Tensor, given: dict[object, object]) -> tuple[rl.Tensor, dict[object, int]]:
        for cache in (given, kept):
            if x.shape not in cache:
                cache[x.shape] = x
                cache[x.shape[0]] = 1
                cache[(x.shape[1], "a")] = x
        return x + given[x.shape], {x.shape[0]: 1, x.shape: 2, (x.shape[1], "b"): 3}

    compiled = rl.compile(function, backend="eager", fullgraph=fullgraph)
    seen: list[str] = []
    for call in (function, compiled):
        kept.clear()
        cache: dict[object, object] = {}
        results = [call(rl.full((rows, 3), float(fill)), cache) for fill, rows in enumerate([2, 2, 4, 2], 1)]
        kinds = [type(part) for key in (*cache, *kept) for part in (key if isinstance(key, tuple) else (key,))]
        seen.append(f"{results} {cache} {kept} {kinds}")
    assert seen[0] == seen[1]


class Ordered(nn.Module):
    """Parameters, modules and plain dicts that a function walks through."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Parameter(rl.ones(1)), nn.Parameter(rl.ones(1) * 2)
        self.first, self.second = nn.Identity(), nn.ReLU()
        self.register_buffer("u", rl.ones(1))
        self.register_buffer("v", rl.ones(1) * 5)
        self.tensors = {"p": rl.ones(1), "q": rl.ones(1) * 7}
        self.numbers = {"x": 1.0, "y": 2.0}

    def dicts(self) -> list[Any]:
        return [self._parameters, self._buffers, self._modules, self.tensors, self.numbers]


def weighted(x: rl.Tensor, values: Iterator[Any]) -> rl.Tensor:
    for place, value in enumerate(values):
        x = x + value * (place + 1)
    return x


WALKS: dict[str, Callable[[Ordered, rl.Tensor], rl.Tensor]] = {
    "parameters": lambda m, x: weighted(x, m.parameters()),
    "buffers": lambda m, x: weighted(x, m.buffers()),
    "modules": lambda m, x: x * (1 if type(next(m.children())) is nn.ReLU else 2),
    "tensors": lambda m, x: weighted(x, iter(m.tensors.values())),
    "numbers": lambda m, x: weighted(x, iter(m.numbers.values())),
    "first key": lambda m, x: x * (1 if next(iter(m.numbers)) == "x" else 2),
}


class Keeping(dict[str, int]):
    """A dict of the program's."""


@pytest.mark.parametrize("fullgraph", [True, False])
@pytest.mark.parametrize("kind", [dict, Keeping, Counter, OrderedDict])
def test_another_order_of_a_dict_of_any_class_is_another_graph(kind: Any, fullgraph: bool):
    held = kind(a=1, b=2, c=3)

    def function(x: rl.Tensor) -> rl.Tensor:
        for place, name in enumerate(held):
            x = x + ord(name) * 200**place
        return x

    compiled = rl.compile(function, backend="eager", fullgraph=fullgraph)
    for _ in range(3):
        assert compiled(rl.zeros(1)).equal(function(rl.zeros(1)))
        held["a"] = held.pop("a")
        assert compiled(rl.zeros(1)).equal(function(rl.zeros(1)))
        held["b"] = held.pop("b")
    for last in (True, False, True) if kind is OrderedDict else ():
        held.move_to_end("a", last)
        assert compiled(rl.zeros(1)).equal(function(rl.zeros(1)))


@pytest.mark.parametrize("fullgraph", [True, False])
@pytest.mark.parametrize("name", WALKS)
def test_another_order_of_a_dict_is_another_graph(name: str, fullgraph: bool):
    module, walk, x = Ordered(), WALKS[name], rl.ones(1)
    compiled = rl.compile(lambda x: walk(module, x), backend="eager", fullgraph=fullgraph)
    for _ in range(3):
        for entries in module.dicts():
            key = next(iter(entries))
            entries[key] = entries.pop(key)
        assert compiled(x).equal(walk(module, x))
        graphs = rl.compiler.graph_count()
        compiled(x)
        assert rl.compiler.graph_count() == graphs


class Before:
    """A class whose objects are made by an attribute of another one."""

    def scaled(self, x: rl.Tensor) -> rl.Tensor:
        return x


class After(Before):
    def scaled(self, x: rl.Tensor) -> rl.Tensor:
        return x * 9


ATTRIBUTES: dict[str, Callable[[Any, Any, rl.Tensor], Any]] = {
    "value": lambda owner, cls, x: super(cls, owner).value * x,
    "class": lambda owner, cls, x: super(cls, owner).made().scaled(x),
    "method": lambda owner, cls, x: super(cls, owner).method(x),
    "class method": lambda owner, cls, x: super(cls, owner).of_class(x),
    "static method": lambda owner, cls, x: super(cls, owner).static(x),
    "property": lambda owner, cls, x: super(cls, owner).computed * x,
    "absent": lambda owner, cls, x: getattr(super(cls, owner), "absent", 2) * x,
    "class of the object": lambda owner, cls, x: owner.made().scaled(x),
    "class of the class": lambda owner, cls, x: cls.made().scaled(x),
}


def changes(base: Any) -> Iterator[None]:
    base.value = 5
    yield
    base.made = After
    yield
    base.method = lambda self, x: x * 7
    yield
    base.static = staticmethod(lambda x: x * 8)
    yield
    base.of_class = classmethod(lambda cls, x: x * 11)
    yield
    base.computed = property(lambda self: 13)
    yield
    base.absent = 17
    yield


@pytest.mark.parametrize("fullgraph", [True, False])
@pytest.mark.parametrize("metaclass", [type, abc.ABCMeta])
@pytest.mark.parametrize("name", ATTRIBUTES)
def test_attributes_of_bases_are_guarded(name: str, metaclass: type, fullgraph: bool):
    class Base(metaclass=metaclass):
        value, made = 4, Before
        static = staticmethod(lambda x: x * 3)
        computed = property(lambda self: 3)

        @classmethod
        def of_class(cls, x: rl.Tensor) -> rl.Tensor:
            return x * cls.value

        def method(self, x: rl.Tensor) -> rl.Tensor:
            return x * 2

    class Derived(Base):
        pass

    function, owner, x = ATTRIBUTES[name], Derived(), rl.ones(2)
    compiled = rl.compile(function, backend="eager", fullgraph=fullgraph)
    assert compiled(owner, Derived, x).equal(function(owner, Derived, x))
    for change, _ in enumerate(changes(Base)):
        assert compiled(owner, Derived, x).equal(function(owner, Derived, x)), change


@pytest.mark.parametrize("fullgraph", [True, False])
def test_generators_of_modules_are_left_early(fullgraph: bool):
    module = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1))

    def function(x: rl.Tensor) -> rl.Tensor:
        for parameter in module.parameters():
            if parameter.requires_grad:
                break
        return module(x) + rl.ones(1, dtype=next(module.parameters()).dtype) * len(next(module.children()).bias)

    compiled, x = rl.compile(function, backend="eager", fullgraph=fullgraph), rl.ones(2)
    graphs = rl.compiler.graph_count()
    assert compiled(x).equal(function(x)) and compiled(x).equal(function(x))
    assert rl.compiler.graph_count() == graphs + 1


def test_a_setting_that_outlives_the_call_ends_a_graph():
    def function(x: rl.Tensor) -> tuple[rl.Tensor, rl.Tensor]:
        before = x * 2
        rl.set_grad_enabled(False)
        return before, x * 3

    x = rl.ones(2, requires_grad=True)
    with pytest.raises(rl.RushlightError, match="a setting of autograd") as raised:
        rl.compile(function, backend="eager", fullgraph=True)(x)
    assert "B015" in str(raised.value) and rl.is_grad_enabled()
    compiled = rl.compile(function, backend="eager")
    for _ in range(2):
        results = compiled(x)
        enabled = rl.is_grad_enabled()
        rl.set_grad_enabled(True)
        assert not enabled and [result.requires_grad for result in results] == [True, False]


def test_a_scope_that_changes_nothing_is_open_where_a_graph_would_end_in_it():
    @rl.no_grad()
    def halved(x: rl.Tensor) -> rl.Tensor:
        if x.sum() > 4:
            return x / 2
        return x + 1

    def function(x: rl.Tensor) -> rl.Tensor:
        return halved(halved(x) * 2) + 1

    compiled = rl.compile(function, backend="eager")
    for grad in (False, False, True, False):
        with rl.set_grad_enabled(grad):
            for value in (1.0, 4.0):
                x = rl.full((3,), value)
                assert compiled(x).tolist() == function(x).tolist()
                assert rl.is_grad_enabled() is grad


def test_flags_of_a_class_with_a_metaclass_are_read():
    class Both(nn.ModuleDict, metaclass=abc.ABCMeta):
        def __hash__(self) -> int:
            return id(self)

    def function(x: rl.Tensor, cls: type) -> rl.Tensor:
        return x + 1 if cls.__flags__ & (1 << 6) else x - 1

    x = rl.ones(2)
    assert rl.compile(function, backend="eager", fullgraph=True)(x, Both).equal(function(x, Both))


@pytest.mark.parametrize("factory", [list, int, lambda: 3, None])
def test_items_of_a_defaultdict_are_set_and_deleted_in_one_graph(factory: Any):
    def function(x: rl.Tensor, given: defaultdict[str, Any]) -> tuple[Any, defaultdict[str, Any]]:
        own: defaultdict[str, Any] = defaultdict(factory)
        own["a"] = given["a"] = x + 1
        own["c"], given["d"] = 5, x * 2
        del own["c"], given["d"]
        return own["a"] if factory is None else own["b"], given

    compiled = rl.compile(function, backend="eager", fullgraph=True)
    for _ in range(2):
        ours, theirs = (call(rl.ones(2), defaultdict(factory)) for call in (compiled, function))
        assert str(ours) == str(theirs)


@pytest.mark.parametrize("fullgraph", [True, False])
def test_attributes_of_tensors_among_the_arguments_are_guarded(fullgraph: bool):
    def function(x: Any, y: Any) -> rl.Tensor:
        return (x + y) * (getattr(x, "scale", 3) if hasattr(y, "marked") else 5)

    compiled = rl.compile(function, backend="eager", fullgraph=fullgraph)
    for names in ((), (), ("marked",), ("marked", "scale"), ("scale",), ()):
        x, y = rl.ones(2), rl.ones(2)
        if "marked" in names:
            y.marked = True
        if "scale" in names:
            x.scale = len(names) * 7
        assert compiled(x, y).equal(function(x, y)), names


@pytest.mark.parametrize("fullgraph", [True, False])
def test_what_one_tensor_among_the_arguments_lacks_another_may_have(fullgraph: bool):
    def function(x: Any, y: Any) -> rl.Tensor:
        return (x + y) * (7 if hasattr(y, "marked") else 5)

    compiled = rl.compile(function, backend="eager", fullgraph=fullgraph)
    for _ in range(2):
        x, y = rl.ones(2), rl.ones(2)
        x.marked = True
        assert compiled(x, y).equal(function(x, y))

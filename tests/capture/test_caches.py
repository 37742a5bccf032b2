"""Functions whose results `functools` keeps, called with plain values: they are part of a graph, as Python has them."""

from __future__ import annotations

import functools
import gc
import weakref
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

import rushlight as rl

_LOG: list[object] = []
_FACTOR = 1
CALLS = 3


@functools.lru_cache
def _is_there(name: str = "numpy") -> bool:
    _LOG.append(name)
    print(end="")  # which no graph holds
    return name == "numpy"


@functools.cache
def _scaled(first: int, second: float) -> float:
    _LOG.append((first, second))
    return first * second * _FACTOR


@functools.lru_cache(maxsize=1)
def _kept_once(value: int) -> int:
    _LOG.append(value)
    return value + 1


@functools.lru_cache(typed=True)
def _typed(value: float) -> float:
    _LOG.append(value)
    return 1.0 if type(value) is int else 2.0


@functools.cache
def _window(count: int) -> rl.Tensor:
    _LOG.append(("window", count))
    return rl.arange(count) + 1


@functools.lru_cache(1024)
def _split(shape: tuple[int, ...], *, parts: int) -> tuple[list[int], int]:
    _LOG.append((shape, parts))
    return [parts, *[size // parts for size in shape[:1]], *shape[1:]], 1


@functools.cache
def _by_identity(value: object) -> int:
    return len(repr(type(value)))


class Recipe:
    def __init__(self, scale: int) -> None:
        self.scale, self.order = scale, [1, 0]


@functools.lru_cache(256)
def _recipe(pattern: str, *, axes: tuple[str, ...], ndim: int) -> Recipe:
    _LOG.append((pattern, axes, ndim))
    return Recipe(len(axes) + ndim)


class Logger:
    def __init__(self, name: str) -> None:
        self.name = name

    @functools.cache  # noqa: B019 - as programs have it
    def once(self, text: str) -> None:
        _LOG.append((self.name, text))


_LOGGER = Logger("first")


@functools.cache
def _module() -> ModuleType:
    return functools


@functools.cache
def _list(count: int) -> list[int]:
    _LOG.append(["list", count])
    return [count]


def _all() -> list[Any]:
    return [_is_there, _scaled, _kept_once, _typed, _window, _module, _list, _split, _by_identity, Logger.once, _recipe]


def _empty() -> None:
    _LOG.clear()
    for cache in _all():
        cache.cache_clear()


_started = pytest.fixture(autouse=True)(_empty)


FUNCTIONS: dict[str, tuple[bool, Callable[[rl.Tensor], rl.Tensor]]] = {
    "flag": (True, lambda x: x * 2 if _is_there() and not _is_there("nothing") else x),
    "numbers": (True, lambda x: x * _scaled(2, 1.5) + _scaled(2, 1.5) + _scaled(3, 0.5)),
    "tensor": (True, lambda x: x + _window(3).sum() * _window(1)),
    "method": (True, lambda x: x if _LOGGER.once("called") else x * 2),
    "object": (True, lambda x: x * _recipe("a b", axes=("a",), ndim=2).scale + _recipe("a", axes=(), ndim=1).order[0]),
    "module": (True, lambda x: x + len(_module().__name__)),
    "full": (False, lambda x: x + _kept_once(1) + _kept_once(2) + _kept_once(1)),
    "typed": (False, lambda x: x * _typed(1) + _typed(1.0)),
    "list": (True, lambda x: x + _list(2)[0]),
    "size": (True, lambda x: x + _scaled(x.shape[0], 2.0)),
    "sizes": (True, lambda x: x.reshape(_split(tuple(x.shape), parts=2)[0]).sum(_split(x.shape, parts=2)[1])),
    "tensor among the arguments": (False, lambda x: x + _by_identity(x)),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_kept_results_are_those_of_python(name: str):
    is_whole, function = FUNCTIONS[name]
    runs: list[list[object]] = []
    for call in (function, rl.compile(function, backend="eager")):
        _empty()
        runs.append([[call(rl.ones(2)).tolist() for _ in range(CALLS)], _LOG[:]])
    assert runs[0] == runs[1]
    _empty()
    whole = rl.compile(function, fullgraph=True)
    if is_whole:
        before = rl.compiler.graph_count()
        assert [whole(rl.ones(2)).tolist() for _ in range(CALLS)] == runs[0][0]
        assert rl.compiler.graph_count() == before + 1
    else:
        with pytest.raises(rl.CompileError, match="is called"):
            whole(rl.ones(2))


def test_a_cache_that_was_emptied_is_asked_again(monkeypatch: pytest.MonkeyPatch):
    compiled = rl.compile(lambda x: x * _scaled(2, 1.5), fullgraph=True)
    assert compiled(rl.ones(1)).item() == 3
    monkeypatch.setattr(f"{__name__}._FACTOR", 2)
    assert compiled(rl.ones(1)).item() == 3
    _scaled.cache_clear()
    assert compiled(rl.ones(1)).item() == 6


def test_zeros_that_a_cache_gives_have_signs(monkeypatch: pytest.MonkeyPatch):
    compiled = rl.compile(lambda x: x / _scaled(2, 0.0), fullgraph=True)
    assert compiled(rl.ones(1)).item() == float("inf")
    monkeypatch.setattr(f"{__name__}._FACTOR", -1)
    _scaled.cache_clear()
    assert compiled(rl.ones(1)).item() == -float("inf")


def test_a_kept_tensor_is_read_at_each_call():
    compiled = rl.compile(lambda x: x + _window(2), fullgraph=True)
    assert compiled(rl.zeros(2)).tolist() == [1, 2]
    _window(2).mul_(10)
    assert compiled(rl.zeros(2)).tolist() == [10, 20]
    _window.cache_clear()
    assert compiled(rl.zeros(2)).tolist() == [1, 2]


def test_a_cache_is_asked_for_each_object_that_is_an_argument():
    def function(x: rl.Tensor, logger: Logger) -> rl.Tensor:
        logger.once("called")
        return x * len(logger.name)

    compiled = rl.compile(function, backend="eager")
    for name in ("a", "bc", "d", "a"):
        assert compiled(rl.ones(1), Logger(name)).item() == len(name)
    assert _LOG == [("a", "called"), ("bc", "called"), ("d", "called"), ("a", "called")]


def test_an_object_that_is_kept_is_read_at_each_call():
    compiled = rl.compile(lambda x: x * _recipe("a", axes=(), ndim=3).scale, fullgraph=True)
    assert compiled(rl.ones(1)).item() == 3
    _recipe("a", axes=(), ndim=3).scale = 7
    assert compiled(rl.ones(1)).item() == 7
    _recipe.cache_clear()
    assert compiled(rl.ones(1)).item() == 3


@pytest.mark.parametrize("fullgraph", [True, False])
def test_what_a_cache_gave_dies_with_the_cache_and_its_graph(fullgraph: bool):
    compiled = rl.compile(lambda x: x * _recipe("a", axes=(), ndim=3).scale, fullgraph=fullgraph)
    assert compiled(rl.ones(1)).item() == 3
    result = weakref.ref(_recipe("a", axes=(), ndim=3))
    _recipe.cache_clear()
    assert result() is not None  # the graph's guards compare with it
    del compiled
    gc.collect()
    assert result() is None


def test_sizes_are_multiplied_in_place_in_a_graph():
    def function(x: rl.Tensor) -> rl.Tensor:
        count = 1
        for size in x.shape:
            count *= size
        return x.reshape(count)

    compiled, before = rl.compile(function, fullgraph=True), rl.compiler.graph_count()
    for size in (2, 3, 4):
        assert compiled(rl.ones(size, 3, 2)).shape == (size * 6,)
    assert rl.compiler.graph_count() == before + 1


def test_a_list_that_a_cache_gave_is_read_at_each_call():
    def function(x: rl.Tensor) -> rl.Tensor:
        return x.reshape(_split(tuple(x.shape), parts=2)[0])

    for fullgraph in (True, False):
        compiled, x = rl.compile(function, fullgraph=fullgraph), rl.arange(4)
        assert compiled(x).shape == (2, 2)
        _split(tuple(x.shape), parts=2)[0].insert(0, 1)
        assert compiled(x).shape == (1, 2, 2)
        _split.cache_clear()
        assert compiled(x).shape == (2, 2)
        assert compiled(rl.arange(6)).shape == (2, 3)


def test_a_list_that_a_cache_gave_and_the_function_changes_stays_changed():
    def function(x: rl.Tensor) -> rl.Tensor:
        sizes = _split(tuple(x.shape), parts=2)[0]
        sizes.append(1)
        return x.reshape(sizes)

    runs: list[list[object]] = []
    for call in (function, rl.compile(function, backend="eager")):
        _empty()
        runs.append([tuple(call(rl.arange(4)).shape) for _ in range(CALLS)])
    assert runs[0] == runs[1]


def test_sizes_that_a_cache_is_asked_with_are_fixed():
    compiled = rl.compile(lambda x: x.reshape(_split(tuple(x.shape), parts=2)[0]), fullgraph=True)
    before = rl.compiler.graph_count()
    for count in (4, 6, 4, 6):
        assert compiled(rl.arange(count)).shape == (2, count // 2)
    assert rl.compiler.graph_count() == before + 2


@functools.lru_cache(maxsize=8)
def _positions(count: int, device: rl.device, dtype: rl.dtype) -> rl.Tensor:
    print(end="")  # which no graph holds
    return rl.arange(count, device=device, dtype=dtype)


def test_a_cache_is_asked_with_a_device_and_a_dtype_in_a_graph():
    def function(x: rl.Tensor) -> rl.Tensor:
        return x + _positions(2, x.device, x.dtype)

    compiled, before = rl.compile(function, fullgraph=True), rl.compiler.graph_count()
    for _ in range(CALLS):
        assert compiled(rl.ones(2)).tolist() == [1.0, 2.0]
    assert rl.compiler.graph_count() == before + 1
    assert compiled(rl.ones(2, dtype=rl.float64)).dtype is rl.float64
    assert rl.compiler.graph_count() == before + 2

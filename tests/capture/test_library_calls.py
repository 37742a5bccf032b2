"""What numpy and typing give for numbers and types is part of one graph, and so are random permutations."""

from __future__ import annotations

import os
import typing
from collections.abc import Callable
from typing import Any, Generic, Optional, TypeVar

import numpy as np
import pytest

import rushlight as rl

Value = TypeVar("Value")


class Box(Generic[Value]):
    def __init__(self, value: Any) -> None:
        self.value = value


def subscripted(x: Any) -> Any:
    annotated: Optional[rl.Tensor] = x  # noqa: UP045 - the older form is what is asked for
    forms = typing.List[int], typing.Dict[str, int], Optional[rl.Tensor], list[int]  # noqa: UP006, UP045
    return annotated * len(forms) + Box[int](3).value


def asked(x: Any) -> Any:
    kinds = typing.get_args(typing.Literal["a", "b"])
    return x * len(kinds) + (1 if typing.get_origin(typing.List[int]) is list else 0)  # noqa: UP006


ON_NUMBERS: dict[str, Callable[[Any], Any]] = {
    "annotations": subscripted,
    "parts of annotations": asked,
    "product of a shape": lambda x: x.reshape(int(np.prod(x.shape))) * float(np.prod(x.shape[1:])),
    "roots": lambda x: x * np.sqrt(x.shape[1]) + np.log(2.5),
    "classes of numbers": lambda x: x * np.float32(2) + np.int64(3),
    "dtypes": lambda x: x * np.dtype("float32").itemsize,
    "reductions": lambda x: x * np.mean([1, 2, 4]) + np.max((1, 2)) + np.clip(5, 0, 3) + np.argmax([1, 5, 2]),
    "paths": lambda x: x * len(os.path.join("a", "b")),
    "kinds of dtypes": lambda x: x * 2 if np.issubdtype(np.float32, np.floating) else x,
}


@pytest.mark.parametrize("name", ON_NUMBERS)
def test_functions_of_numbers_and_types_are_part_of_one_graph(name: str):
    function = ON_NUMBERS[name]
    compiled = rl.compile(function, fullgraph=True)
    for shape in ((3, 2), (4, 2), (4, 3)):
        x = rl.arange(float(shape[0] * shape[1])).reshape(shape)
        np.testing.assert_array_equal(compiled(x).numpy(), function(x).numpy())


def test_an_array_that_numpy_makes_and_a_warning_end_the_graph():
    for function in (lambda x: x * rl.tensor(np.arange(3)), lambda x: x * np.sqrt(-1.0)):
        with pytest.raises(rl.CompileError, match="numpy"):
            rl.compile(function, fullgraph=True)(rl.ones(3))
    assert rl.compile(lambda x: x * rl.tensor(np.arange(3)))(rl.ones(3)).tolist() == [0, 1, 2]


def test_random_permutations_are_part_of_one_graph():
    def shuffled(x: Any) -> Any:
        return x[rl.randperm(x.shape[0])], rl.rand(2), rl.randperm(4, dtype=rl.int32)

    compiled = rl.compile(shuffled, fullgraph=True)
    for size in (3, 5, 20):
        outcomes = []
        for function in (shuffled, compiled):
            rl.manual_seed(size)
            outcomes.append([(part.dtype, part.tolist()) for part in function(rl.arange(size))])
        assert outcomes[0] == outcomes[1]
    assert rl.compiler.graph_count() == 1

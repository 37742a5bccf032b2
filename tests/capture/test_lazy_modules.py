"""Modules whose first call gives their parameters shapes: compiled, it happens once, before the graph is traced."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight import nn
from rushlight.nn.modules.lazy import LazyModuleMixin

WAYS = {"parts": False, "one graph": True}
MODULES: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "linear": (lambda: nn.Sequential(nn.LazyLinear(4), nn.ReLU(), nn.LazyLinear(2)), (3, 5)),
    "convolution": (lambda: nn.Sequential(nn.LazyConv2d(4, 3), nn.LazyBatchNorm2d()), (2, 3, 5, 5)),
}


def compared(make: Callable[[], nn.Module], shape: tuple[int, ...], *, fullgraph: bool) -> nn.Module:
    """A module that has been called some times, compiled, with the results of an eager one."""
    rl.manual_seed(0)
    expected = make()
    results = [expected(rl.ones(shape) * turn) for turn in range(3)]
    rl.manual_seed(0)
    module = make()
    compiled = rl.compile(module, fullgraph=fullgraph)
    for turn, result in enumerate(results):
        np.testing.assert_array_equal(compiled(rl.ones(shape) * turn).detach().numpy(), result.detach().numpy())
    return module


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", MODULES)
def test_the_first_call_gives_modules_their_shapes(name: str, way: str):
    module = compared(*MODULES[name], fullgraph=WAYS[way])
    assert not any(isinstance(layer, LazyModuleMixin) for layer in module.modules())
    assert type(module).__name__ == "Sequential"


def test_one_graph_is_made_once_the_shapes_are_known():
    first = rl.compiler.graph_count()
    compared(*MODULES["linear"], fullgraph=True)
    assert rl.compiler.graph_count() - first == 1


class Scale(LazyModuleMixin):
    """A module of a program, with arguments of several kinds."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.UninitializedParameter()

    def initialize_parameters(self, given: dict[str, tuple[rl.Tensor, ...]], times: int = 1) -> None:
        with rl.no_grad():
            self.weight.materialize(given["x"][0].shape[-1:])
            self.weight.fill_(times)

    def forward(self, given: dict[str, tuple[rl.Tensor, ...]], times: int = 1) -> rl.Tensor:
        return given["x"][0] * self.weight


@pytest.mark.parametrize("way", WAYS)
def test_shapes_come_from_containers_and_numbers_too(way: str):
    module = Scale()
    function = rl.compile(lambda x: module({"x": (x,)}, times=3), fullgraph=WAYS[way])
    for _ in range(3):
        assert function(rl.ones(2, 4)).tolist() == [[3.0] * 4] * 2
    assert module.weight.shape == (4,)


def test_random_numbers_before_the_first_call_keep_their_order():
    def make() -> nn.Module:
        return nn.Sequential(nn.Dropout(0.5), nn.LazyLinear(4))

    compared(make, (3, 5), fullgraph=False)
    with pytest.raises(rl.CompileError, match="first call of a LazyLinear") as refused:
        rl.compile(make(), fullgraph=True)(rl.ones(3, 5))
    assert refused.value.code == "C039"


def test_lazy_modules_that_a_function_makes_take_states() -> None:
    def loaded() -> Any:
        module = nn.LazyBatchNorm1d()
        before = isinstance(module.running_mean, nn.UninitializedBuffer)
        module.load_state_dict(nn.BatchNorm1d(2).state_dict() | {"weight": rl.tensor([2.0, 3.0])})
        return before, module.weight.tolist(), type(module), module(rl.ones(3, 2)).tolist(), type(module)

    compiled = rl.compile(loaded)
    assert loaded() == compiled() == compiled()

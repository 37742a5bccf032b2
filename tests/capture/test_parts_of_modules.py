"""Parts that a program gives to modules, in functions in parts: each is kept where eager code has it."""

from __future__ import annotations

from typing import Any

import pytest

import rushlight as rl
from rushlight import nn


def pause() -> None:
    """What no graph holds."""
    print(end="")


class Net(nn.Module):
    """A module with parts of each kind, between which graphs end."""

    def __init__(self) -> None:
        super().__init__()
        pause()
        self.layer = nn.Linear(2, 2)
        pause()
        self.weight = nn.Parameter(rl.ones(2))
        self.register_buffer("registered", rl.zeros(2))
        self.number, self.bias = 3, None
        self.register_parameter("none", None)
        self.none = nn.Parameter(rl.ones(1))
        pause()
        self.layers = nn.ModuleList([nn.Linear(1, 1)])
        self.buffer = nn.Buffer(rl.ones(1))
        pause()
        self.hidden = nn.Buffer(rl.ones(2), persistent=False)


def shown(module: Any) -> Any:
    names = [[name for name, _ in each] for each in (module.named_parameters(), module.named_buffers())]
    return names, [name for name, _ in module.named_modules()], [*module.__dict__], [*module.state_dict()]


def of_a_class() -> Any:
    net = Net()
    pause()
    net.extra = nn.Buffer(rl.ones(1))
    del net.weight
    return shown(net)


def of_none() -> Any:
    module = nn.Module()
    pause()
    module.weight = nn.Parameter(rl.ones(2))
    pause()
    buffer = nn.Buffer(module.weight.detach())
    pause()
    module.buffer = buffer
    module.child = nn.Module()
    module.plain = rl.ones(1)
    return shown(module), isinstance(buffer, nn.Buffer), buffer.data_ptr() == module.weight.data_ptr()


@pytest.mark.parametrize("function", [of_a_class, of_none])
def test_parts_are_registered(function: Any) -> None:
    compiled = rl.compile(function, fullgraph=False, backend="eager")
    assert compiled() == compiled() == function()


@pytest.mark.parametrize(
    "value", [lambda: nn.Parameter(rl.ones(2)), lambda: nn.Linear(1, 1), lambda: nn.Buffer(rl.ones(2))]
)
def test_parts_of_a_module_among_the_arguments_are_registered(value: Any) -> None:
    def given(module: Any) -> Any:
        module.part = value()
        return shown(module)

    assert rl.compile(given, fullgraph=False, backend="eager")(nn.Module()) == given(nn.Module())

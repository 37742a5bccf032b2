"""Tensors of the meta device in functions compiled in parts: they have no elements there either."""

from __future__ import annotations

import pytest

import rushlight as rl


def _module():
    with rl.device("meta"):
        return rl.nn.Linear(3, 4).weight


PROGRAMS = {
    "a text": lambda: f"{rl.ones((), device='meta')}",
    "a number": lambda: rl.ones((), device="meta").item(),
    "a list": lambda: rl.ones(2, device="meta").tolist(),
    "a branch": lambda: 1 if rl.ones((), device="meta") else 2,
    "moved": lambda: rl.ones(2, device="meta").to("cpu"),
    "moved there": lambda: str(rl.ones(2).to("meta")),
    "computed": lambda: (rl.ones(2, device="meta") * 2).sum(),
    "mixed": lambda: rl.ones(2) + rl.ones(2, device="meta"),
    "a module": _module,
}


def outcome(function, *args):
    try:
        result = function(*args)
    except rl.RushlightError as error:
        return error.code
    return (result.device, result.shape, result.is_meta) if isinstance(result, rl.Tensor) else result


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_has_no_data_has_none_when_compiled(name):
    program = PROGRAMS[name]
    compiled = rl.compile(program)
    assert outcome(compiled) == outcome(program) == outcome(compiled)


def test_arguments_without_data():
    def program(x):
        return (x * 2).sum()

    x = rl.ones(3, device="meta")
    assert outcome(rl.compile(program), x) == outcome(program, x)
    assert outcome(rl.compile(program, fullgraph=True), x) == "V003"


def test_what_has_no_data_cannot_be_moved_though_nobody_uses_it():
    def program(x):
        rl.ones(3, device="meta").to("cpu")
        return x * 2

    def within(x):
        y = rl.ones(3, device="meta")
        y.cpu()
        return x * 2

    x = rl.ones(3)
    for function in (program, within):
        assert outcome(function, x) == "V003"
        assert outcome(rl.compile(function), x) == "V003"
        assert outcome(rl.compile(function, fullgraph=True), x) == "V003"

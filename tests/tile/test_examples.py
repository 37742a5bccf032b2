"""The examples: right on random shapes, with gradients, short, and without a read beyond their arguments."""

import importlib
import pkgutil
import random
from pathlib import Path

import examples.tile
import pytest

import rushlight as rl
from rushlight.autograd import gradcheck

NAMES = [module.name for module in pkgutil.iter_modules(examples.tile.__path__)]
SIZES = (0, 1, 2, 3, 7, 17, 33, 64, 129)


def example(name: str):
    return importlib.import_module(f"examples.tile.{name}")


def wide(args):
    return [arg.double() if arg.dtype.is_floating_point else arg for arg in args]


@pytest.mark.row("7.4")
@pytest.mark.parametrize("name", NAMES)
def test_an_example_is_right_on_random_shapes(name: str):
    module = example(name)
    draw = random.Random(name)
    rl.manual_seed(0)
    for turn in range(20):
        sizes = [draw.choice(SIZES) for _ in range(3)]
        args = module.inputs(*sizes)
        found, expected = module.run(*args), module.composition(*wide(args))
        assert found.shape == expected.shape, sizes
        if turn % 5 == 0:
            assert rl.equal(rl.compile(lambda *args: module.run(*args), fullgraph=True)(*args), found), sizes
        if found.numel():
            error = ((found.double() - expected).abs() / (1 + expected.abs())).max().item()
            assert error < 2e-6 * (1 + max(arg.shape[-1] for arg in args)) ** 0.5, sizes


@pytest.mark.parametrize("name", NAMES)
def test_the_gradients_of_an_example_are_those_of_its_values(name: str):
    module = example(name)
    rl.manual_seed(0)
    args = wide(module.inputs(3, 4, 2))
    for at in module.differentiable:
        args[at].requires_grad_()
    assert gradcheck(module.run, tuple(args))


@pytest.mark.parametrize("name", NAMES)
def test_an_example_is_short(name: str):
    path = Path(examples.tile.__path__[0], f"{name}.py")
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 60

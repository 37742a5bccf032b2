"""Optimizers give PyTorch's numbers in float64 after 20 steps, compiled too, in one program."""

import json
from pathlib import Path

import numpy as np
import pytest
from tests.optim import double_cases as cases
from tests.optim.test_compiled_steps import same, train

import rushlight as rl

TABLE = json.loads((Path(__file__).parent / "torch_double.json").read_text(encoding="utf-8"))


@pytest.fixture
def double():
    before = rl.get_default_dtype()
    rl.set_default_dtype(rl.float64)
    yield
    rl.set_default_dtype(before)


def compare(found, expected, tolerance):
    assert found.keys() == expected.keys()
    for key, value in found.items():
        np.testing.assert_allclose(value, expected[key], rtol=tolerance, atol=tolerance, err_msg=key)


@pytest.mark.parametrize("name", cases.OPTIMIZERS)
def test_optimizer_gives_torch_numbers(name, double):
    compare(cases.run_optimizer(rl, name), TABLE[name], 1e-12)


@pytest.mark.parametrize("name", cases.SEARCHES)
def test_search_gives_torch_numbers(name, double):
    compare(cases.run_search(rl, name), TABLE[name], 1e-9)


@pytest.mark.parametrize(
    ("name", "graphs"),
    [
        ("adadelta", 1),
        ("adafactor", 1),
        ("adamax", 1),
        ("asgd_default", 1),
        ("nadam", 1),
        ("rprop", 1),
        ("radam_late", 2),
    ],
)
def test_compiled_steps_are_the_eager_ones(name, graphs):
    eager = train(cases.OPTIMIZERS[name], compiled=False)
    compiled = train(cases.OPTIMIZERS[name], compiled=True)
    same(eager, compiled)
    assert compiled[2] == graphs

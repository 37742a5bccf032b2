"""A script written for PyTorch trains here as it does there: eager, compiled, and in one graph for a whole schedule."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tests.training import digits

import rushlight as rl

HERE = Path(__file__).parent
TORCH = json.loads((HERE / "torch_digits.json").read_text(encoding="utf-8"))
STEPS = TORCH["steps"]


@pytest.fixture(scope="module")
def data():
    return digits.load_data()


@pytest.fixture(scope="module")
def eager(data):
    return digits.train(data[0], data[2], STEPS)


def test_the_data_are_real_images_split_by_class(data):
    train_images, test_images, train_labels, test_labels = data
    assert (len(train_images), len(test_images)) == (1437, 360)
    shares = [np.bincount(labels) / len(labels) for labels in (train_labels, test_labels)]
    np.testing.assert_allclose(*shares, atol=0.005)


def test_losses_are_those_of_torch(eager):
    losses, _ = eager
    np.testing.assert_allclose(losses[:50], TORCH["losses"][:50], rtol=0, atol=1e-5)


def test_digits_are_recognised(data, eager):
    found = digits.accuracy(eager[1], data[1], data[3])
    assert found >= 0.97
    assert found == pytest.approx(TORCH["recognised"], abs=0.01)


@pytest.mark.parametrize("part", ["compile_step", "compile_model"])
def test_compiled_training_has_the_same_bits_in_one_graph(data, eager, part):
    rl.compiler.reset()
    losses, network = digits.train(data[0], data[2], STEPS, **{part: True})
    assert losses == eager[0]
    assert rl.compiler.graph_count() == 1
    assert digits.accuracy(network, data[1], data[3]) == digits.accuracy(eager[1], data[1], data[3])
    assert rl.compiler.graph_count() == 2


def test_only_the_import_lines_name_rushlight():
    lines = (HERE / "digits.py").read_text(encoding="utf-8").splitlines()
    naming = [line for line in lines if "rushlight" in line]
    assert naming == [
        "import rushlight as torch",
        "from rushlight import nn, optim",
        "from rushlight.nn import functional as F",
    ]


def test_the_script_runs_by_itself():
    command = [sys.executable, str(HERE / "digits.py")]
    path = str(Path(rl.__file__).parent.parent)
    ended = subprocess.run(command, env={"PYTHONPATH": path}, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    assert "of the test images recognised" in ended.stdout

"""Attention, transformers, recurrent layers and what is built of them agree with frozen values of PyTorch."""

from pathlib import Path

import numpy as np
import pytest
from tests.nn.systems import cases

import rushlight as rl

FROZEN = np.load(Path(__file__).with_name("torch_systems.npz"))


def compare(name, found, expected):
    assert set(found) == set(expected)
    for key, array in found.items():
        assert array.dtype == expected[key].dtype, key
        # Gradients are sums of up to a few hundred products: single precision leaves about six digits of the largest.
        scale = max(1.0, float(np.abs(np.nan_to_num(expected[key])).max(initial=0.0)))
        np.testing.assert_allclose(array, expected[key], rtol=3e-5, atol=5e-6 * scale, err_msg=f"{name}/{key}")


@pytest.mark.parametrize("name", cases.CASES)
def test_module_agrees_with_frozen_torch_values(name):
    expected = {key.removeprefix(f"{name}/"): FROZEN[key] for key in FROZEN.files if key.startswith(f"{name}/")}
    assert expected
    compare(name, cases.run(rl, name), expected)

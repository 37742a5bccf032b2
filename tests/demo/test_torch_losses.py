"""The demo's first losses are torch's: against a frozen table always, and live where torch is installed."""

import importlib
import importlib.util
import json

import pytest
from tests.demo import reference_losses

import rushlight as rl
from rushlight.demo import model, training

TOLERANCE = 1e-4


def largest_difference(found: list[float], expected: list[float]) -> float:
    return max(abs(one - other) for one, other in zip(found, expected, strict=True))


@pytest.mark.core
def test_fifty_losses_are_torchs():
    expected = json.loads(reference_losses.TABLE.read_text(encoding="utf-8"))["losses"]
    assert len(expected) == reference_losses.STEPS
    found = reference_losses.losses(rl, model, training)
    assert largest_difference(found, expected) < TOLERANCE


@pytest.mark.peer
def test_the_table_is_still_torchs():
    if importlib.util.find_spec("torch") is None:
        pytest.skip("torch is not installed")
    expected = json.loads(reference_losses.TABLE.read_text(encoding="utf-8"))["losses"][:10]
    assert largest_difference(reference_losses.torch_losses(importlib.import_module("torch"), 10), expected) < TOLERANCE

"""Rounding errors, against float64, are about those of torch on the same inputs."""

import json
from pathlib import Path

import pytest

import rushlight as rl
from rms_cases import CASES, error_of

TORCH = json.loads(Path(__file__).with_name("torch_rms.json").read_text(encoding="utf-8"))["errors"]
MOST = 1.5


@pytest.mark.parametrize("name", CASES)
def test_errors_are_about_those_of_torch(name: str):
    assert error_of(name, rl.nn.functional, rl.from_numpy) <= MOST * TORCH[name]

"""Samples of PyTorch's operator database, and gradients, against what PyTorch made of them."""

from __future__ import annotations

import functools
from pathlib import Path

import pytest

from rushlight.support import settings
from tools.fuzz.recording import Recorded, replay

SHARES = 4


@functools.cache
def recorded() -> Recorded:
    return Recorded(Path(__file__).with_name("operator_samples.npz"))


@pytest.mark.parametrize("share", range(SHARES))
def test_samples_give_what_they_give_in_pytorch(share: int) -> None:
    calls = range(share, len(recorded().programs), SHARES)
    assert len(calls) > 100
    with settings.override(optimise=0):  # each kernel runs once
        wrong = [replay(recorded(), number) for number in calls]
    assert not [detail for detail in wrong if detail is not None]
